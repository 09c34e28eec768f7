# Every target sets up .venv by itself: about a minute when it is missing or stale, nothing otherwise.
PYTHON ?= python3
BIN := .venv/bin
READY := .venv/.ready
# One thread a process: the tests run in two processes side by side.
PYTEST := OMP_NUM_THREADS=1 MPLBACKEND=agg $(BIN)/pytest

.PHONY: demo test test-slow lint format clean

demo: $(READY)
	@rm -rf runs/demo
	$(BIN)/regard train picturebook --out runs/demo
	$(BIN)/regard data show picturebook --split test -n 5 | cut -f 1 > runs/demo/five.de
	$(BIN)/regard translate runs/demo runs/demo/five.de | paste -d '\n' runs/demo/five.de - | sed 'n;s/^/    /'
	$(BIN)/regard look runs/demo "Ein alter Mann liest im Park eine Zeitung." -o runs/demo/alignment.png

test: lint
	$(PYTEST) -n 2

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
