"""What only a GPU can show: ``make gpu`` runs this, test_kernels.py and the bench on one card."""

import json

import cases
import numpy as np
import pytest
import torch

pytest.importorskip("triton", reason="Triton exists for Linux only")

from cases import results
from test_kernels import check, check_integers, draw

from attnlearn import (
    Causal,
    Dense,
    Full,
    Window,
    attention,
    bench_gpu,
    flash,
    kernels,
    native,
    quant,
)
from attnlearn.quant import trial


def gpu(test):
    """Mark a test that only a GPU can run."""
    missing = not torch.cuda.is_available()
    return pytest.mark.gpu(pytest.mark.skipif(missing, reason="needs an NVIDIA GPU")(test))


# Each is another kernel to compile, which takes seconds.
WIDTHS = [(torch.bfloat16, D) for D in (16, 64, 80, 128, 256)]
WIDTHS += [(torch.float16, 128), (torch.float16, 256)]
WIDTHS += [(torch.float32, D) for D in (16, 128, 256)]


@gpu
@pytest.mark.parametrize(("dtype", "D"), WIDTHS, ids=str)
def test_every_width_fits_the_chip(dtype, D):
    for mask in (Causal() & Window(300), Full()):
        check(mask, (2,), 4, 2, 700, 900, D, D, dtype=dtype, scale=D**-0.5)


@gpu
@pytest.mark.parametrize("mask", [*cases.MASKS, *cases.SPREAD], ids=repr)
def test_every_mask_in_tiles_of_the_usual_sizes(mask):
    check(mask, (2,), 4, 2, 300, 300, 64, 64, dtype=torch.bfloat16, scale=0.125)


@gpu
@pytest.mark.parametrize(("dtype", "D"), WIDTHS, ids=str)
def test_integers_of_every_width(dtype, D):
    for mask in (Causal() & Window(300), Full()):
        check_integers(mask, (2,), 4, 2, 700, 900, D, D, dtype=dtype, scale=D**-0.5)


@gpu
@pytest.mark.parametrize("mask", [*cases.MASKS, *cases.SPREAD], ids=repr)
def test_integers_in_tiles_of_the_usual_sizes(mask):
    check_integers(mask, (2,), 4, 2, 300, 300, 64, 64, dtype=torch.float16, scale=0.125)


@gpu
@pytest.mark.parametrize(("bits", "goal"), [(8, 0.999), (4, 0.98)])
def test_integers_with_channels_far_from_zero(bits, goal):
    qkv = [x.to("cuda") for x in trial.biased(0)]
    got = quant.attention(*(x.bfloat16() for x in qkv), bits=bits, impl="triton")
    assert trial.cosine(got, attention(*qkv, impl="dense")) >= goal


@gpu
def test_the_same_twice():
    """No two programs add to the same place, so nothing depends on who comes first."""
    qkv = draw((2,), 8, 2, 1000, 1000, 64, 64, dtype=torch.bfloat16)
    first, second = (results(kernels.attention, qkv, Causal(), 0.125) for _ in range(2))
    assert all(torch.equal(a, b) for a, b in zip(first, second, strict=True))


@gpu
def test_a_long_sequence_needs_no_matrix():
    N = 2**17
    q, k, v = (x.requires_grad_() for x in draw((), 1, 1, N, N, 64, 64, dtype=torch.bfloat16))
    before = torch.cuda.memory_allocated()
    torch.cuda.reset_peak_memory_stats()
    kernels.attention(q, k, v, Causal() & Window(4096), 0.125).sum().backward()
    assert torch.cuda.max_memory_allocated() - before < 20 * q.numel() * 2


@gpu
def test_auto_runs_triton():
    qkv = draw((1,), 2, 1, 512, 512, 64, 64, dtype=torch.bfloat16)
    mask = Causal() & Window(100)
    want = kernels.attention(*qkv, mask, 0.125)
    assert torch.equal(attention(*qkv, mask), want)


@gpu
@pytest.mark.parametrize("other", [flash.attention, native.sdpa, native.flex])
def test_the_others_agree(other):
    qkv = draw((2,), 4, 2, 384, 384, 64, 64, dtype=torch.float16)
    mask = Causal() & Dense(np.random.RandomState(0).rand(384, 384) < 0.9)
    ours, theirs = (f(*qkv, mask, 0.125) for f in (kernels.attention, other))
    torch.testing.assert_close(ours, theirs, rtol=1e-2, atol=2e-3)


# The bench, where there is no GPU.


@pytest.mark.skipif(torch.cuda.is_available(), reason="what happens without a GPU")
def test_without_a_gpu_the_bench_says_so(tmp_path, capsys):
    with pytest.raises(SystemExit) as stop:
        bench_gpu.main(["--out", str(tmp_path)])
    assert stop.value.code == 1
    assert "no CUDA device" in capsys.readouterr().err
    assert not list(tmp_path.iterdir())


@pytest.fixture
def pretend(monkeypatch):
    """A GPU played on the CPU, at toy sizes, with a stopwatch that only runs the function."""
    if torch.cuda.is_available():
        pytest.skip("there is a real one")
    math = torch.nn.attention.SDPBackend.MATH
    for name, value in {
        "DEVICE": "cpu",
        "TOKENS": 32,
        "WIDTH": 128,
        "LENGTHS": (32,),
        "RIVALS": {"cudnn": math, "flash": math},
        "inputs": small_inputs,
        "host": lambda: {"device": "NVIDIA Test"},
    }.items():
        monkeypatch.setattr(bench_gpu, name, value)
    monkeypatch.setattr("torch.cuda.is_available", lambda: True)
    monkeypatch.setattr("attnlearn.kernels.launch.INTERPRETED", False)
    monkeypatch.setattr("attnlearn.kernels.check", lambda *_: None)
    monkeypatch.setattr("torch.compile", lambda f: lambda q, k, v, block_mask: q)
    for stopwatch in ("do_bench", "do_bench_cudagraph"):
        monkeypatch.setattr(f"triton.testing.{stopwatch}", lambda f, **_: (f(), 2.0)[1])


@pytest.mark.usefixtures("pretend")
def test_the_file_has_every_figure(tmp_path):
    bench_gpu.main(["--out", str(tmp_path)])
    report = json.loads((tmp_path / "nvidia-test.json").read_text())
    assert report["device"] == "NVIDIA Test"
    assert report["complete"]
    figures = report["figures"]
    assert len(figures["speed"]) == 8
    assert [line["times_as_fast"]["kernel"] for line in figures["int8"]] == [1] * 4
    assert len(figures["errors"]) == 3 * 2 * 2 * 4
    assert all(line["met"] for line in figures["errors"])
    assert figures["window"]["times_as_fast"] == {"cudnn causal": 1, "flex compiled": 1}
    met = [True, True, None, True, False, True, False, False]
    assert [goal["met"] for goal in figures["goals"]] == met


@pytest.mark.usefixtures("pretend")
def test_a_crash_loses_only_what_was_not_measured(tmp_path, monkeypatch):
    monkeypatch.setenv("PATH", "")  # no git either
    monkeypatch.setattr(bench_gpu, "speed", lambda *_: 1 / 0)
    with pytest.raises(ZeroDivisionError):
        bench_gpu.main(["--out", str(tmp_path)])
    report = json.loads((tmp_path / "nvidia-test.json").read_text())
    assert not report["complete"]
    assert report["commit"] == "unknown"
    assert report["figures"]["errors"]
    assert "goals" not in report["figures"]


def small_inputs(N, D, dtype):
    return draw((1,), 1, 1, 16, 16, D, D, dtype=dtype)
