# `make demo` and `make test` need Python 3.11 or later, nothing else: they make their own .venv.

PYTHON ?= $(shell command -v python3.11 || command -v python3)
BIN := .venv/bin
STAMP := .venv/.installed
BUILDING := .venv/.installing
# Pins the build tools as well: pip hands its environment to the build it isolates.
PINNED := PIP_CONSTRAINT=constraints.txt PIP_BUILD_CONSTRAINT=constraints.txt

.PHONY: help demo test test-slow lint types bench clean

help:            ## this list
	@sed -n 's/^\([a-z-]*\): *[^#]*## */make \1\t/p' $(MAKEFILE_LIST) | expand -t 18

demo: $(STAMP)   ## train a small decoder on real text, let it write, check that it cannot see its future
	@$(BIN)/hitherto demo $(ARGS)

test: lint       ## what CI runs: lint, then every test but the slow ones
	OMP_NUM_THREADS=1 $(BIN)/python -m pytest -n 2

test-slow: $(STAMP) ## the slow tests alone
	OMP_NUM_THREADS=1 $(BIN)/python -m pytest -n 2 -m slow

lint: $(STAMP)   ## ruff: rules and format
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .

types: $(STAMP)  ## pyright
	$(BIN)/pyright

bench: $(STAMP)  ## every benchmark; each prints a table and ends with one JSON line
	@for file in benchmarks/bench_*.py; do echo "== $$file"; $(BIN)/python "$$file" || exit 1; done

clean:           ## forget the environment and the caches; runs/ stays
	rm -rf .venv build dist .pytest_cache .ruff_cache .hypothesis

# The stamp is written last. An install that was cut short leaves $(BUILDING) instead,
# and the next `make` then starts from an empty .venv.
$(STAMP): pyproject.toml constraints.txt CMakeLists.txt $(wildcard src/native/*)
	@test -n "$(PYTHON)" && $(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || \
	  { echo "hitherto needs Python 3.11 or later: make PYTHON=/path/to/python3.11"; exit 2; }
	@if test -e $(BUILDING); then echo "the last install was cut short: starting again"; \
	  rm -rf .venv; fi
	@test -x $(BIN)/python || { mkdir -p .venv && touch $(BUILDING) && $(PYTHON) -m venv .venv; }
	@touch $(BUILDING)
	@echo "installing hitherto and PyTorch into .venv (once)"
	@$(PINNED) $(BIN)/python -m pip install -qq --disable-pip-version-check -e '.[dev]'
	@rm -f $(BUILDING) && touch $@
