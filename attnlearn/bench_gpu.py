"""How fast the Triton kernels are on this GPU: ``python -m attnlearn.bench_gpu [--out FOLDER]``.

bfloat16, 16,384 tokens in all and heads of 2,048 numbers together, as FlashAttention's own figures
have it. Each rival is named, as "PyTorch's attention" may be any of three. Forward passes are
timed as CUDA graphs, so that launching costs nobody anything. Writes FOLDER/<device>.json.
"""

from __future__ import annotations

import argparse
import json
import platform
import sys
from collections.abc import Callable
from datetime import UTC, datetime
from functools import partial
from pathlib import Path
from time import perf_counter

import torch
import triton
from torch import Tensor
from torch.nn.attention import SDPBackend, sdpa_kernel
from torch.nn.attention.flex_attention import flex_attention
from torch.nn.functional import scaled_dot_product_attention
from triton.runtime.errors import OutOfResources

from . import kernels, native, quant
from .evidence import commit
from .kernels import launch
from .masks import Causal, Full, Mask, Window

DEVICE = "cuda"
TOKENS, WIDTH = 16384, 2048
LENGTHS = 512, 1024, 2048, 4096, 8192, 16384
RIVALS = {"cudnn": SDPBackend.CUDNN_ATTENTION, "flash": SDPBackend.FLASH_ATTENTION}
BAND = Window(257)  # 256 to each side


def measure(figures: dict) -> None:
    """All figures, each in ``figures`` as soon as it is there: a crash loses only the rest."""
    figures["errors"] = wrong = []
    for dtype in (torch.float16, torch.bfloat16, torch.float32):
        for D in (64, 128):
            for mask in (Full(), Causal()):
                wrong += errors(dtype, D, mask)
    figures["window"] = band = window()
    figures["speed"] = speeds = []
    for kind in ("forward", "backward"):
        for D in (64, 128):
            for mask in (Full(), Causal()):
                speeds += [speed(kind, D, mask, N) for N in LENGTHS]
    figures["int8"] = small = [int8(D, mask) for D in (64, 128) for mask in (Full(), Causal())]
    figures["goals"] = goals(speeds, band, wrong, small)


def speed(kind: str, D: int, mask: Mask, N: int) -> dict:
    """Milliseconds and TFLOP/s of ours and the rivals; how many times as fast as each we are."""
    qkv = inputs(N, D, torch.bfloat16)
    sides = {"triton": partial(ours, mask)}
    sides |= {name: partial(by_pytorch, backend, mask) for name, backend in RIVALS.items()}
    took = {name: milliseconds(f, qkv, kind) for name, f in sides.items()}
    half = 0.5 if mask == Causal() else 1  # of all scores; the backward pass has 5 products, not 2
    work = 4 * TOKENS * WIDTH * N * half * (2.5 if kind == "backward" else 1)
    line = {
        "kind": kind,
        "width": D,
        "mask": repr(mask),
        "N": N,
        "ms": took,
        "tflops": {name: ms and work / ms / 1e9 for name, ms in took.items()},
        "times_as_fast": {name: ratio(took[name], took["triton"]) for name in RIVALS},
    }
    print(json.dumps(line), flush=True)
    return line


def window() -> dict:
    """A band against what else there is: PyTorch's causal kernel, and FlexAttention compiled."""
    N, D = max(LENGTHS), 64
    qkv = inputs(N, D, torch.bfloat16)
    held = native.tiles(*qkv[:2], BAND)
    flex = partial(torch.compile(flex_attention), block_mask=held)
    rivals = {
        "triton": partial(ours, BAND),
        "cudnn causal": partial(by_pytorch, RIVALS["cudnn"], Causal()),
        "flex compiled": flex,
    }
    took = {name: milliseconds(f, qkv, "forward") for name, f in rivals.items()}
    times = {name: ratio(took[name], took["triton"]) for name in rivals if name != "triton"}
    return {"mask": repr(BAND), "N": N, "width": D, "ms": took, "times_as_fast": times}


def int8(D: int, mask: Mask) -> dict:
    """Scores in integers against our own kernel in bfloat16: alone, and with the quantising."""
    N = max(LENGTHS)
    q, k, v = inputs(N, D, torch.bfloat16)
    q8, k8 = quant.quantize(q), quant.quantize(quant.smooth(k)[0])
    how = {"q_scale": q8.by_token(), "k_scale": k8.by_token(), "mask": mask, "scale": D**-0.5}
    small = partial(kernels.integers, q8.integers(), k8.integers(), **how)
    took = {
        "bf16": milliseconds(partial(ours, mask), [q, k, v], "forward"),
        "kernel": milliseconds(small, [v], "forward"),
        # No CUDA graph, as it asks the GPU whether all numbers are finite.
        "with quantising": triton.testing.do_bench(
            lambda: quant.attention(q, k, v, mask, impl="triton"), return_mode="median"
        ),
    }
    times = {name: took["bf16"] / took[name] for name in ("kernel", "with quantising")}
    line = {"width": D, "mask": repr(mask), "N": N, "ms": took, "times_as_fast": times}
    print(json.dumps(line), flush=True)
    return line


def errors(dtype: torch.dtype, D: int, mask: Mask) -> list[dict]:
    """The largest error against float64, as a part of the largest number, and PyTorch's own."""
    qkv = [x[:1, :4].contiguous() for x in inputs(1000, D, dtype)]
    math = partial(by_pytorch, SDPBackend.MATH, mask)
    exact = results(math, [x.double() for x in qkv])
    lines = []
    for name, want, *got in zip(
        ("o", "dq", "dk", "dv"),
        exact,
        results(partial(ours, mask), qkv),
        results(math, qkv),
        strict=True,
    ):
        mine, theirs = ((x.double() - want).abs().max().div(want.abs().max()).item() for x in got)
        line = {"dtype": str(dtype), "width": D, "mask": repr(mask), "of": name}
        met = mine <= max(2 * theirs, 1e-5)
        lines.append(line | {"error": mine, "pytorch": theirs, "met": met})
    return lines


def goals(speeds: list[dict], band: dict, wrong: list[dict], small: list[dict]) -> list[dict]:
    """What the kernels should reach on a Hopper GPU: the least of a group against its goal."""

    def least(kind: str, width: int, mask: Mask | None = None, shortest: int = 0) -> float | None:
        ratios = [
            line["times_as_fast"]["cudnn"]
            for line in speeds
            if line["kind"] == kind and line["width"] == width and line["N"] >= shortest
            if mask is None or line["mask"] == repr(mask)
        ]
        return min(ratios) if ratios and None not in ratios else None

    found = {
        "forward, width 64: times as fast as cuDNN": (least("forward", 64), 0.85),
        "forward, width 128, no mask": (least("forward", 128, Full()), 0.60),
        "forward, width 128, causal, from 4096": (least("forward", 128, Causal(), 4096), 0.55),
        "backward, width 64": (least("backward", 64), 0.45),
        "band: times as fast as causal cuDNN": (band["times_as_fast"]["cudnn causal"], 4),
        "errors within twice PyTorch's, share": (
            sum(line["met"] for line in wrong) / len(wrong),
            1,
        ),
        **{
            f"INT8 forward, width {D}: times as fast as our bf16": (
                min(x["times_as_fast"]["kernel"] for x in small if x["width"] == D),
                1.15,
            )
            for D in (64, 128)
        },
    }
    return [
        {
            "what": what,
            "value": value,
            "goal": goal,
            "met": None if value is None else bool(value >= goal),
        }
        for what, (value, goal) in found.items()
    ]


def inputs(N: int, D: int, dtype: torch.dtype) -> list[Tensor]:
    generator = torch.Generator(DEVICE).manual_seed(0)
    shape = max(1, TOKENS // N), WIDTH // D, N, D
    return [torch.randn(shape, generator=generator, device=DEVICE).to(dtype) for _ in range(3)]


def ours(mask: Mask, q: Tensor, k: Tensor, v: Tensor) -> Tensor:
    return kernels.attention(q, k, v, mask, q.shape[-1] ** -0.5)


def by_pytorch(backend: SDPBackend, mask: Mask, q: Tensor, k: Tensor, v: Tensor) -> Tensor:
    with sdpa_kernel(backend):
        return scaled_dot_product_attention(q, k, v, is_causal=mask == Causal())


def results(f: Callable, qkv: list[Tensor]) -> list[Tensor]:
    """The output, and the gradients of q, k and v."""
    qkv = [x.detach().requires_grad_() for x in qkv]
    o = f(*qkv)
    do = torch.linspace(-1, 2, o.numel(), device=DEVICE).view(o.shape).to(o.dtype)
    return [o.detach(), *torch.autograd.grad(o, qkv, do)]


def milliseconds(f: Callable, qkv: list[Tensor], kind: str) -> float | None:
    """The median time of a pass, or None where f cannot run here, with its reason printed."""
    try:
        if kind == "forward":
            f(*qkv)  # compiles outside the graph
            return triton.testing.do_bench_cudagraph(partial(f, *qkv), return_mode="median")
        qkv = [x.detach().requires_grad_() for x in qkv]
        o = f(*qkv)
        do = torch.ones_like(o)
        back = partial(torch.autograd.grad, o, qkv, do, retain_graph=True)
        return triton.testing.do_bench(back, return_mode="median")
    except (RuntimeError, OutOfResources) as error:
        if isinstance(f, partial) and f.func in (ours, kernels.integers):
            raise
        print(f"not measured: {f}: {error}", file=sys.stderr)
        return None


def ratio(theirs: float | None, mine: float) -> float | None:
    return None if theirs is None else theirs / mine


def host() -> dict:
    """What the figures depend on, besides the code."""
    return {
        "device": torch.cuda.get_device_name(),
        "capability": list(torch.cuda.get_device_capability()),
        "torch": torch.__version__,
        "triton": triton.__version__,
        "cuda": torch.version.cuda,
        "cudnn": torch.backends.cudnn.version(),
        "python": platform.python_version(),
        "system": platform.platform(),
    }


def main(argv: list[str] | None = None) -> None:
    """Measure, print, and write the file; without an NVIDIA GPU say so and stop."""
    parser = argparse.ArgumentParser(prog="python -m attnlearn.bench_gpu", description=__doc__)
    parser.add_argument("--out", type=Path, default=Path("book/evidence"), metavar="FOLDER")
    parser.add_argument("--check", action="store_true", help="only say whether it can run here")
    options = parser.parse_args(argv)
    if not torch.cuda.is_available():
        parser.exit(1, "There is no CUDA device here: nothing was measured, nothing written.\n")
    if launch.INTERPRETED:
        parser.exit(1, "TRITON_INTERPRET is set: kernels would be interpreted, not compiled.\n")
    if not options.out.is_dir():
        parser.error(f"--out: there is no folder {options.out}")
    if options.check:
        return
    start, figures, found, code = perf_counter(), {}, host(), commit("attnlearn")
    name = found["device"].lower().replace(" ", "-")
    report = {
        "name": name,
        "device": found["device"],
        "command": "python -m attnlearn.bench_gpu",
        "commit": code["commit"] or "unknown",
        "changed": code["changed"],
        "date": datetime.now(UTC).isoformat(timespec="seconds"),
        "host": found,
        "seeds": [0],
        "complete": False,
        "figures": figures,
    }
    try:
        measure(figures)
        report["complete"] = True
    finally:
        report["seconds"] = round(perf_counter() - start, 1)
        (options.out / f"{name}.json").write_text(json.dumps(report, indent=1) + "\n")
    for goal in figures["goals"]:
        print(json.dumps(goal))
    print("Stored. `make release` brings it into the package, for the book to show.")


if __name__ == "__main__":
    main()
