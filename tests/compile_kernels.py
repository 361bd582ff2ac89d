"""Compiles every kernel for GPUs that need not be there: ``compile_kernels.py bf16-64-90 ...``.

A process of its own, as Triton either compiles or interprets. What would be launched is compiled
instead, by Triton's own assembler, and a line of JSON says what came of it.
"""

import json
import sys
from contextlib import ExitStack, contextmanager
from types import SimpleNamespace
from unittest.mock import patch

import torch
from triton.backends.compiler import GPUTarget
from triton.compiler import ASTSource, compile

from attnlearn import Causal
from attnlearn.kernels import launch, sizes

NAMES = {torch.float16: "fp16", torch.bfloat16: "bf16", torch.float32: "fp32"}
NAMES |= {torch.int8: "i8", torch.int32: "i32", torch.bool: "i1"}


def signature(x):
    """The type of one argument as Triton's launcher would put it, and what it would know of it."""
    if isinstance(x, tuple):
        return type(x)(*map(signature, x)) if hasattr(x, "_fields") else tuple(map(signature, x))
    if isinstance(x, torch.Tensor):
        return "*" + NAMES[x.dtype]
    if isinstance(x, int) and x != 1:
        return "i32" if abs(x) < 2**31 else "i64"
    return "fp32" if isinstance(x, float) else "constexpr"


def paths(x, path=()):
    """Every argument that is no tuple, with its place."""
    if isinstance(x, tuple):
        for n, part in enumerate(x):
            yield from paths(part, (*path, n))
    else:
        yield path, x


class Compiled:
    """In place of a kernel: compiles for a GPU what it would launch."""

    def __init__(self, kernel, capability):
        self.kernel, self.target = kernel, GPUTarget("cuda", capability, 32)

    def __getitem__(self, grid):
        return self.run

    def run(self, *args, **options):
        leaves = dict(paths(args))
        fixed = [p.is_constexpr for p in self.kernel.params]
        constants = {
            path: x for path, x in leaves.items() if fixed[path[0]] or signature(x) == "constexpr"
        }
        aligned = {
            path: [["tt.divisibility", 16]]
            for path, x in leaves.items()
            if isinstance(x, torch.Tensor) or (isinstance(x, int) and x % 16 == 0)
        }
        aligned = {path: x for path, x in aligned.items() if path not in constants}
        types = {
            p.name: "constexpr" if p.is_constexpr else signature(x)
            for p, x in zip(self.kernel.params, args, strict=True)
        }
        source = ASTSource(self.kernel, types, constants, aligned)
        self.made = compile(source, target=self.target, options=options)
        print(json.dumps(self.report(args)), flush=True)

    def report(self, args):
        asm = self.made.asm
        return {
            "kernel": self.kernel.__name__,
            "capability": self.target.arch,
            "dtype": NAMES[args[2].dtype],  # of v: queries and keys may be integers
            "D": args[0].shape[-1],
            "shared": self.made.metadata.shared,
            "wgmma": asm["ptx"].count("wgmma.mma_async"),
            "mma": asm["ptx"].count("mma.sync"),
            "int8": asm["ptx"].count(".s32.s8.s8"),
            "prefetched": asm["ttgir"].count("ttg.async_copy_global_to_local"),
            "cubin": len(asm["cubin"]),
        }


def everything(dtype, D: int, capability: int) -> None:
    """Every kernel at one head width, as far as the compiler."""
    q = torch.zeros(1, 2, 256, D, dtype=dtype)
    k = v = torch.zeros(1, 1, 256, D, dtype=dtype)
    scales = torch.ones(1, 2, 256), torch.ones(1, 1, 256)
    with pretend(capability):
        o, lse = launch.forward(q, k, v, Causal(), 0.5)
        launch.backward(q, k, v, o, lse, o, Causal(), 0.5)
        launch.integers(q.to(torch.int8), k.to(torch.int8), v, *scales, Causal(), 0.5)


@contextmanager
def pretend(capability: int):
    """Kernels compile instead of running, and tiles are those of a GPU."""
    gpu = SimpleNamespace(device=SimpleNamespace(type="cuda"))
    with ExitStack() as stack:
        for name in ("forward_kernel", "queries_kernel", "keys_kernel", "int8_kernel"):
            compiled = Compiled(getattr(launch, name), capability)
            stack.enter_context(patch.object(launch, name, compiled))

        def size(kernel, q, v):
            return sizes.size(kernel, SimpleNamespace(**vars(gpu), shape=q.shape), v)

        stack.enter_context(patch.object(launch, "size", size))
        answer = divmod(capability, 10)
        stack.enter_context(patch("torch.cuda.get_device_capability", lambda device: answer))
        yield


if __name__ == "__main__":
    for what in sys.argv[1:]:  # like bf16-64-90
        name, width, capability = what.split("-")
        everything({v: k for k, v in NAMES.items()}[name], int(width), int(capability))
