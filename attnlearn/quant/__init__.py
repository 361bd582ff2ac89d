"""Attention on small integers: how to make them, and what they cost.

``quantize`` turns numbers into INT8 or INT4 with a scale per group, ``attention`` multiplies
queries and keys as integers, and ``smooth`` is what makes that work: the mean of the keys goes
first. ``reference`` says the same in plain NumPy.

Sources: SageAttention (arXiv 2410.02367), SageAttention2 (2411.10958), KIVI (2402.02750).
"""

from .attend import attention
from .codes import Quantized, quantize
from .mean import smooth
from .nibbles import pack, unpack

__all__ = ["Quantized", "attention", "pack", "quantize", "smooth", "unpack"]
