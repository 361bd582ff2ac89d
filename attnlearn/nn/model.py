"""The Transformer block, and a small language model made of it."""

from __future__ import annotations

import json
import math
from pathlib import Path
from zipfile import BadZipFile

import numpy as np
import torch
from torch import Tensor, nn

from ..api import as_mask
from ..cache import Cache, KVCache
from ..masks import Causal, Mask
from ..position import Position, Rotary
from .checks import check_cache, check_caches, check_mask, checked_tokens, positions
from .heads import MultiHeadAttention

WEIGHTS = Path(__file__).parent.parent / "weights"


class Block(nn.Module):
    """A Transformer block that normalises before each part: x + attention, then x + MLP.

    x [B, T, C] -> [B, T, C]. ``hidden``: width of the MLP, 4 C unless given; further options are
    ``MultiHeadAttention``'s. Sources: arXiv 1706.03762, 2002.04745 (norms first), 1910.07467.
    """

    def __init__(
        self,
        d_model: int,
        n_heads: int,
        n_kv_heads: int | None = None,
        *,
        hidden: int | None = None,
        **options,
    ):
        super().__init__()
        hidden = 4 * d_model if hidden is None else hidden
        self.attention_norm = nn.RMSNorm(d_model)
        self.attention = MultiHeadAttention(d_model, n_heads, n_kv_heads, **options)
        self.mlp_norm = nn.RMSNorm(d_model)
        self.mlp = nn.Sequential(nn.Linear(d_model, hidden), nn.GELU(), nn.Linear(hidden, d_model))

    def forward(self, x: Tensor, mask: Mask | None = None, **how) -> Tensor:
        """``how``: ``at``, ``cache`` and ``real`` of ``MultiHeadAttention``."""
        x = x + self.attention(self.attention_norm(x), mask, **how)
        return x + self.mlp(self.mlp_norm(x))


class TinyLM(nn.Module):
    """A decoder that reads bytes and guesses the next one.

    tokens [B, T] -> logits [B, T, vocab]; the embedding is used again to read the answer.
    ``position``: a scheme of ``attnlearn.position``, or None: order from the causal mask alone.
    Further options are ``Block``'s.
    """

    def __init__(
        self,
        vocab: int = 256,
        d_model: int = 96,
        n_layers: int = 4,
        n_heads: int = 4,
        n_kv_heads: int | None = None,
        *,
        position: Position | None = None,
        **options,
    ):
        super().__init__()
        self.position = Position() if position is None else position
        self.embedding = nn.Embedding(vocab, d_model)
        inside = self.position if self.position.in_layers else None
        self.blocks = nn.ModuleList(
            Block(d_model, n_heads, n_kv_heads, position=inside, **options) for _ in range(n_layers)
        )
        self.norm = nn.RMSNorm(d_model)
        nn.init.normal_(self.embedding.weight, std=d_model**-0.5)  # first logits of size 1
        for block in self.blocks:  # 2 n_layers terms add up in x: keep their sum at the size of one
            for last in (block.attention.o, block.mlp[-1]):
                last.weight.data /= (2 * n_layers) ** 0.5

    def forward(
        self,
        tokens: Tensor,
        mask: Mask | None = None,
        *,
        at: Tensor | None = None,
        cache: list[Cache] | None = None,
        real: Tensor | None = None,
    ) -> Tensor:
        """Logits of the token after each; ``mask`` hides more than the future, such as padding.

        ``cache``: what ``caches`` made; the tokens go on from those it holds, and are added.
        ``real``: bool [B, T], False on padding, which is not added.
        """
        tokens = checked_tokens(tokens, self.embedding.num_embeddings)
        check_mask(mask, tokens)
        seen = Causal() if mask is None else Causal() & as_mask(mask)
        hows = self.hows(tokens, seen, at, cache, real)
        at = positions(tokens, at) if cache is None else cache[0].positions(tokens.shape[1], real)
        x = self.position.embed(self.embedding(tokens), at)
        for block, how in zip(self.blocks, hows, strict=True):
            x = block(x, seen, **how)
        return self.norm(x) @ self.embedding.weight.T

    def hows(self, tokens, mask, at, cache, real) -> list[dict]:
        """What each block is called with, once every cache is known to fit and to have room."""
        if cache is None:
            return [{"at": at, "real": real}] * len(self.blocks)
        check_caches(cache, self)
        for block, one in zip(self.blocks, cache, strict=True):
            check_cache(block.attention, tokens, mask, one, real, at=at)
        return [{"cache": one, "real": real} for one in cache]

    def caches(self, batch: int, length: int, kind: type[Cache] = KVCache, **options) -> list:
        """An empty cache for each block: ``MultiHeadAttention.cache``."""
        return [block.attention.cache(batch, length, kind, **options) for block in self.blocks]

    def bits(self, tokens: Tensor, mask: Mask | None = None, *, at=None) -> Tensor:
        """Bits needed for each token after the first, [B, T - 1], known those before it.

        ``mask`` and ``at`` are for the first T - 1 tokens, those that are read.
        """
        tokens = checked_tokens(tokens, self.embedding.num_embeddings)
        return bits(self(tokens[:, :-1], mask, at=at), tokens[:, 1:])

    @classmethod
    def trained(cls) -> TinyLM:
        """The model of chapter 5, trained on the help texts that come with Python.

        Raises ValueError if the file of its weights is damaged.
        """
        path = WEIGHTS / "tinylm.npz"
        try:
            with np.load(path) as stored:
                arrays = {name: torch.tensor(stored[name]) for name in stored.files}
            settings = json.loads(bytes(arrays.pop("settings").tolist()))
            with torch.device("meta"):  # no random start: the generator stays where it is
                model = cls(**settings, position=Rotary())
            numbers = {n: x.float() if x.is_floating_point() else x for n, x in arrays.items()}
            model.load_state_dict(numbers, assign=True)
        except (OSError, EOFError, ValueError, KeyError, RuntimeError, BadZipFile) as error:
            raise ValueError(f"{path} does not hold the trained model: {error}") from error
        return model.eval()


def bits(logits: Tensor, tokens: Tensor) -> Tensor:
    """What each token costs under the logits before it [B, T, vocab]: bits [B, T]."""
    nats = nn.functional.cross_entropy(logits.float().mT, tokens, reduction="none")
    return nats / math.log(2)
