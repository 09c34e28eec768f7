# Every target sets up .venv by itself: about a minute when it is missing or stale, nothing otherwise.
PYTHON ?= python3
BIN := .venv/bin
READY := .venv/.ready
BROWSER := .venv/.browser
# One thread a process: the tests run in two processes side by side.
PYTEST := OMP_NUM_THREADS=1 MPLBACKEND=agg $(BIN)/pytest

.PHONY: demo test test-slow lint format docs reference notebooks man wheel clean

demo: $(READY)
	@rm -rf runs/demo
	$(BIN)/regard train picturebook --out runs/demo
	$(BIN)/regard data show picturebook --split test -n 5 | cut -f 1 > runs/demo/five.de
	$(BIN)/regard translate runs/demo runs/demo/five.de | paste -d '\n' runs/demo/five.de - | sed 'n;s/^/    /'
	$(BIN)/regard look runs/demo "Ein alter Mann liest im Park eine Zeitung." -o runs/demo/alignment.png

test: lint $(BROWSER)
	$(PYTEST) -n 2 --dist worksteal

test-slow: $(READY) $(BROWSER)
	MPLBACKEND=agg $(BIN)/pytest -m slow -s

lint: $(READY)
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy

format: $(READY)
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .

docs: $(READY)
	NO_MKDOCS_2_WARNING=1 $(BIN)/mkdocs build --strict

# The generated parts of docs/reference, from the help of the commands, the recipes' dataclasses and the docstrings.
reference: $(READY)
	$(BIN)/python docs/building/reference.py

notebooks: $(READY)
	$(BIN)/python docs/building/notebooks.py --out build/notebooks

man: $(READY)
	@mkdir -p dist
	$(BIN)/regard man > dist/regard.1

# A wheel with the engine compiled for every target of this machine (pure Python without a compiler), and the source archive.
wheel: $(READY)
	$(BIN)/python -m build --outdir dist

clean:
	rm -rf .venv build dist .pytest_cache .mypy_cache .ruff_cache .hypothesis

$(READY): pyproject.toml constraints.txt hatch_build.py
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || \
	  { echo "regard needs Python 3.11 or newer; this is $$($(PYTHON) --version). Try: make $(MAKECMDGOALS) PYTHON=python3.12"; exit 1; }
	@echo "Setting up .venv (about a minute) ..."
	@$(PYTHON) -m venv .venv
	@$(BIN)/pip install --quiet --disable-pip-version-check -c constraints.txt -e '.[dev]' 2> .venv/pip.log || { cat .venv/pip.log; exit 1; }
	@touch $(READY)

# Debian's Chromium for the tests of pages, where this machine has none and lets us install it.
$(BROWSER): $(READY)
	@command -v chromium chromium-browser google-chrome > /dev/null || \
	  { echo "Installing chromium for the tests of pages ..."; \
	    { apt-get update -qq && apt-get install -qq -y --no-install-recommends chromium; } > .venv/apt.log 2>&1 || \
	      echo "chromium could not be installed (.venv/apt.log says why): the tests of pages will be skipped"; }
	@touch $(BROWSER)
