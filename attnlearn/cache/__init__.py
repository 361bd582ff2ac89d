"""Caches: the keys and values of the tokens so far, so that decoding computes none of them twice.

A cache serves one layer, for inference. ``append`` stores the keys and values of the coming tokens
and hands back what their queries attend to, together with the mask that fits:

    k, v, mask = cache.append(k, v, Causal())
    o = attention(q, k, v, mask)

One token at a time, several, or all at once: the answer is the same. Every row of a batch has a
length of its own, and positions count its real tokens only.
"""

from .base import Cache
from .contiguous import KVCache
from .paged import Blocks, PagedCache
from .quantized import QuantizedCache
from .window import WindowCache

__all__ = ["Blocks", "Cache", "KVCache", "PagedCache", "QuantizedCache", "WindowCache"]
