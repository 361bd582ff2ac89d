# Needs Python 3.11 to 3.13, make and a package index. `make book` and `make test` do the rest.

SUITS := import sys; sys.exit(not (3, 11) <= sys.version_info[:2] <= (3, 13))
PYTHON ?= $(shell for p in python3 python3.13 python3.12 python3.11; do \
	$$p -c '$(SUITS)' 2>/dev/null && echo $$p && break; done)
BIN := .venv/bin
READY := .venv/ready
PACKAGE := $(shell find attnlearn -name '*.py' -o -name '*.json' -o -name '*.npz' | sort)
PAGES := $(wildcard book/*.ipynb book/*.md book/*.bib book/evidence/*.json exercises/*.ipynb book/_static/* book/_templates/*)
SITE := _build/html/ready
EXPERIMENTS := language heads recall extrapolation sparse decoding quantization course graders

export PYTHONHASHSEED := 0
export JUPYTER_PLATFORM_DIRS := 1
# One thread in each process: several run side by side.
export OMP_NUM_THREADS ?= 1

.PHONY: help book serve test lint release experiments bench gpu clean

help:
	@echo "make book         build the web book: _build/html/index.html"
	@echo "make serve        build it and show it at http://127.0.0.1:8000"
	@echo "make test         lint, stale files, unit tests, the exercise bank, notebooks, the site"
	@echo "make lint         ruff, check and format"
	@echo "make release      write the notebooks, tables and the bank page from their sources"
	@echo "make experiments  run what is too long for a chapter; results go to book/evidence"
	@echo "make bench        time and memory of the implementations, as ratios"
	@echo "make gpu          tests and bench on an NVIDIA GPU; figures go to book/evidence"
	@echo "make clean        remove what was built, all but .venv"

$(READY): requirements.txt pyproject.toml
	@test -n "$(PYTHON)" || { echo "No Python 3.11, 3.12 or 3.13 found: set PYTHON=..."; exit 1; }
	@$(PYTHON) -c '$(SUITS)' || { echo "PYTHON=$(PYTHON) is not Python 3.11 to 3.13"; exit 1; }
	@test ! -x $(BIN)/python || $(BIN)/python -c '$(SUITS)' \
		|| { echo ".venv was made by another Python: rm -rf .venv, and try again"; exit 1; }
	@echo "== Installing the pinned packages into .venv (some minutes, once)"
	@test -x $(BIN)/python || $(PYTHON) -m venv .venv
	@$(BIN)/python -m pip install --disable-pip-version-check --progress-bar off -r requirements.txt
	@$(BIN)/python -m pip install --disable-pip-version-check -q --no-deps -e .
	@$(BIN)/python -m pip check
	@touch $@

book: $(SITE)
	@echo "== The book: _build/html/index.html"

# The cache of executed notebooks knows their cells, not the package that the cells import.
_build/package: $(PACKAGE) requirements.txt
	@mkdir -p _build && rm -rf _build/.jupyter_cache && touch $@

$(SITE): $(READY) _build/package $(PAGES) _config.yml _toc.yml
	@echo "== Building the book"
	@$(BIN)/jupyter-book build . -W -n --keep-going --all
	@touch $@

serve: book
	@echo "== http://127.0.0.1:8000 (Ctrl-C to stop)"
	@$(BIN)/python -m http.server --bind 127.0.0.1 --directory _build/html 8000

test: $(READY) lint
	@echo "== Generated files"
	@$(BIN)/python -m attnlearn release --check
	@echo "== Unit tests and the exercise bank"
	@$(BIN)/python -m pytest -n 2 --dist loadgroup -m "not site"
	@echo "== Solved notebooks, under nbval"
	@$(BIN)/python -m pytest --nbval solutions/*.ipynb -q
	@$(MAKE) --no-print-directory book
	@echo "== The site, in a browser"
	@$(BIN)/python -m pytest -n 2 -m site

lint: $(READY)
	@echo "== Lint"
	@$(BIN)/ruff check . && $(BIN)/ruff format --check .

release: $(READY)
	@$(BIN)/python -m attnlearn release

experiments: $(READY)
	@mkdir -p book/evidence
	@$(BIN)/python -m attnlearn.bench --json book/evidence/bench.json
	@for name in $(EXPERIMENTS); do \
		echo "== $$name"; $(BIN)/python book/experiments/$$name.py || exit 1; done

bench: $(READY)
	@$(BIN)/python -m attnlearn.bench

# On a machine that has torch 2.11+, triton 3.6+, numpy and pytest: no .venv, nothing is installed.
gpu: export PYTHONPATH := $(CURDIR)
gpu:
	@$(PYTHON) -c 'import torch, triton, numpy, pytest' \
		|| { echo "make gpu needs torch, triton, numpy and pytest: set PYTHON=..."; exit 1; }
	@$(PYTHON) -m attnlearn.bench_gpu --check
	@$(PYTHON) -m pytest -q -m gpu tests/test_gpu.py & other=$$!; \
		$(PYTHON) -m pytest -q -m gpu tests/test_kernels.py -k "not every_kernel_compiles"; \
		one=$$?; wait $$other && exit $$one
	@$(PYTHON) -m attnlearn.bench_gpu

clean:
	rm -rf _build .pytest_cache .ruff_cache
	find . -name __pycache__ -not -path './.venv/*' -prune -exec rm -rf {} +
