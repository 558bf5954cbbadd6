# `make demo` and `make test` do all their own set-up: only python3 (3.10 or later) is needed.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
READY := $(VENV)/.ready
DEMO := fixtures/batchnorm_cnn/train.py
DEMO_OUT := build/demo/train_ddp.py

.DEFAULT_GOAL := help
.PHONY: help demo test test-gpu lint format docs clean

help: ## Show the targets.
	@grep -hE '^[a-z-]+:.*## ' $(MAKEFILE_LIST) | sed -E 's/^([a-z-]+):.*## (.*)/  make \1\t\2/'

demo: $(READY) ## Convert a bundled script, run it on 1 and on 2 processes, and compare.
	@mkdir -p $(dir $(DEMO_OUT))
	$(BIN)/ddpify convert $(DEMO) -o $(DEMO_OUT) --overwrite --diff
	$(BIN)/ddpify verify $(DEMO) $(DEMO_OUT) --nproc 2

test: $(READY) ## Run the tests.
	$(BIN)/python -m pytest -n auto --dist loadfile

test-gpu: $(READY) ## Run what needs a GPU; skipped without one.
	$(BIN)/python -m pytest -m gpu tests/gpu tests/verify/test_device.py

lint: $(READY) ## Run ruff and mypy.
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy

format: $(READY) ## Fix what ruff can fix, and format.
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .

docs: $(READY) ## Update the output that the documentation shows.
	$(BIN)/python -m tests.test_docs

clean: ## Remove what the targets above made.
	rm -rf $(VENV) build dist *.egg-info .mypy_cache .pytest_cache .ruff_cache

# The stamp is written last, so that an interrupted installation is done again.
$(READY): pyproject.toml constraints-dev.txt
	$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 10) and "ddpify needs Python 3.10 or later: make PYTHON=python3.12 ...")'
	$(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --disable-pip-version-check -c constraints-dev.txt -e '.[torch,dev]'
	@touch $@
