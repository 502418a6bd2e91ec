# Everything happens in .venv, which the first target that needs it sets up.

VENV  := .venv
READY := $(VENV)/.ready
BIN   := $(VENV)/bin
ARGS  ?=
# The benchmarks' peers and plots are an extra, installed when it is first needed.
NEEDS_PEERS = $(BIN)/python -c 'import duckdb, matplotlib, polars' 2>/dev/null || \
  $(BIN)/pip install -qq -c requirements.lock --no-build-isolation -e '.[bench]'

# So is Spark, if there is Java. PySpark is built from source, by tools that pip has to fetch.
NEEDS_SPARK = $(BIN)/python -c 'import pyspark, google.protobuf' 2>/dev/null || [ -z "$$JAVA_HOME$$(command -v java)" ] || \
  { echo "Installing Spark (once) …"; $(BIN)/pip install -qq -c requirements.lock -e '.[spark]'; } || \
  echo "Spark could not be installed; it is done without" >&2

# Every page is read again, because a page that was not read has no warnings.
SITE = $(BIN)/sphinx-build -q -E -W --keep-going -j auto -d build/doctrees -b html docs build/site

export PIP_DISABLE_PIP_VERSION_CHECK := 1
# Tests start hundreds of processes. Without bytecode on disk each compiles all sources first, which
# doubles the time that it takes to start.
unexport PYTHONDONTWRITEBYTECODE

.DEFAULT_GOAL := help
.PHONY: help demo test check types rules docs soak bench bench-quick bench-full fmt lock wheel clean

help: ## list these targets
	@echo "usage: make TARGET [ARGS=…]"; echo
	@awk -F ':.*## ' '/^[a-z-]+:.*## / { printf "  %-11s %s\n", $$1, $$2 }' $(firstword $(MAKEFILE_LIST))

demo: $(READY) ## show standing queries at work on a generated stream (ARGS=--example)
	@$(NEEDS_SPARK)
	@$(BIN)/triegs demo $(ARGS)

# Four processes, because tests of Spark and of kills wait a good part of their time.
test: $(READY) ## run all tests on two cores (ARGS="-k elimination")
	@$(NEEDS_SPARK)
	@$(BIN)/python -m tests.spark.archive || true
	@$(BIN)/pytest -q -n 4 --dist loadgroup $(ARGS)

# Types take one core half of the time. `make test` runs the programs in the documentation.
check: $(READY) ## lint, format, types, import order, documentation, site
	@$(MAKE) --no-print-directory -j 2 types rules

types: $(READY)
	@$(BIN)/mypy --no-error-summary && echo "types          ok"

rules: $(READY)
	@$(BIN)/ruff check --quiet . && echo "lint           ok"
	@$(BIN)/ruff format --quiet --check . && echo "format         ok" \
	  || { echo "format         run 'make fmt'" >&2; exit 1; }
	@if report=$$($(BIN)/lint-imports --no-logo 2>&1); then echo "import order   ok"; else echo "$$report"; exit 1; fi
	@$(SITE) && echo "site           ok"
	@$(BIN)/pytest -q tests/docs --ignore=tests/docs/test_examples.py --ignore=tests/docs/test_notebooks.py

docs: $(READY) ## build the site into build/site
	@$(SITE)
	@echo "build/site/index.html"

# The gate against the oracle comes first, so that its result is there within the hour.
soak: $(READY) ## run the property tests for long, with fresh random examples
	@$(NEEDS_SPARK)
	@TRIEGS_PROFILE=soak $(BIN)/pytest -q -n 2 -m property $(or $(ARGS),tests/stress)
	@$(if $(ARGS),,TRIEGS_PROFILE=soak $(BIN)/pytest -q -n 2 -m property --ignore=tests/stress)

bench: $(READY) ## measure against peers in ten minutes, rewrite docs/measurements.md (ARGS="changes")
	@$(NEEDS_PEERS)
	@$(BIN)/python -m bench.suite --docs docs $(ARGS)

bench-quick: $(READY) ## measure against the goals in five minutes (ARGS="slides memory")
	@$(NEEDS_PEERS)
	@$(BIN)/python -m bench.quick $(ARGS)

bench-full: $(READY) ## measure what takes longer: large results, readers, hubs, cold starts
	@$(NEEDS_PEERS)
	@$(BIN)/python -m bench.full $(ARGS)

fmt: $(READY) ## sort imports and format the code
	@$(BIN)/ruff check --quiet --fix-only .
	@$(BIN)/ruff format .

lock: $(READY) ## pin the dependencies again after a change (ARGS=--upgrade for newer ones)
	@$(BIN)/pip install -qq 'uv>=0.5'
	@$(BIN)/uv pip compile --quiet --universal --python-version 3.11 --all-extras \
	  --no-header --annotation-style line $(ARGS) --output-file requirements.lock pyproject.toml
	@{ echo "# One pin per package for every extra, used as constraints: pip install -c requirements.lock"; \
	   echo "# Made from pyproject.toml by 'make lock'."; cat requirements.lock; } > $(VENV)/lock
	@mv $(VENV)/lock requirements.lock
	@echo "requirements.lock: $$(grep -c '==' requirements.lock) pins"

# With kernels compiled for x86-64-v3; on other machines, and for KIND=pure, without compiled code.
wheel: $(READY) ## build the wheel into dist/, with compiled kernels (KIND=pure for every platform)
	@objects=; if [ "$(KIND)" != pure ] && [ "$$(uname -sm)" = "Linux x86_64" ]; then \
	  objects=$$($(BIN)/python -m triegs.cli.ship build/kernels) || exit 1; \
	fi; \
	TRIEGS_OBJECTS=$$objects $(BIN)/pip wheel -qq --no-deps --no-build-isolation --wheel-dir dist .
	@ls dist/*.whl

clean: ## remove .venv, build/, dist/ and every cache
	@rm -rf $(VENV) build dist .hypothesis .pytest_cache .mypy_cache .ruff_cache .import_linter_cache
	@find src tests -name __pycache__ -type d -prune -exec rm -rf {} +

# The stamp is written last, so a set-up that failed is tried again.
$(READY): pyproject.toml requirements.lock
	@echo "Setting up $(VENV) (once) …"
	@rm -f $@
	@if [ ! -x $(BIN)/pip ]; then \
	  for python in python3 python3.13 python3.12 python3.11; do \
	    if $$python -c 'import sys; sys.exit(sys.version_info < (3, 11))' 2>/dev/null; then break; fi; \
	    python=; \
	  done; \
	  if [ -z "$$python" ]; then \
	    echo "triegs needs Python 3.11 or newer; found $$(python3 --version 2>&1)" >&2; exit 1; \
	  fi; \
	  $$python -m venv $(VENV); \
	fi
	@$(BIN)/pip install -qq -c requirements.lock hatchling editables
	@$(BIN)/pip install -qq -c requirements.lock --no-build-isolation -e '.[dev,docs]'
	@touch $@
