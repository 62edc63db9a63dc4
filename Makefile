# A laptop and CI run the same targets. Needed: Python 3.11 or later and make; a C compiler is used
# when there is one.

PYTHON ?= python3
JOBS ?= 4
# A benchmark and its options: make bench PART=server ARGS='--only post --json'
PART ?= log

BIN := .venv/bin
STAMP := .venv/.installed
COLLECTED := .pytest_cache/collected
PARALLEL := -n $(JOBS) --dist worksteal
# Nothing is left behind, also when a run is interrupted: no process, no mount, no file.
CONTAIN := $(BIN)/python scripts/contain.py
PYTEST := $(CONTAIN) $(BIN)/pytest $(PARALLEL)

# The tests start servers and commands by the hundred: each module is compiled once.
unexport PYTHONDONTWRITEBYTECODE

.DEFAULT_GOAL := help
.PHONY: help setup demo test all-tests test-fast pythons peers fmt lint types crash bench docs ci clean

help:
	@sed -n 's/^\([a-z-]*\):.*## \(.*\)/  make \1\t\2/p' $(firstword $(MAKEFILE_LIST)) | expand -t 16

setup: $(STAMP) ## create .venv and install Penstock into it, when anything changed

$(STAMP): pyproject.toml setup.py $(wildcard src/penstock/*/kernel_source/*.p*)
	test -x $(BIN)/python || $(PYTHON) -m venv .venv
	$(BIN)/python -m pip install --quiet --disable-pip-version-check -e '.[dev]' && touch $@

demo: $(STAMP) ## run the main job end to end in a scratch directory and tell what happened
	$(BIN)/penstock demo

# Tests wait a lot: mypy and the tests of the other Pythons run meanwhile.
test: lint peers ## everything CI runs: lint, types, all tests, units on other Pythons
	$(MAKE) --no-print-directory -j3 types all-tests pythons

all-tests: $(STAMP) $(COLLECTED)
	$(PYTEST) tests

# pytest rewrites and compiles each test module at its first import: once here, not once in each of
# the processes that start together.
$(COLLECTED): $(STAMP) $(shell find tests -name '*.py')
	$(BIN)/pytest --collect-only -qq tests > /dev/null
	@mkdir -p $(@D) && touch $@

test-fast: lint types ## lint, types, units, house rules and docs, in two minutes
	PENSTOCK_RIG=brief $(PYTEST) tests/unit tests/contract tests/tidy tests/docs

pythons: $(STAMP) ## the unit tests on every other Python found here
	$(CONTAIN) $(BIN)/python scripts/other_pythons.py --quiet

peers:
	@if [ -n "$$CI" ] && [ "$$(id -u)" = 0 ]; then $(PYTHON) scripts/setup_debian.py || true; fi

fmt: $(STAMP) ## format, fix what can be fixed safely, and generate the sync client
	$(BIN)/ruff check --fix-only --quiet .
	$(BIN)/ruff format .
	$(BIN)/python scripts/generate_sync_client.py

lint: $(STAMP) ## check style and format, change nothing
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .

types: $(STAMP) ## mypy --strict over src and benchmarks
	$(BIN)/mypy

crash: $(STAMP) ## the crash rigs at full size; takes a while
	PENSTOCK_RIG=full $(PYTEST) tests/crash tests/faults tests/spark tests/docs tests/benchmarks tests/server/test_schemathesis.py tests/server/test_router_*.py

bench: $(STAMP) ## measure one part on this machine: make bench PART=server
	$(BIN)/python -m benchmarks $(PART) $(ARGS)

docs: $(STAMP) ## check that what the docs say is true
	$(PYTEST) tests/docs

ci: ## what CI does, the way CI does it
	.ci/run

clean: ## remove what was built; the next target installs again
	rm -rf build dist .venvs .mypy_cache .ruff_cache .pytest_cache .hypothesis src/*.egg-info $(STAMP)
	find src \( -name '*.so' -o -name '*.py[co]' \) -delete
