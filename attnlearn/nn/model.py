"""The Transformer block, and a small language model made of it."""

from __future__ import annotations

import json
import math
from pathlib import Path

import numpy as np
import torch
from torch import Tensor, nn

from ..masks import Causal, Dense, Mask
from ..position import Position, Rotary
from .heads import MultiHeadAttention, positions

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
        hidden = hidden or 4 * d_model
        self.attention_norm = nn.RMSNorm(d_model)
        self.attention = MultiHeadAttention(d_model, n_heads, n_kv_heads, **options)
        self.mlp_norm = nn.RMSNorm(d_model)
        self.mlp = nn.Sequential(nn.Linear(d_model, hidden), nn.GELU(), nn.Linear(hidden, d_model))

    def forward(self, x: Tensor, mask: Mask | None = None, *, at: Tensor | None = None) -> Tensor:
        x = x + self.attention(self.attention_norm(x), mask, at=at)
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
        inside = None if self.position.on_embeddings_only else self.position
        self.blocks = nn.ModuleList(
            Block(d_model, n_heads, n_kv_heads, position=inside, **options) for _ in range(n_layers)
        )
        self.norm = nn.RMSNorm(d_model)
        nn.init.normal_(self.embedding.weight, std=d_model**-0.5)  # first logits of size 1
        for block in self.blocks:  # 2 n_layers terms add up in x: keep their sum at the size of one
            for last in (block.attention.o, block.mlp[-1]):
                last.weight.data /= (2 * n_layers) ** 0.5

    def forward(
        self, tokens: Tensor, mask: Mask | None = None, *, at: Tensor | None = None
    ) -> Tensor:
        """Logits of the token after each; ``mask`` hides more than the future, such as padding."""
        tokens = checked_tokens(tokens, self.embedding.num_embeddings)
        at = positions(tokens, at)
        x = self.position.embed(self.embedding(tokens), at)
        seen = Causal()
        if mask is not None:
            seen = seen & (mask if isinstance(mask, Mask) else Dense(mask))
        for block in self.blocks:
            x = block(x, seen, at=at)
        return self.norm(x) @ self.embedding.weight.T

    def bits(self, tokens: Tensor, mask: Mask | None = None) -> Tensor:
        """Bits needed for each token after the first, [B, T - 1], known those before it."""
        tokens = checked_tokens(tokens, self.embedding.num_embeddings)
        logits = self(tokens[:, :-1], mask)
        nats = nn.functional.cross_entropy(logits.mT, tokens[:, 1:], reduction="none")
        return nats / math.log(2)

    @classmethod
    def trained(cls) -> TinyLM:
        """The model of chapter 5, trained on the help texts that come with Python."""
        with np.load(WEIGHTS / "tinylm.npz") as stored:
            arrays = {name: torch.tensor(stored[name]) for name in stored.files}
        settings = json.loads(bytes(arrays.pop("settings").numpy()))
        model = cls(**settings, position=Rotary())
        model.load_state_dict(model.state_dict() | arrays)
        return model.eval()

    def save(self, path: Path, **settings) -> None:
        """Write the weights, in half precision, and the arguments that made this model."""
        arrays = {
            name: x.detach().half().numpy()
            for name, x in self.state_dict().items()
            if isinstance(x, Tensor)
        }
        settings = np.frombuffer(json.dumps(settings).encode(), np.uint8)
        np.savez_compressed(path, settings=settings, **arrays)


def checked_tokens(tokens: Tensor, vocab: int) -> Tensor:
    """Tokens of any whole dtype as int64, once they are known to be in the vocabulary."""
    whole = not (tokens.is_floating_point() or tokens.is_complex() or tokens.dtype == torch.bool)
    if tokens.ndim != 2 or not whole:
        raise ValueError(
            f"tokens must be whole numbers [B, T], got {tokens.dtype} {list(tokens.shape)}"
        )
    tokens = tokens.long()
    if tokens.numel() and not 0 <= tokens.min() <= tokens.max() < vocab:
        raise ValueError(
            f"tokens must be from 0 to {vocab - 1}, got {tokens.min()} to {tokens.max()}"
        )
    return tokens
