"""Weights of PyTorch's own layer, moved into ours."""

from __future__ import annotations

import torch
from torch import nn


def take_over(layer, other: nn.MultiheadAttention) -> None:
    """Copy the weights of ``other`` into ``layer``, a MultiHeadAttention.

    Raises ValueError, with every reason, if they cannot be mapped.
    """
    if not isinstance(other, nn.MultiheadAttention):
        raise TypeError(f"the weights must be an nn.MultiheadAttention's, got {type(other)}")
    if reasons := list(differences(layer, other)):
        raise ValueError(f"these weights cannot be taken over: {'; '.join(reasons)}")
    fused = other.in_proj_weight
    separate = other.q_proj_weight, other.k_proj_weight, other.v_proj_weight
    weights = *(separate if fused is None else fused.chunk(3)), other.out_proj.weight
    biases = [None] * 4
    if other.in_proj_bias is not None:
        biases = *other.in_proj_bias.chunk(3), other.out_proj.bias
    mine = layer.q, layer.k, layer.v, layer.o
    with torch.no_grad():
        for linear, weight, bias in zip(mine, weights, biases, strict=True):
            linear.weight.copy_(weight)
            if bias is not None:
                linear.bias.copy_(bias)
    layer.dropout = other.dropout


def differences(layer, other: nn.MultiheadAttention):
    """What has no place in ``layer``, as phrases."""
    if other.num_heads != layer.n_heads:
        yield f"they have {other.num_heads} heads, this layer has {layer.n_heads}"
    if not layer.n_heads == layer.n_kv_heads == layer.n_v_heads:
        yield (
            f"they have a key and a value for each of {layer.n_heads} heads, this layer has "
            f"{layer.n_kv_heads} keys and {layer.n_v_heads} values"
        )
    theirs = other.embed_dim, other.kdim, other.vdim
    ours = tuple(x.in_features for x in (layer.q, layer.k, layer.v))
    if theirs != ours:
        yield f"q, k and v are made from widths {theirs}, in this layer from {ours}"
    if (other.in_proj_bias is None) != (layer.q.bias is None):
        yield "only one of the two has biases"
    if any(x.is_meta for module in (layer, other) for x in module.parameters()):
        yield "one of the two holds no numbers, being on the device meta"
    if other.bias_k is not None or other.add_zero_attn:
        yield "they add a key of their own (add_bias_kv or add_zero_attn)"
    if layer.g is not None:
        yield "this layer has a gate"
    if layer.position.in_layers:
        yield f"this layer has {layer.position}"
