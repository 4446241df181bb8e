# Every target works as the first command on a machine with git, make and python3.
PYTHON ?= python3
VENV ?= .venv
BIN := $(VENV)/bin
READY := $(VENV)/.ready

# With `make PYTHON=python3.13 ...`, a .venv that another Python made is made anew.
minor = $(shell $(1) -c 'import sys; print(sys.version_info[:2])' 2>/dev/null)
ifneq ($(origin PYTHON),file)
ifneq ($(call minor,$(PYTHON)),$(call minor,$(BIN)/python))
.PHONY: $(READY)
CLEAR := --clear
endif
endif

.DEFAULT_GOAL := help
.PHONY: help setup demo test test-all test-oldest lint format bench docs gallery clean

help:  ## what there is
	@grep -hE '^[a-z-]+:.*##' $(MAKEFILE_LIST) | sed -E 's/:.*## /\t/' | expand -t 12

$(READY): pyproject.toml
	$(PYTHON) -m venv $(CLEAR) $(VENV)
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --editable ".[dev]" $(CONSTRAINTS)
	@touch $@

setup: $(READY)  ## create .venv and install into it

demo: $(READY)  ## the main job, on data that scikit-learn ships
	$(BIN)/widetail demo

# Test processes share the cores: BLAS threads of one would spin while those of another work.
test test-all test-oldest: export OPENBLAS_NUM_THREADS ?= 1

UNTYPED := -o addopts=--strict-markers
# Compiling takes most of the time of the quick tests: they compile without most optimisations, test-all with them.
# An option of JAX rather than of its compiler, and in the environment: a release that drops it ignores it.
test: export JAX_DISABLE_MOST_OPTIMIZATIONS ?= 1
# What was compiled is kept: for the other process, and for the next run, which takes less than half of the time.
test: export JAX_COMPILATION_CACHE_DIR ?= $(CURDIR)/.jax_cache
test: export JAX_PERSISTENT_CACHE_MIN_COMPILE_TIME_SECS ?= 0
test: export JAX_PERSISTENT_CACHE_MIN_ENTRY_SIZE_BYTES ?= -1
# Types and shapes of all arguments are checked by `make test TYPES=1`, by test-all, and by pytest alone: a third more time.
test: $(READY)  ## all but the slow tests
	$(BIN)/python -m pytest -n auto --dist loadscope --no-loadscope-reorder -q -m "not slow" $(if $(TYPES),,$(UNTYPED))

test-all: $(READY)  ## every test, and the quick ones on the oldest versions
	$(BIN)/python -m pytest -n auto --dist loadscope --no-loadscope-reorder -q
	$(MAKE) test-oldest

# The lower bounds of pyproject.toml, on the oldest Python: newer ones have no packages that old.
OLDEST_PYTHON ?= $(shell .ci/pythons | sed -n 's/^3\.11 //p')
test-oldest:  ## all but the slow tests, on the oldest versions that are supported
	@test -n "$(OLDEST_PYTHON)" || { echo "Python 3.11 is not here: name it by OLDEST_PYTHON=path" >&2; exit 1; }
	$(MAKE) test PYTHON=$(OLDEST_PYTHON) VENV=.venv-oldest CONSTRAINTS="--constraint constraints-oldest.txt"

lint: $(READY)  ## formatting, lint, types, order of the rooms
	$(BIN)/ruff format --check .
	$(BIN)/ruff check .
	$(BIN)/basedpyright
	$(BIN)/lint-imports
	$(BIN)/python tools/import_graph.py --check

format: $(READY)  ## mend what ruff can mend
	$(BIN)/ruff format .
	$(BIN)/ruff check --fix .

bench: $(READY)  ## speed and memory against the peers
	$(BIN)/python -m benchmarks

docs: $(READY)  ## build the documentation into site/
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --editable ".[docs]"
	$(BIN)/python -m mkdocs build --strict

gallery: $(READY)  ## draw the pictures of the documentation anew
	$(BIN)/python docs/gallery.py

clean:  ## remove what the other targets made
	rm -rf .venv .venv-* site out .jax_cache .pytest_cache .ruff_cache .hypothesis
