"""What the layers ask of their arguments."""

from __future__ import annotations

from collections.abc import Callable
from numbers import Real

import torch
from torch import Tensor, nn

from ..api import as_mask
from ..cache import Cache, QuantizedCache
from ..position import Position


def positions(x: Tensor, at: Tensor | None) -> Tensor:
    """``at`` as int64, once it is known to fit x [B, T, ...]; 0, 1, 2, ... if it is None."""
    B, T = x.shape[:2]
    if at is None:
        return torch.arange(T, device=x.device)
    if not isinstance(at, Tensor) or not whole(at) or at.shape not in ((T,), (B, T)):
        got = f"{at.dtype} {list(at.shape)}" if isinstance(at, Tensor) else type(at).__name__
        raise ValueError(f"at must be whole numbers [{T}] or [{B}, {T}], got {got}")
    return at.to(x.device, torch.int64)


def whole(x: Tensor) -> bool:
    """Are these whole numbers, by their dtype?"""
    return not (x.is_floating_point() or x.is_complex() or x.dtype == torch.bool)


def check_heads(d_model: int, n_heads: int, n_kv_heads: int) -> None:
    numbers = {"d_model": d_model, "n_heads": n_heads, "n_kv_heads": n_kv_heads}
    for name, n in numbers.items():
        if not isinstance(n, int) or isinstance(n, bool) or n < 1:
            raise ValueError(f"{name} must be a whole number from 1, got {n!r}")
    if d_model % n_heads:
        raise ValueError(f"d_model must be a multiple of n_heads, got {d_model} and {n_heads}")
    if n_heads % n_kv_heads:
        raise ValueError(
            f"n_heads must be a multiple of n_kv_heads, got {n_heads} and {n_kv_heads}"
        )


def check_share(name: str, share: float) -> None:
    if not isinstance(share, Real) or not 0 <= share < 1:
        raise ValueError(f"{name} must be a number from 0 to below 1, got {share!r}")


def check_attend(attend: Callable) -> None:
    if not callable(attend):
        raise TypeError(
            f"attend must be a function like attention, got {attend!r}; for one algorithm pass "
            'functools.partial(attention, impl="flash")'
        )


def checked_position(position: Position | None) -> Position:
    """A scheme that has something to do inside a layer, or the one that does nothing anywhere."""
    if position is None:
        return Position()
    if not isinstance(position, Position):
        raise TypeError(f"position must be a Position, such as Rotary(), got {position!r}")
    if type(position) is not Position and not position.in_layers:
        raise ValueError(f"{position} acts on the embeddings: call its embed before the layers")
    return position


def check_cache(layer, x, mask, cache, real, **others) -> None:
    """Raise, before anything is stored, unless the cache is one of this layer's shape."""
    if cache is None:
        if real is not None:
            raise ValueError(
                "real is for a cache; without one hide padding by mask=padding(lengths), and pass "
                "at= if it stands to the left"
            )
        return
    if not isinstance(cache, Cache):
        raise TypeError(f"cache must be a Cache, such as layer.cache(...), got {cache!r}")
    for name, value in others.items():
        if value is not None:
            raise ValueError(f"{name} must not be given with a cache: it holds the tokens before x")
    extra = layer.position.extra(cache.dtype)
    want = layer.n_kv_heads, layer.d_head + extra, layer.d_head
    got = cache.heads, cache.width, cache.value_width
    if got != want:
        raise ValueError(
            f"cache has (heads, width, value_width) = {got}, this layer needs {want}: make it with "
            "layer.cache(...)"
        )
    if isinstance(cache, QuantizedCache) and cache.exact < extra:
        raise ValueError(
            f"cache would round the positions in the keys of {layer.position}: it needs "
            f"exact={extra}, as layer.cache(...) gives it"
        )
    weight = layer.k.weight
    if cache.device != weight.device:
        raise ValueError(f"cache is on {cache.device}, but the weights are on {weight.device}")
    if cache.dtype != weight.dtype and not torch.is_autocast_enabled(weight.device.type):
        raise TypeError(f"cache is for {cache.dtype}, but the weights are {weight.dtype}")
    if len(x) != cache.batch:
        raise ValueError(f"x has {len(x)} examples, and the cache is for {cache.batch}")
    cache.step(x.shape[1], real)
    lead = as_mask(mask).spread()
    if len(lead) == 2 and lead[1] not in (1, layer.n_heads):
        raise ValueError(f"mask is for {lead[1]} heads, and the layer has {layer.n_heads}")


def check_vectors(name: str, axis: str, x: Tensor, layer: nn.Linear) -> None:
    if x.ndim != 3 or x.shape[-1] != layer.in_features:
        raise ValueError(f"{name} must be [B, {axis}, {layer.in_features}], got {list(x.shape)}")
    if x.dtype != layer.weight.dtype and not torch.is_autocast_enabled(x.device.type):
        raise TypeError(f"{name} is {x.dtype}, but the weights are {layer.weight.dtype}")


def check_mask(mask, x: Tensor) -> None:
    """PyTorch's key_padding_mask is [B, S], and would be read as [T, S]."""
    shape = getattr(mask, "shape", None)
    if shape is not None and len(shape) == 2 and shape[0] != x.shape[1]:
        raise ValueError(
            f"a mask of two axes must be [T, S] with T = {x.shape[1]}, got {list(shape)}; "
            "for padding pass padding(lengths)"
        )


def check_caches(cache, model) -> None:
    """Raise unless there is one for each block, and all have read the same tokens."""
    if not isinstance(cache, list | tuple) or not all(isinstance(one, Cache) for one in cache):
        raise TypeError(f"cache must be a list with a Cache per block: model.caches, got {cache!r}")
    if len({id(one) for one in cache}) != len(cache):
        raise ValueError("cache: one object is there twice, but each block needs its own")
    if len(cache) != len(model.blocks):
        raise ValueError(f"cache has {len(cache)} for {len(model.blocks)} blocks: model.caches")
    lengths = [one.lengths.tolist() for one in cache]
    if any(one != lengths[0] for one in lengths):
        raise ValueError(
            f"cache: the blocks have read unlike numbers of tokens, {lengths}, as after a call "
            "that broke off: truncate or reset them to equal lengths"
        )
    if torch.is_grad_enabled() and any(p.requires_grad for p in model.parameters()):
        raise ValueError("a cache keeps no gradients: decode under torch.no_grad()")


def checked_tokens(tokens: Tensor, vocab: int) -> Tensor:
    """Tokens of any whole dtype as int64, once they are known to be in the vocabulary."""
    if not isinstance(tokens, Tensor) or tokens.ndim != 2 or not whole(tokens):
        got = type(tokens).__name__
        if isinstance(tokens, Tensor):
            got = f"{tokens.dtype} {list(tokens.shape)}"
        raise ValueError(f"tokens must be a tensor of whole numbers [B, T], got {got}")
    tokens = tokens.long()
    if tokens.numel() and not 0 <= tokens.min() <= tokens.max() < vocab:
        raise ValueError(
            f"tokens must be from 0 to {vocab - 1}, got {tokens.min()} to {tokens.max()}"
        )
    return tokens
