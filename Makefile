# Two commands do everything on a fresh machine: `make demo` and `make test`.
SHELL := /bin/bash
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
JOBS ?= 2
LIVES ?= 3000

.PHONY: help demo test lint types imports unit coverage bench soak crds chart settings metrics controlplane lock clean

help: ## Say what can be made
	@grep -hE '^[a-z-]+:.*## ' $(MAKEFILE_LIST) | sed 's/:.*## /\t/' | expand -t 16

$(VENV)/.ready: requirements/dev.txt pyproject.toml
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || { echo "karpenter needs Python 3.11 or newer; hint: make PYTHON=python3.12 $(MAKECMDGOALS)" >&2; exit 1; }
	@test -x $(BIN)/python || $(PYTHON) -m venv $(VENV) || { echo "cannot create $(VENV); hint: on Debian, apt-get install python3-venv" >&2; exit 1; }
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --require-hashes -r requirements/dev.txt
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --no-deps --no-build-isolation --editable .
	@touch $@

demo: $(VENV)/.ready ## Show the product, with no cluster and no cloud account
	@$(BIN)/karpenter demo

test: lint types imports coverage ## Lint, type-check, test and measure coverage

lint: $(VENV)/.ready ## Check style and formatting
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .

types: $(VENV)/.ready ## Check types, strictly
	$(BIN)/mypy src tests benchmarks

imports: $(VENV)/.ready ## Check the layers and the purity of the core
	$(BIN)/lint-imports --no-cache

unit: $(VENV)/.ready ## Run the tests without measuring coverage
	$(BIN)/pytest -n $(JOBS) -m "not controlplane and not helm"

coverage: $(VENV)/.ready ## Run the tests; base and core must be covered whole
	$(BIN)/coverage erase
	$(BIN)/pytest -n $(JOBS) -m "not controlplane and not helm" --cov --cov-report=
	$(BIN)/coverage report

bench: $(VENV)/.ready ## Print the tables of speed, memory and price
	$(BIN)/python -m benchmarks

soak: $(VENV)/.ready ## Live through thousands of made-up days; takes hours
	$(BIN)/karpenter simulate --seed 1..$(LIVES) --hours 1 --faults many
	$(BIN)/karpenter simulate --provider aws --seed 1..$(LIVES) --hours 1 --faults many

crds: $(VENV)/.ready ## Write the CRDs of the chart anew from the API types
	$(BIN)/karpenter crds --write charts/karpenter/crds
	$(BIN)/karpenter crds --write docs/reference --output markdown

chart: $(VENV)/.ready ## Write the charts anew from the objects that are applied
	$(BIN)/python -m karpenter.chart charts/karpenter charts/karpenter-crd

settings: $(VENV)/.ready ## Write the reference of settings anew
	$(BIN)/python -m karpenter.chart.reference > docs/reference/settings.md

metrics: $(VENV)/.ready ## Write the reference of metrics anew
	$(BIN)/python -m karpenter.telemetry.reference > docs/reference/metrics.md

controlplane: $(VENV)/.ready ## Build or find the real control plane and helm, for the contract suite
	$(BIN)/python controlplane/build.py

lock: ## Lock the dependencies anew
	$(BIN)/python -m pip install --quiet uv
	$(BIN)/uv pip compile --quiet --universal --python-version 3.11 --generate-hashes --no-emit-index-url --no-header --group dev --extra lp pyproject.toml -o requirements/dev.txt

clean: ## Remove everything that was made
	rm -rf $(VENV) .coverage* .hypothesis .mypy_cache .pytest_cache .ruff_cache build dist
