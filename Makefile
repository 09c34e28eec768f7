# Every target sets up .venv by itself where it is missing or out of date: `make demo` installs what regard needs to
# run, the other targets add what its developers need.
PYTHON ?= python3
BIN := .venv/bin
READY := .venv/.ready
DEV := .venv/.ready-dev
BROWSER := .venv/.browser
INSTALL := $(BIN)/pip install --quiet --disable-pip-version-check --no-compile -c constraints.txt -e
# One thread a process: the tests run in two processes side by side.
PYTEST := OMP_NUM_THREADS=1 MPLBACKEND=agg $(BIN)/pytest

.PHONY: demo test test-slow lint format docs reference notebooks man wheel clean

demo: $(READY)
	@rm -rf runs/demo
	$(BIN)/regard train picturebook --out runs/demo
	$(BIN)/regard data show picturebook --split test -n 5 | cut -f 1 > runs/demo/five.de
	$(BIN)/regard translate runs/demo runs/demo/five.de | paste -d '\n' runs/demo/five.de - | sed 'n;s/^/    /'
	$(BIN)/regard look runs/demo "Ein alter Mann liest im Park eine Zeitung." -o runs/demo/alignment.png
	@printf '%s\n' '' 'next:' \
	  '  echo "Der Hund schläft." | $(BIN)/regard translate runs/demo' \
	  '  $(BIN)/regard look runs/demo "Der Hund schläft." -o head-view.html' \
	  '  $(BIN)/regard train translation data.source=mine.de data.target=mine.en train.minutes=10 --out runs/mine' \
	  '  $(BIN)/pip install -c constraints.txt "regard[serve] @ ." && $(BIN)/regard serve runs/demo'

test: lint $(BROWSER)
	$(PYTEST) -n 2 --dist worksteal

test-slow: $(DEV) $(BROWSER)
	MPLBACKEND=agg $(BIN)/pytest -m slow -s

lint: $(DEV)
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy

format: $(DEV)
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .

docs: $(DEV)
	NO_MKDOCS_2_WARNING=1 $(BIN)/mkdocs build --strict

# The generated parts of docs/reference, from the help of the commands, the recipes' dataclasses and the docstrings.
reference: $(DEV)
	$(BIN)/python docs/building/reference.py

notebooks: $(DEV)
	$(BIN)/python docs/building/notebooks.py --out build/notebooks

man: $(READY)
	@mkdir -p dist
	$(BIN)/regard man > dist/regard.1

# A wheel with the engine compiled for every target of this machine (pure Python without a compiler), and the source archive.
wheel: $(DEV)
	$(BIN)/python -m build --outdir dist

clean:
	rm -rf .venv build dist .pytest_cache .mypy_cache .ruff_cache .hypothesis

$(READY): pyproject.toml constraints.txt hatch_build.py
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || \
	  { echo "regard needs Python 3.11 or newer; this is $$($(PYTHON) --version). Try: make $(MAKECMDGOALS) PYTHON=python3.12"; exit 1; }
	@echo "set-up 1: .venv with PyTorch and what regard needs to run (1 GB, about a minute with a fast connection) ..."
	@start=$$(date +%s); $(PYTHON) -m venv .venv && { $(INSTALL) . 2> .venv/pip.log || { cat .venv/pip.log; exit 1; }; } && \
	  echo "set-up 1: done in $$(($$(date +%s) - start)) s, $$(du -sm .venv | cut -f 1) MB"
	@touch $(READY)

$(DEV): $(READY)
	@echo "set-up 2: test and documentation tools, other toolkits to compare with (1.6 GB more, about a minute) ..."
	@start=$$(date +%s); { $(INSTALL) '.[dev]' 2> .venv/pip.log || { cat .venv/pip.log; exit 1; }; } && \
	  echo "set-up 2: done in $$(($$(date +%s) - start)) s, $$(du -sm .venv | cut -f 1) MB"
	@touch $(DEV)

# Debian's Chromium for the tests of pages, where this machine has none and lets us install it.
$(BROWSER): $(DEV)
	@command -v chromium chromium-browser google-chrome > /dev/null || \
	  { echo "Installing chromium for the tests of pages ..."; \
	    { apt-get update -qq && apt-get install -qq -y --no-install-recommends chromium; } > .venv/apt.log 2>&1 || \
	      echo "chromium could not be installed (.venv/apt.log says why): the tests of pages will be skipped"; }
	@touch $(BROWSER)
