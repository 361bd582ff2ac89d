"""Many heads: project, attend in every subspace, project back."""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import Tensor, nn

from ..api import attention, attention_weights
from ..masks import Mask
from ..position import Position
from .convert import take_over


class MultiHeadAttention(nn.Module):
    """Attention in ``n_heads`` subspaces at once: project, attend, project back.

    x [B, T, C], context [B, S, d_context] -> [B, T, C]. With fewer ``n_kv_heads`` a group of
    query heads shares a key and value head: GQA (arXiv 2305.13245), and MQA with one (1911.02150).
    ``share_values``: one value projection for all heads. ``gate``: each head's output times
    a sigmoid of x (2505.06708). ``position``: a scheme of ``attnlearn.position``. ``dropout``: the
    share of weights set to 0 in training. Source: arXiv 1706.03762.
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
        if not 0 <= dropout < 1:
            raise ValueError(f"dropout must be from 0 to below 1, got {dropout}")
        if position is not None and position.on_embeddings_only:
            raise ValueError(f"{position} adds to the embeddings: call its embed before the layers")
        self.d_model, self.d_head = d_model, d_model // n_heads
        self.n_heads, self.n_kv_heads = n_heads, n_kv_heads
        self.n_v_heads = 1 if share_values else n_kv_heads
        self.d_context, self.dropout, self.attend = d_context, dropout, attend
        self.position = Position() if position is None else position
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
    ) -> Tensor:
        """x [B, T, C] -> [B, T, C], looking at ``context``, or at x itself without one.

        ``at``: positions [T] or [B, T], 0, 1, 2, ... unless given. Without a mask all is seen.
        """
        q, k, v = self.project(x, context, at)
        how = {"dropout": self.dropout} if self.training and self.dropout else {}
        o = merge(self.attend(q, k, v, mask, scale=self.d_head**-0.5, **how))
        return self.o(o if self.g is None else o * self.g(x).sigmoid())

    def weights(self, x, mask=None, *, context=None, at=None) -> Tensor:
        """The weights [B, Hq, T, S] behind ``forward``'s answer, without dropout."""
        q, k, _ = self.project(x, context, at)
        return attention_weights(q, k, mask, scale=self.d_head**-0.5)

    def project(self, x, context=None, at=None) -> tuple[Tensor, Tensor, Tensor]:
        """q [B, Hq, T, D], k and v [B, Hk, S, D], with their positions."""
        source = self.checked(x, context)
        q, k = split(self.q(x), self.n_heads), split(self.k(source), self.n_kv_heads)
        v = split(self.v(source), self.n_v_heads).expand(-1, self.n_kv_heads, -1, -1)
        at = positions(x, at)
        return self.position.queries(q, at), self.position.keys(k, at), v

    def checked(self, x: Tensor, context: Tensor | None) -> Tensor:
        """What keys and values are made from, once the arguments are known to fit."""
        check_width("x", x, self.d_model)
        if context is None and self.d_context is not None:
            raise ValueError(f"context must be given: [B, S, {self.d_context}]")
        if context is None:
            return x
        check_width("context", context, self.d_context or self.d_model)
        if len(context) != len(x):
            raise ValueError(f"context has {len(context)} examples and x has {len(x)}")
        if type(self.position) is not Position:
            raise ValueError(
                f"{self.position} tells how far a key is, but a context has an order of its own: "
                "use position=None"
            )
        return context

    def load_torch(self, other: nn.MultiheadAttention) -> MultiHeadAttention:
        """Take over the weights of PyTorch's layer, to answer as it does; returns this layer.

        Raises ValueError if its heads, widths or extras have no place here.
        """
        take_over(self, other)
        return self

    def get_extra_state(self) -> dict:
        """How the rows of the weights are meant: the same numbers fit other layouts, too."""
        return {
            "heads": self.n_heads,
            "kv_heads": self.n_kv_heads,
            "v_heads": self.n_v_heads,
            "position": repr(self.position),
        }

    def set_extra_state(self, state: dict) -> None:
        if state != self.get_extra_state():
            raise ValueError(f"weights of {state} do not fit a layer of {self.get_extra_state()}")

    def extra_repr(self) -> str:
        return f"{self.n_heads} heads over {self.n_kv_heads} of width {self.d_head}"


class DropHead(nn.Module):
    """Attention that loses whole heads in training, each with probability p (arXiv 2004.13342).

    Pass it as ``attend``. The heads that are kept are divided by the share that was kept; an
    example that loses all of them gets zeros. In evaluation it is ``attend`` itself.
    """

    def __init__(self, p: float, attend: Callable = attention):
        super().__init__()
        if not 0 <= p < 1:
            raise ValueError(f"p must be from 0 to below 1, got {p}")
        self.p, self.attend = p, attend

    def forward(self, q, k, v, mask=None, **how) -> Tensor:
        o = self.attend(q, k, v, mask, **how)
        if not self.training or self.p == 0:
            return o
        kept = (torch.rand(*o.shape[:-2], 1, 1, device=o.device) >= self.p).to(o.dtype)
        return o * kept / kept.mean(-3, keepdim=True).clamp(min=1 / o.shape[-3])

    def extra_repr(self) -> str:
        return f"p={self.p}"


def split(x: Tensor, heads: int) -> Tensor:
    """[B, T, heads · D] -> [B, heads, T, D]: a view, nothing is copied."""
    return x.unflatten(-1, (heads, -1)).transpose(-3, -2)


def merge(o: Tensor) -> Tensor:
    """[B, heads, T, D] -> [B, T, heads · D]: ``split`` undone."""
    return o.transpose(-3, -2).flatten(-2)


def positions(x: Tensor, at: Tensor | None) -> Tensor:
    """``at``, or 0, 1, 2, ... for x [B, T, ...]."""
    return torch.arange(x.shape[1], device=x.device) if at is None else at


def check_heads(d_model: int, n_heads: int, n_kv_heads: int) -> None:
    if min(d_model, n_heads, n_kv_heads) < 1:
        raise ValueError(f"widths and heads start at 1, got {d_model, n_heads, n_kv_heads}")
    if d_model % n_heads:
        raise ValueError(f"d_model must be a multiple of n_heads, got {d_model} and {n_heads}")
    if n_heads % n_kv_heads:
        raise ValueError(
            f"n_heads must be a multiple of n_kv_heads, got {n_heads} and {n_kv_heads}"
        )


def check_width(name: str, x: Tensor, width: int) -> None:
    if x.ndim != 3 or x.shape[-1] != width:
        raise ValueError(f"{name} must be [B, T, {width}], got {list(x.shape)}")
