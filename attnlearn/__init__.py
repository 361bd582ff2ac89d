"""attnlearn: Transformer attention, small enough to read in an afternoon.

Importing it needs only NumPy; PyTorch is imported by the implementation that uses it.
"""

from .api import attention, attention_weights, pick
from .masks import (
    EMPTY,
    FULL,
    PARTIAL,
    Causal,
    Chunked,
    Dense,
    Dilated,
    Document,
    Full,
    Gather,
    Global,
    Mask,
    PerExample,
    PerHead,
    Prefix,
    RandomBlocks,
    Window,
    padding,
)

__version__ = "0.1.0"

__all__ = [
    "EMPTY",
    "FULL",
    "PARTIAL",
    "Causal",
    "Chunked",
    "Dense",
    "Dilated",
    "Document",
    "Full",
    "Gather",
    "Global",
    "Mask",
    "PerExample",
    "PerHead",
    "Prefix",
    "RandomBlocks",
    "Window",
    "attention",
    "attention_weights",
    "padding",
    "pick",
]
