# Every target sets up .venv by itself: about a minute when it is missing or stale, nothing otherwise.
PYTHON ?= python3
BIN := .venv/bin
READY := .venv/.ready
# One thread a process: the tests run in two processes side by side.
PYTEST := OMP_NUM_THREADS=1 MPLBACKEND=agg $(BIN)/pytest

.PHONY: demo test test-slow lint format clean

demo: $(READY)
	$(BIN)/regard train kernel --out runs/kernel

test: lint
	$(PYTEST) -n 2 -m "not slow"

test-slow: $(READY)
	MPLBACKEND=agg $(BIN)/pytest -m slow -s

lint: $(READY)
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy

format: $(READY)
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .

clean:
	rm -rf .venv build dist .pytest_cache .mypy_cache .ruff_cache .hypothesis

$(READY): pyproject.toml constraints.txt
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || \
	  { echo "regard needs Python 3.11 or newer; this is $$($(PYTHON) --version). Try: make $(MAKECMDGOALS) PYTHON=python3.12"; exit 1; }
	@echo "Setting up .venv (about a minute) ..."
	@$(PYTHON) -m venv .venv
	@$(BIN)/pip install --quiet --disable-pip-version-check -c constraints.txt -e '.[dev]' 2> .venv/pip.log || { cat .venv/pip.log; exit 1; }
	@touch $(READY)
