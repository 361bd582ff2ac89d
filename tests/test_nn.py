"""Layers: PyTorch's own as an oracle, head layouts, padded samples, and a model that learns."""

from functools import partial

import numpy as np
import pytest
import torch
from torch import nn

from attnlearn import Causal, Full, Prefix, Window, attention, padding
from attnlearn.nn import Block, DropHead, MultiHeadAttention, TinyLM, merge, split
from attnlearn.nn.model import WEIGHTS
from attnlearn.position import Alibi, Learned, Position, Rotary, Sinusoidal, repair

SCHEMES = [None, Sinusoidal(), Learned(64, 16), Rotary(), Rotary(pairing="neighbours"), Alibi()]
LAYOUTS = [
    {},
    {"n_kv_heads": 2},
    {"n_kv_heads": 1},
    {"share_values": True},
    {"n_kv_heads": 2, "share_values": True, "gate": True},
    {"gate": True, "bias": False},
]


@pytest.fixture(autouse=True)
def seeded():
    torch.manual_seed(0)


def tokens(B=2, T=12):
    return torch.randint(0, 256, (B, T))


# --- heads


def test_split_and_merge_are_views_of_the_same_numbers():
    x = torch.randn(2, 5, 12)
    h = split(x, 3)
    assert h.shape == (2, 3, 5, 4)
    assert h.data_ptr() == x.data_ptr()
    assert torch.equal(h[1, 2, 3], x[1, 3, 8:12])
    assert torch.equal(merge(h), x)


@pytest.mark.parametrize("bias", [True, False])
@pytest.mark.parametrize("mask", [None, Causal(), padding([6, 3]), padding([6, 3]) & Causal()])
def test_pytorchs_layer_agrees(mask, bias):
    other = nn.MultiheadAttention(16, 4, bias=bias, batch_first=True).double().eval()
    for p in other.parameters():
        nn.init.normal_(p)
    mine = MultiHeadAttention(16, 4, bias=bias).double().load_torch(other)
    x = torch.randn(2, 6, 16).double()
    hidden = None if mask is None else ~torch.tensor(mask.dense(6, 6))
    if hidden is not None:
        hidden = hidden.expand(2, 4, 6, 6).flatten(0, 1)
    want, p = other(x, x, x, attn_mask=hidden, average_attn_weights=False)
    assert torch.allclose(mine(x, mask), want)
    assert torch.allclose(mine.weights(x, mask), p)


def test_pytorchs_layer_agrees_over_a_context_of_another_width():
    other = nn.MultiheadAttention(16, 4, kdim=10, vdim=10, batch_first=True).eval()
    mine = MultiHeadAttention(16, 4, d_context=10).load_torch(other)
    x, context = torch.randn(2, 6, 16), torch.randn(2, 9, 10)
    want = other(x, context, context)[0]
    assert torch.allclose(mine(x, context=context), want, atol=1e-6)
    seen = padding([9, 4])
    hidden = torch.arange(9) >= torch.tensor([[9], [4]])
    want = other(x, context, context, key_padding_mask=hidden)[0]
    assert torch.allclose(mine(x, seen, context=context), want, atol=1e-6)


@pytest.mark.parametrize(
    ("other", "mine", "message"),
    [
        ({}, {"n_heads": 8}, "4 heads, this layer has 8"),
        ({}, {"n_kv_heads": 2}, "this layer has 2 keys"),
        ({}, {"share_values": True}, "4 keys and 1 values"),
        ({}, {"gate": True}, "gate"),
        ({}, {"position": Rotary()}, "Rotary"),
        ({"bias": False}, {}, "biases"),
        ({"kdim": 8, "vdim": 8}, {}, "widths"),
        ({"kdim": 8}, {"d_context": 8}, "widths"),
        ({"add_bias_kv": True}, {}, "add_bias_kv"),
        ({"add_zero_attn": True}, {}, "add_zero_attn"),
    ],
)
def test_a_layout_that_cannot_be_mapped_raises(other, mine, message):
    layer = MultiHeadAttention(16, **{"n_heads": 4} | mine)
    before = [p.clone() for p in layer.parameters()]
    with pytest.raises(ValueError, match=message):
        layer.load_torch(nn.MultiheadAttention(16, 4, **other))
    assert all(torch.equal(a, b) for a, b in zip(before, layer.parameters(), strict=True))


@pytest.mark.parametrize("Hk", [1, 2])
def test_grouped_heads_are_many_heads_with_repeated_projections(Hk):
    grouped = MultiHeadAttention(16, 4, Hk)
    many = MultiHeadAttention(16, 4)
    many.q.load_state_dict(grouped.q.state_dict())
    many.o.load_state_dict(grouped.o.state_dict())
    for name in "kv":
        few, full = getattr(grouped, name), getattr(many, name)
        for a, b in zip(few.parameters(), full.parameters(), strict=True):
            rows = a.data.unflatten(0, (Hk, 4)).repeat_interleave(4 // Hk, 0)  # not repeat
            b.data = rows.flatten(0, 1)
    x = torch.randn(2, 5, 16)
    assert torch.allclose(grouped(x, Causal()), many(x, Causal()), atol=1e-6)


def test_shared_values_are_many_heads_with_one_value_projection():
    shared, many = MultiHeadAttention(16, 4, share_values=True), MultiHeadAttention(16, 4)
    for name in "qko":
        getattr(many, name).load_state_dict(getattr(shared, name).state_dict())
    for a, b in zip(shared.v.parameters(), many.v.parameters(), strict=True):
        b.data = torch.cat([a.data] * 4)
    x = torch.randn(2, 5, 16)
    assert torch.allclose(shared(x), many(x), atol=1e-6)


@pytest.mark.parametrize("h", [2, 8, 16])
def test_what_shared_values_save(h):
    """(1 - 1/h) / 4 of a layer: 21.9 % at 8 heads, not the 15 % one reads."""
    many, shared = (
        sum(p.numel() for p in MultiHeadAttention(64, h, share_values=s, bias=False).parameters())
        for s in (False, True)
    )
    assert 1 - shared / many == (1 - 1 / h) / 4


def test_a_gate_at_zero_halves_the_output_and_knows_its_head():
    plain = MultiHeadAttention(16, 4, bias=False)
    gated = MultiHeadAttention(16, 4, bias=False, gate=True)
    gated.load_state_dict(plain.state_dict() | {"g.weight": torch.zeros(16, 16)})
    x = torch.randn(2, 5, 16)
    assert torch.allclose(gated(x), plain(x) / 2, atol=1e-6)
    gated.g.weight.data[:4] = 1e3 * torch.sign(x[0, 0])  # closes or opens head 0 alone
    heads = merge(attention(*plain.project(x), scale=0.5))[0, 0]
    heads[:4] *= torch.sigmoid(gated.g(x)[0, 0, :4])
    heads[4:] /= 2
    assert torch.allclose(gated(x)[0, 0], plain.o(heads), atol=1e-6)


@pytest.mark.parametrize("layout", LAYOUTS, ids=str)
@pytest.mark.parametrize("training", [True, False])
def test_a_fully_padded_sample_gets_one_finite_answer(layout, training):
    """PyTorch's layer answers NaN or not, by mode and by need_weights (pytorch#41508)."""
    layer = MultiHeadAttention(16, 4, **layout).train(training)
    x = torch.randn(2, 5, 16)
    mask = padding([5, 0]) & Causal()
    y = layer(x, mask)
    want = torch.zeros(16) if layer.o.bias is None else layer.o.bias
    assert torch.equal(y[1], want.expand(5, 16))
    assert torch.equal(y, layer.train(not training)(x, mask))
    assert torch.equal(layer.weights(x, mask)[1], torch.zeros(4, 5, 5))
    y[0].sum().backward()
    assert all(p.grad.isfinite().all() for p in layer.parameters())


@pytest.mark.parametrize("layout", LAYOUTS, ids=str)
@pytest.mark.parametrize("impl", ["dense", "flash", "sdpa"])
def test_every_algorithm_gives_the_same_layer(layout, impl):
    layer = MultiHeadAttention(16, 4, position=Rotary(), **layout)
    x = torch.randn(2, 9, 16)
    want = layer(x, Causal() & Window(3))
    layer.attend = partial(attention, impl=impl)
    assert torch.allclose(layer(x, Causal() & Window(3)), want, atol=1e-6)


def test_what_a_padded_context_holds_does_not_matter():
    layer = MultiHeadAttention(16, 4, d_context=10)
    x, context = torch.randn(2, 6, 16), torch.randn(2, 9, 10)
    want = layer(x, padding([9, 4]), context=context)
    context[1, 4:] = torch.nan
    assert torch.equal(layer(x, padding([9, 4]), context=context), want)
    assert not torch.equal(layer(x, context=context.nan_to_num()), want)  # no mask: all is seen


# --- dropout and drop-head


def test_dropout_is_for_training():
    layer = MultiHeadAttention(16, 4, dropout=0.5)
    x = torch.randn(2, 5, 16)
    assert not torch.equal(layer(x), layer(x))
    layer.eval()
    assert torch.equal(layer(x), layer(x))


def test_drop_head_loses_whole_heads_and_keeps_the_size():
    q = torch.randn(200, 4, 3, 8)
    drop = DropHead(0.5)
    want, o = attention(q, q, q), drop(q, q, q)
    gone = (o == 0).all((-1, -2))
    assert 0.4 < gone.float().mean() < 0.6
    kept = ~gone
    assert kept.any(1).all()
    for n in (1, 2, 3, 4):  # an example that keeps n of 4 heads multiplies them by 4 / n
        rows = kept.sum(1) == n
        assert rows.any()
        factor = (kept[rows] * (4 / n))[..., None, None]
        assert torch.allclose(o[rows], want[rows] * factor)
    assert torch.equal(drop.eval()(q, q, q), want)
    assert torch.equal(DropHead(0)(q, q, q), want)


@pytest.mark.parametrize(("heads", "p"), [(1, 0.5), (4, 0.5), (4, 0.9)])
def test_drop_head_keeps_the_mean(heads, p):
    q = torch.ones(4000, heads, 1, 2)
    assert DropHead(p)(q, q, q).mean((0, 2, 3)).allclose(torch.ones(heads), atol=0.15)


def test_drop_head_follows_the_mode_of_its_layer():
    layer = MultiHeadAttention(16, 4, attend=DropHead(0.5))
    x = torch.randn(8, 5, 16)
    assert not torch.equal(layer(x), layer(x))
    layer.eval()
    assert torch.equal(layer(x), layer(x))
    layer.train()
    layer(x).sum().backward()
    assert all(p.grad.isfinite().all() for p in layer.parameters())


# --- bad input


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: MultiHeadAttention(16, 3), "d_model must be a multiple of n_heads, got 16 and 3"),
        (lambda: MultiHeadAttention(16, 4, 3), "multiple of n_kv_heads, got 4 and 3"),
        (lambda: MultiHeadAttention(16, 4, 8), "multiple of n_kv_heads, got 4 and 8"),
        (lambda: MultiHeadAttention(16, 0), "n_heads must be a whole number from 1, got 0"),
        (lambda: MultiHeadAttention(16, 4, 0), "n_kv_heads must be a whole number from 1"),
        (lambda: MultiHeadAttention(16, 4.0), "n_heads must be a whole number from 1, got 4.0"),
        (lambda: MultiHeadAttention(16, True), "got True"),
        (lambda: MultiHeadAttention(16, 4, dropout=1.0), "dropout must be"),
        (lambda: MultiHeadAttention(16, 4, dropout=None), "dropout must be a number"),
        (lambda: MultiHeadAttention(16, 4, position=Alibi())(torch.zeros(2, 5, 16)), "Causal"),
        (lambda: TinyLM()([[1, 2]]), "tensor of whole numbers .* got list"),
        (lambda: TinyLM()(tokens(), at=torch.arange(3)), r"whole numbers \[12\] or \[2, 12\]"),
        (lambda: TinyLM()(tokens(), at=torch.zeros(12)), "got torch.float32"),
        (lambda: TinyLM()(tokens(), at="start"), "got str"),
        (lambda: TinyLM()(tokens(13, 12), torch.ones(13, 12).bool()), "for padding pass padding"),
        (
            lambda: MultiHeadAttention(16, 4)(torch.zeros(8, 5, 16), torch.ones(8, 5).bool()),
            "for padding pass padding",
        ),
        (lambda: MultiHeadAttention(16, 4, position=Sinusoidal()), "acts on the embeddings"),
        (lambda: Block(16, 4, position=Learned(9, 16)), "acts on the embeddings"),
        (lambda: DropHead(1.0), "p must be"),
        (lambda: MultiHeadAttention(16, 4)(torch.zeros(2, 5, 8)), r"x must be \[B, T, 16\]"),
        (lambda: MultiHeadAttention(16, 4)(torch.zeros(5, 16)), r"got \[5, 16\]"),
        (
            lambda: MultiHeadAttention(16, 4, d_context=8)(torch.zeros(2, 5, 16)),
            r"context must be given: \[B, S, 8\]",
        ),
        (
            lambda: MultiHeadAttention(16, 4, d_context=8)(
                torch.zeros(2, 5, 16), context=torch.zeros(2, 5, 16)
            ),
            r"context must be \[B, S, 8\]",
        ),
        (
            lambda: MultiHeadAttention(16, 4)(torch.zeros(2, 5, 16), context=torch.zeros(3, 5, 16)),
            "context has 3 examples and x has 2",
        ),
        (
            lambda: MultiHeadAttention(16, 4, position=Rotary())(
                torch.zeros(2, 5, 16), context=torch.zeros(2, 5, 16)
            ),
            "an order of its own",
        ),
        (lambda: MultiHeadAttention(12, 4, position=Rotary())(torch.zeros(2, 5, 12)), "even width"),
        (lambda: TinyLM()(torch.zeros(2, 5)), "whole numbers"),
        (lambda: TinyLM()(torch.zeros(5, dtype=torch.long)), r"\[B, T\]"),
        (lambda: TinyLM()(torch.full((1, 5), 256)), "0 to 255, got 256 to 256"),
        (lambda: TinyLM()(torch.full((1, 5), -1)), "got -1"),
        (lambda: TinyLM(position=Learned(4, 96))(torch.zeros(1, 5).long()), "0 to 3"),
    ],
)
def test_bad_input_is_named(make, message):
    with pytest.raises(ValueError, match=message):
        make()


def test_weights_of_another_layout_are_refused():
    """The shapes fit; the meaning of the rows does not."""
    halves, neighbours = (
        MultiHeadAttention(16, 4, position=Rotary(pairing=p)) for p in ("halves", "neighbours")
    )
    for other in (neighbours, MultiHeadAttention(16, 2), MultiHeadAttention(16, 4)):
        with pytest.raises(ValueError, match="do not fit"):
            other.load_state_dict(halves.state_dict())
    MultiHeadAttention(16, 4, position=Rotary()).load_state_dict(halves.state_dict())


def test_repaired_weights_give_the_same_layer():
    old = MultiHeadAttention(16, 2, position=Rotary(pairing="neighbours"))
    new = MultiHeadAttention(16, 2, position=Rotary())
    for name in "qkvo":
        for a, b in zip(
            getattr(old, name).parameters(), getattr(new, name).parameters(), strict=True
        ):
            b.data = repair(a.data, 2, "halves") if name in "qk" else a.data
    x = torch.randn(2, 5, 16)
    assert torch.allclose(old(x, Causal()), new(x, Causal()), atol=1e-6)


# --- order, block, model


def test_without_positions_attention_treats_tokens_as_a_set():
    layer, x, order = MultiHeadAttention(16, 4), torch.randn(2, 6, 16), torch.randperm(6)
    assert torch.allclose(layer(x)[:, order], layer(x[:, order]), atol=1e-6)
    turned = MultiHeadAttention(16, 4, position=Rotary())
    assert not torch.allclose(turned(x)[:, order], turned(x[:, order]), atol=1e-3)


def test_a_block_is_two_residuals_around_norms():
    block, x = Block(16, 4), torch.randn(2, 5, 16)
    y = x + block.attention(block.attention_norm(x), Causal())
    assert torch.equal(block(x, Causal()), y + block.mlp(block.mlp_norm(y)))
    assert Block(16, 4, hidden=20).mlp[0].out_features == 20


@pytest.mark.parametrize("scheme", SCHEMES, ids=str)
def test_the_future_never_moves_the_past(scheme):
    model = TinyLM(d_model=16, n_layers=2, n_heads=2, position=scheme)
    a = tokens()
    b = a.clone()
    b[:, 7:] = (b[:, 7:] + 1) % 256
    assert torch.allclose(model(a)[:, :7], model(b)[:, :7], atol=1e-6)
    assert not torch.allclose(model(a)[:, 7:], model(b)[:, 7:])
    assert model(tokens(2, 0)).shape == (2, 0, 256)


@pytest.mark.parametrize("scheme", SCHEMES, ids=str)
def test_padding_on_the_left_changes_nothing(scheme):
    """Each row counts its positions from its own first token (unsloth#3699, tiny-llm#46)."""
    model = TinyLM(d_model=16, n_layers=2, n_heads=2, position=scheme)
    t = tokens(1, 8)
    padded = torch.cat((torch.zeros(1, 4, dtype=torch.long), t), 1)
    both = torch.cat((padded, tokens(1, 12)))
    at = torch.stack((torch.arange(12) - 4, torch.arange(12))).clamp(min=0)
    y = model(both, ~Prefix([4, 0]), at=at)
    assert torch.allclose(y[:1, 4:], model(t), atol=1e-5)
    assert y.isfinite().all()


def test_a_mask_of_booleans_joins_the_causal_one():
    model, t = TinyLM(d_model=16, n_layers=1, n_heads=2), tokens()
    seen = torch.tensor(Window(3).dense(12, 12))
    assert torch.allclose(model(t, seen), model(t, Window(3)), atol=1e-6)
    assert torch.allclose(model(t, Full()), model(t), atol=1e-6)
    with pytest.raises(TypeError):
        model(t, seen.float())


def test_bits_are_those_of_the_next_token():
    model, t = TinyLM(d_model=16, n_layers=1, n_heads=2), tokens()
    p = model(t).softmax(-1)
    want = -p[:, :-1].gather(-1, t[:, 1:, None])[..., 0].log2()
    assert torch.allclose(model.bits(t), want, atol=1e-4)


def test_bytes_are_tokens():
    t = torch.frombuffer(bytearray(b"queries, keys and values"), dtype=torch.uint8)[None]
    model = TinyLM(d_model=16, n_layers=1, n_heads=2)
    assert torch.equal(model(t), model(t.long()))
    assert torch.equal(model.bits(t), model.bits(t.int()))


def test_every_weight_learns():
    model = TinyLM(d_model=16, n_layers=2, n_heads=4, n_kv_heads=2, gate=True, position=Rotary())
    model.bits(tokens()).mean().backward()
    assert all(p.grad is not None and p.grad.abs().max() > 0 for p in model.parameters())


def test_a_small_model_learns_a_sentence():
    text = torch.frombuffer(
        bytearray(b"who may look at whom? the mask says it. "), dtype=torch.uint8
    )
    t = text.long()[None].repeat(1, 3)
    model = TinyLM(d_model=32, n_layers=2, n_heads=2, position=Rotary())
    optimizer = torch.optim.AdamW(model.parameters(), 3e-3)
    for _ in range(60):
        optimizer.zero_grad()
        loss = model.bits(t).mean()
        loss.backward()
        optimizer.step()
    assert model.bits(t)[:, 40:].mean() < 0.5


@pytest.mark.parametrize(
    ("layer", "message"),
    [
        (lambda: MultiHeadAttention(16, 4, position="rope"), "such as Rotary"),
        (lambda: MultiHeadAttention(16, 4, position=Rotary), "such as Rotary"),
        (lambda: MultiHeadAttention(16, 4, attend="flash"), "functools.partial"),
        (lambda: MultiHeadAttention(16, 4)(torch.zeros(2, 5, 16).double()), "x is torch.float64"),
        (lambda: MultiHeadAttention(16, 4).load_torch(nn.Linear(16, 16)), "MultiheadAttention"),
        (lambda: TinyLM()(tokens(), Causal), "must be a Mask or a boolean array, got type"),
    ],
)
def test_the_wrong_type_is_named(layer, message):
    with pytest.raises(TypeError, match=message):
        layer()


def damaged(path, **changes):
    """The shipped weights with some arrays changed, or left out where a change is None."""
    with np.load(WEIGHTS / "tinylm.npz") as stored:
        arrays = {name: stored[name] for name in stored.files} | changes
    np.savez(path / "tinylm.npz", **{n: x for n, x in arrays.items() if x is not None})


def test_the_trained_model_is_ready_to_read(monkeypatch):
    torch.manual_seed(3)
    model = TinyLM.trained()
    assert torch.rand(1) == torch.rand(1, generator=torch.Generator().manual_seed(3))
    assert not model.training
    assert model.embedding.weight.dtype == torch.float32
    english = torch.tensor(
        [list(b"The value of the expression is the list of names in the module.")]
    )
    assert model.bits(english).mean() < 3.5  # a guess takes 8 bits, letters by frequency 4.7
    assert model.bits(english.flip(1)).mean() > 4.5


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"norm.weight": None}, "norm.weight"),
        ({"settings": None}, "settings"),
        ({"stranger": np.zeros(2)}, "stranger"),
        ({"norm.weight": np.zeros(95)}, "norm.weight"),
        ({"settings": np.frombuffer(b'{"n_heads": 2}', np.uint8)}, "4 query"),
        ({"position._extra_state": np.frombuffer(b"Alibi()", np.uint8)}, "for Alibi"),
    ],
)
def test_damaged_weights_are_named(tmp_path, monkeypatch, changes, message):
    damaged(tmp_path, **changes)
    monkeypatch.setattr("attnlearn.nn.model.WEIGHTS", tmp_path)
    with pytest.raises(ValueError, match=f"does not hold the trained model: (?s:.)*{message}"):
        TinyLM.trained()


@pytest.mark.parametrize("content", [b"", b"PK not a zip", None])
def test_a_broken_or_missing_file_is_named(tmp_path, monkeypatch, content):
    if content is not None:
        (tmp_path / "tinylm.npz").write_bytes(content)
    monkeypatch.setattr("attnlearn.nn.model.WEIGHTS", tmp_path)
    with pytest.raises(ValueError, match=r"tinylm.npz does not hold the trained model"):
        TinyLM.trained()


def test_a_state_dict_is_made_of_tensors_and_survives_a_file(tmp_path):
    model = TinyLM(d_model=16, n_layers=1, n_heads=2, position=Rotary(10000))
    assert all(isinstance(x, torch.Tensor) for x in model.state_dict().values())
    torch.save(model.state_dict(), tmp_path / "weights.pt")
    again = TinyLM(d_model=16, n_layers=1, n_heads=2, position=Rotary())
    again.load_state_dict(torch.load(tmp_path / "weights.pt", weights_only=True))
    t = tokens()
    assert torch.equal(again(t), model(t))


def test_weights_of_another_scheme_are_refused():
    def model(scheme):
        return TinyLM(d_model=16, n_layers=1, n_heads=2, position=scheme)

    for there, here in [(Sinusoidal(), None), (Alibi(), Rotary()), (Rotary(500), Rotary())]:
        with pytest.raises(ValueError, match="do not fit"):
            model(here).load_state_dict(model(there).state_dict())


def test_attend_can_be_changed_in_a_trained_layer():
    layer, x = MultiHeadAttention(16, 4, attend=DropHead(0.5)), torch.randn(2, 5, 16)
    want = layer.eval()(x)
    layer.attend = partial(attention, impl="dense")
    assert torch.allclose(layer.train()(x), want, atol=1e-6)
    assert "attend" not in dict(layer.named_children())
    layer.attend = DropHead(0.9)
    assert not torch.allclose(layer(x), want)


def test_dropout_comes_with_the_weights():
    other = nn.MultiheadAttention(16, 4, dropout=0.25)
    assert MultiHeadAttention(16, 4).load_torch(other).dropout == 0.25


def test_left_padded_texts_are_scored_alike():
    model = TinyLM(d_model=16, n_layers=2, n_heads=2, position=Sinusoidal())
    t = tokens(1, 8)
    padded = torch.cat((torch.zeros(1, 4, dtype=torch.long), t), 1)
    at = (torch.arange(11) - 4).clamp(min=0)
    assert torch.allclose(model.bits(padded, ~Prefix(4), at=at)[:, 4:], model.bits(t), atol=1e-4)


def test_options_reach_the_heads():
    model = TinyLM(d_model=16, n_layers=1, n_heads=4, n_kv_heads=2, share_values=True, dropout=0.1)
    heads = model.blocks[0].attention
    assert (heads.n_kv_heads, heads.n_v_heads, heads.dropout) == (2, 1, 0.1)
    assert type(heads.position) is Position
