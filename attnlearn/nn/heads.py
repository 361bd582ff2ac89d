"""Many heads: project, attend in every subspace, project back."""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import Tensor, nn

from ..api import attention, attention_weights
from ..cache import Cache, KVCache, QuantizedCache
from ..masks import Mask
from ..position import Alibi, Position, check_note, note
from .checks import (
    check_attend,
    check_cache,
    check_heads,
    check_mask,
    check_share,
    check_vectors,
    checked_position,
    positions,
)
from .convert import take_over


class MultiHeadAttention(nn.Module):
    """Attention in ``n_heads`` subspaces at once: project, attend, project back.

    x [B, T, C], context [B, S, d_context] -> [B, T, C]. With fewer ``n_kv_heads`` a group of
    query heads shares a key and value head: GQA (arXiv 2305.13245), and MQA with one (1911.02150).
    ``share_values``: one value projection for all heads. ``gate``: each head's output times
    a sigmoid of x (2505.06708). ``position``: a scheme of ``attnlearn.position``. ``dropout``: the
    share of weights set to 0 in training. Source: arXiv 1706.03762.

    What a hidden token holds, NaN included, reaches the output of no other token. (The gradients
    of the projections do read it: 0 · NaN is NaN.)
    """

    def __init__(
        self,
        d_model: int,
        n_heads: int,
        n_kv_heads: int | None = None,
        *,
        d_context: int | None = None,
        share_values: bool = False,
        gate: bool = False,
        position: Position | None = None,
        dropout: float = 0.0,
        bias: bool = True,
        attend: Callable = attention,
    ):
        super().__init__()
        n_kv_heads = n_heads if n_kv_heads is None else n_kv_heads
        check_heads(d_model, n_heads, n_kv_heads)
        check_share("dropout", dropout)
        self.d_model, self.d_head = d_model, d_model // n_heads
        self.n_heads, self.n_kv_heads = n_heads, n_kv_heads
        self.n_v_heads = 1 if share_values else n_kv_heads
        self.d_context, self.dropout, self.attend = d_context, dropout, attend
        self.position = checked_position(position)
        source = d_model if d_context is None else d_context
        self.q = nn.Linear(d_model, d_model, bias=bias)
        self.k = nn.Linear(source, n_kv_heads * self.d_head, bias=bias)
        self.v = nn.Linear(source, self.n_v_heads * self.d_head, bias=bias)
        self.g = nn.Linear(d_model, d_model, bias=bias) if gate else None
        self.o = nn.Linear(d_model, d_model, bias=bias)

    def forward(
        self,
        x: Tensor,
        mask: Mask | None = None,
        *,
        context: Tensor | None = None,
        at: Tensor | None = None,
        cache: Cache | None = None,
        real: Tensor | None = None,
    ) -> Tensor:
        """x [B, T, C] -> [B, T, C], looking at ``context``, or at x itself without one.

        ``at``: positions [T] or [B, T], 0, 1, 2, ... unless given. Without a mask all is seen.
        ``cache``: x goes on from what it holds, and is added to it; it knows the positions.
        ``real``: bool [B, T], False on padding, which is not added.
        """
        q, k, v = self.project(x, mask, context, at, cache, real)
        if cache is not None:
            k, v, mask = cache.append(k, v, mask, real)
        how = {"dropout": self.dropout} if self.training and self.dropout else {}
        o = merge(self.attend(q, k, v, mask, scale=self.d_head**-0.5, **how))
        return self.o(o if self.g is None else o * self.g(x).sigmoid())

    def weights(self, x, mask=None, *, context=None, at=None) -> Tensor:
        """The weights [B, Hq, T, S] behind ``forward``'s answer, without dropout."""
        q, k, _ = self.project(x, mask, context, at)
        return attention_weights(q, k, mask, scale=self.d_head**-0.5)

    def project(
        self, x, mask=None, context=None, at=None, cache=None, real=None
    ) -> tuple[Tensor, Tensor, Tensor]:
        """q [B, Hq, T, D], k and v [B, Hk, S, D], with their positions."""
        source = self.source(x, context)
        check_mask(mask, x)
        check_cache(self, x, mask, cache, real, context=context, at=at)
        if mask is None and isinstance(self.position, Alibi):
            raise ValueError("Alibi would reward keys in the future: pass mask=Causal()")
        at = positions(x, at) if cache is None else cache.positions(x.shape[1], real)
        keys = self.position.keys if cache is None else self.position.kept
        q, k = split(self.q(x), self.n_heads), split(self.k(source), self.n_kv_heads)
        v = split(self.v(source), self.n_v_heads).expand(-1, self.n_kv_heads, -1, -1)
        return self.position.queries(q, at), keys(k, at), v

    def cache(self, batch: int, length: int, kind: type[Cache] = KVCache, **options) -> Cache:
        """An empty cache for this layer.

        ``length``: what the kind counts, that is tokens of a row, the window, or blocks in all;
        ``options`` are the kind's.
        """
        weight = self.k.weight
        extra = self.position.extra(options.get("dtype", weight.dtype))
        how = {"dtype": weight.dtype, "device": weight.device} | options
        if kind is QuantizedCache:
            how = {"exact": extra} | how
        return kind(batch, self.n_kv_heads, length, self.d_head + extra, self.d_head, **how)

    def source(self, x: Tensor, context: Tensor | None) -> Tensor:
        """What keys and values are made from, once the arguments are known to fit."""
        check_vectors("x", "T", x, self.q)
        if context is None and self.d_context is not None:
            raise ValueError(f"context must be given: [B, S, {self.d_context}]")
        if context is None:
            return x
        check_vectors("context", "S", context, self.k)
        if len(context) != len(x):
            raise ValueError(f"context has {len(context)} examples and x has {len(x)}")
        if self.position.in_layers:
            raise ValueError(
                f"{self.position} tells how far a key is, but a context has an order of its own: "
                "use position=None"
            )
        return context

    def __setattr__(self, name: str, value) -> None:
        if name == "attend":  # a function may follow a module, which torch keeps elsewhere
            check_attend(value)
            self._modules.pop(name, None)
        super().__setattr__(name, value)

    def load_torch(self, other: nn.MultiheadAttention) -> MultiHeadAttention:
        """Take over the weights and the dropout of PyTorch's layer; returns this layer.

        It then answers as that one does, on [B, T, C], whatever its ``batch_first``. Raises
        ValueError if its heads, widths or extras have no place here.
        """
        take_over(self, other)
        return self

    def get_extra_state(self) -> Tensor:
        return note(self.extra_repr())

    def set_extra_state(self, state: Tensor) -> None:
        check_note(state, self.extra_repr())

    def extra_repr(self) -> str:
        return f"{self.n_heads} query, {self.n_kv_heads} key and {self.n_v_heads} value heads"


class DropHead(nn.Module):
    """Attention that loses whole heads in training, each with probability p (arXiv 2004.13342).

    Pass it as ``attend``. The heads that are kept are divided by the share that was kept, so that
    the mean stays; one head is always kept. In evaluation it is ``attend`` itself.
    """

    def __init__(self, p: float, attend: Callable = attention):
        super().__init__()
        check_share("p", p)
        self.p, self.attend = p, attend

    def forward(self, q, k, v, mask=None, **how) -> Tensor:
        o = self.attend(q, k, v, mask, **how)
        if not self.training or self.p == 0:
            return o
        drawn = torch.rand(*o.shape[:-2], 1, 1, device=o.device)
        kept = (drawn >= self.p) | (drawn == drawn.amax(-3, keepdim=True))
        return torch.where(kept, o / kept.to(o.dtype).mean(-3, keepdim=True), 0)

    def extra_repr(self) -> str:
        return f"p={self.p}"


def split(x: Tensor, heads: int) -> Tensor:
    """[B, T, heads · D] -> [B, heads, T, D]: a view, nothing is copied."""
    return x.unflatten(-1, (heads, -1)).transpose(-3, -2)


def merge(o: Tensor) -> Tensor:
    """[B, heads, T, D] -> [B, T, heads · D]: ``split`` undone."""
    return o.transpose(-3, -2).flatten(-2)
