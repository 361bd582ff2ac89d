"""Attention as layers: many heads, the Transformer block, and a small language model.

The layers know no algorithm: they call the function ``attend``. Another algorithm is
``partial(attention, impl="flash")``; something that happens around it, like ``DropHead``, is a
module with the same signature.
"""

from .heads import DropHead, MultiHeadAttention, merge, split
from .model import Block, TinyLM

__all__ = ["Block", "DropHead", "MultiHeadAttention", "TinyLM", "merge", "split"]
