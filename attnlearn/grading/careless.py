"""Between two tasks: what an answer did to the whole kernel is undone, as far as it can be.

So a careless answer (another default dtype, warnings as errors, `sum = 0`, another folder) costs
its own task only. The state is kept in the kernel itself: nobody gains by changing it.
"""

MODULES = ("builtins", "math", "random", "numpy", "numpy.linalg", "numpy.random")
MODULES += ("torch", "torch.linalg", "torch.nn.functional")
BEGIN = f"""\
def _():
    import builtins, os, sys, warnings
    import numpy
    kept = vars(sys).setdefault("_attnlearn_kept", {{}})
    def undo(given, mine):
        for name in {MODULES!r}:
            if name in sys.modules:
                module = vars(sys.modules[name])
                module.update(kept.setdefault(name, dict(module)))
        for name in mine.keys() & vars(builtins).keys() - {{*given}}:
            if not name.startswith("_"):
                del mine[name]
        if given:
            now = {{name: mine[name] for name in given if name in mine}}
            mine.update(kept.setdefault("given", now))
        sys.setrecursionlimit(kept.setdefault("depth", sys.getrecursionlimit()))
        warnings.resetwarnings()
        warnings.simplefilter("ignore")
        numpy.seterr(divide="warn", over="warn", under="ignore", invalid="warn")
        if torch := sys.modules.get("torch"):
            torch.set_default_dtype(torch.float32)
            torch.set_default_device(None)
            torch.set_grad_enabled(True)
        if "folder" not in kept:
            kept["folder"] = os.getcwd()
        os.chdir(kept["folder"])
    sys._attnlearn_undo = undo
    undo((), globals())
_()
del _
"""


def undo(given):
    """Code for the kernel; `given` are the names that the exercise defines for its tasks."""
    return f"__import__('sys')._attnlearn_undo({list(given)!r}, globals())"
