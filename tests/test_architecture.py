"""Arrows of import point one way, NumPy is enough for the core, and nobody builds a junk drawer."""

import ast
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent / "attnlearn"

# file or folder: what it may import from the package
ALLOWED = {
    "masks": set(),
    "reference": {"masks"},
    "dense": {"masks"},
    "flash": {"masks"},
    "native": {"masks"},
    "kernels": {"masks"},
    "api": {"masks", "reference"},
    "position": set(),
    "cache": {"masks", "api", "quant"},
    "nn": {"masks", "api", "position", "cache"},
    "quant": {"masks", "api", "kernels"},
    "evidence": set(),
    "viz": {"masks", "api"},
    "bench": {"masks", "flash", "native", "dense", "position", "cache", "quant", "nn"},
    "bench_gpu": {"masks", "kernels", "native", "quant", "evidence"},
    "exercise": set(),
    "grading": {"exercise"},
    "__init__": {"api", "masks"},
    "commands": {"grading"},
    "__main__": {"commands"},
}


def imports(path: Path):
    """Names of the package's own files and folders that ``path`` imports, wherever in the file."""
    folder = path.relative_to(ROOT).parent.parts
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.ImportFrom):
            base = list(folder[: len(folder) - node.level + 1]) if node.level else []
            names = (node.module or "").split(".") if node.module else []
            if node.level == 0 and names[:1] != ["attnlearn"]:
                continue
            full = base + (names if node.level else names[1:])
            yield from [full[0]] if full else [alias.name for alias in node.names]
        elif isinstance(node, ast.Import):
            for alias in node.names:
                if alias.name.startswith("attnlearn."):
                    yield alias.name.split(".")[1]


def owner(path: Path) -> str:
    return path.relative_to(ROOT).parts[0].removesuffix(".py")


@pytest.mark.parametrize("path", sorted(ROOT.rglob("*.py")), ids=lambda p: str(p.relative_to(ROOT)))
def test_arrows_point_one_way(path):
    assert owner(path) in ALLOWED, f"{owner(path)}: say in ALLOWED what it may import"
    assert set(imports(path)) - {owner(path), "__version__"} <= ALLOWED[owner(path)]


def test_the_arrow_test_sees_arrows(tmp_path):
    assert set(imports(ROOT / "api.py")) == {"masks", "reference"}


def run(code: str) -> None:
    subprocess.run([sys.executable, "-c", code], check=True, cwd=ROOT.parent)


def test_numpy_is_enough():
    """With torch, matplotlib, IPython and ipywidgets out of reach the core and check still work."""
    run(
        "import sys\n"
        "for name in ('torch', 'triton', 'matplotlib', 'IPython', 'ipywidgets', 'nbval'):\n"
        "    sys.modules[name] = None\n"
        "import numpy as np, attnlearn, attnlearn.viz\n"
        "from attnlearn.exercise import check\n"
        "x = np.ones((1, 4, 2))\n"
        "assert (attnlearn.attention(x, x, x, attnlearn.Causal()) == 1).all()\n"
    )


def test_importing_loads_no_torch():
    run("import sys, attnlearn; assert not {'torch', 'matplotlib'} & set(sys.modules)")


def test_no_junk_drawer():
    assert not [p for p in ROOT.rglob("*") if p.stem in ("utils", "helpers", "common", "misc")]


@pytest.mark.parametrize("path", sorted(ROOT.rglob("*.py")), ids=lambda p: str(p.relative_to(ROOT)))
def test_files_and_functions_stay_small(path):
    tree = ast.parse(path.read_text())
    assert len(path.read_text().splitlines()) <= 280
    for node in ast.walk(tree):
        if isinstance(node, ast.FunctionDef):
            assert node.end_lineno - node.lineno < 50, node.name
