# Two commands do everything on a fresh machine: `make demo` and `make test`.
SHELL := /bin/bash
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
JOBS ?= 2
RUNS ?= 3000
# What `make test` leaves to targets of their own: they need programs of others, or minutes.
QUICK := not (controlplane or helm or tour or long or browser or cdk or prometheus or terminal)

.PHONY: help demo test lint types imports unit coverage tour long browser cdk helm prometheus terminal bench walks soak fuzz crds chart settings metrics doctor controlplane lock clean

help: ## Say what can be made
	@grep -hE '^[a-z -]+:.*## ' $(MAKEFILE_LIST) | sed 's/:.*## /\t/' | expand -t 36

$(VENV)/.python:
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || { echo "karpenter needs Python 3.11 or newer; hint: make PYTHON=python3.12 $(MAKECMDGOALS)" >&2; exit 1; }
	@echo "Making $(VENV)"
	@$(PYTHON) -m venv $(VENV) || { echo "cannot create $(VENV); hint: on Debian, apt-get install python3-venv" >&2; exit 1; }
	@touch $@

# The demo needs 40 packages; everything for development is three times as many. Both go to the same place.
$(VENV)/.demo: requirements/demo.txt packages/karpenter/pyproject.toml packages/karpenter-local/pyproject.toml | $(VENV)/.python
	@tools/install $(BIN) requirements/demo.txt
	@touch $@

$(VENV)/.ready: requirements/dev.txt pyproject.toml $(VENV)/.demo
	@tools/install $(BIN) requirements/dev.txt
	@touch $@

demo: $(VENV)/.demo ## Show the product, with no cluster and no cloud account
	@$(BIN)/karpenter demo

test: lint types imports coverage ## Lint, type-check, test and measure coverage

lint: $(VENV)/.ready ## Check style and formatting
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .

types: $(VENV)/.ready ## Check types, strictly
	$(BIN)/mypy packages/karpenter/src packages/karpenter-local/src tests benchmarks

imports: $(VENV)/.ready ## Check the layers and the purity of the core
	$(BIN)/lint-imports --no-cache

unit: $(VENV)/.ready ## Run the tests without measuring coverage
	$(BIN)/pytest -n $(JOBS) -m "$(QUICK)"

coverage: $(VENV)/.ready ## Run the tests; base and core must be covered whole
	$(BIN)/coverage erase
	$(BIN)/pytest -n $(JOBS) -m "$(QUICK)" --cov --cov-report=
	$(BIN)/coverage report

tour: $(VENV)/.ready ## Follow the tutorials, command by command; takes three minutes and needs kubectl
	$(BIN)/pytest -n 0 -m tour tests/integration/test_docs_install.py tests/integration/test_docs_aws.py

browser cdk helm prometheus terminal: $(VENV)/.ready ## Run the tests that need Chromium, node, helm, Prometheus or tmux
	$(BIN)/pytest -n 0 -m $@ tests

long: $(VENV)/.ready ## Run what make test runs a part of: more simulated runs, more examples of each law
	$(BIN)/pytest -n $(JOBS) -m long tests
	$(BIN)/pytest -n $(JOBS) --hypothesis-profile=steady tests/property

bench: $(VENV)/.ready ## Print the tables of speed, memory and price
	$(BIN)/python -m benchmarks

walks: $(VENV)/.ready ## Say which modules a pod, a consolidation and a plan pass
	$(BIN)/python -m tools.walks

soak: $(VENV)/.ready ## Run thousands of simulated hours with faults; takes hours
	$(BIN)/karpenter simulate --seed 1..$(RUNS) --hours 1 --faults many
	$(BIN)/karpenter simulate --provider aws --seed 1..$(RUNS) --hours 1 --faults many

SECONDS ?= 60
fuzz: $(VENV)/.ready ## Feed hostile text to everything that reads text, for SECONDS=60
	$(BIN)/python -m tests.fuzz $(SECONDS)

crds: $(VENV)/.ready ## Write the CRDs of the chart anew from the API types
	$(BIN)/karpenter crds --write charts/karpenter/crds
	$(BIN)/karpenter crds --write docs/reference --output markdown

chart: $(VENV)/.ready ## Write the charts anew from the objects that are applied
	$(BIN)/python -m karpenter.chart charts/karpenter charts/karpenter-crd

settings: $(VENV)/.ready ## Write the reference of settings anew
	$(BIN)/python -m karpenter.chart.reference > docs/reference/settings.md

metrics: $(VENV)/.ready ## Write the reference of metrics anew
	$(BIN)/python -m karpenter.telemetry.reference > docs/reference/metrics.md

doctor: $(VENV)/.ready ## Write the page of the doctor's rules anew
	$(BIN)/python -m karpenter.doctor.reference > docs/reference/doctor.md

controlplane: $(VENV)/.ready ## Build or find the real control plane and helm, for the contract suite
	$(BIN)/python controlplane/build.py

LOCK = $(BIN)/uv pip compile --quiet --universal --python-version 3.11 --generate-hashes --no-emit-index-url --no-header --no-emit-package karpenter

lock: $(VENV)/.python ## Lock the dependencies anew: of the image, of the demo, of development
	$(BIN)/python -m pip install --quiet uv
	$(LOCK) packages/karpenter/pyproject.toml packages/karpenter-local/pyproject.toml --all-extras --group dev -o requirements/dev.txt
	$(LOCK) packages/karpenter/pyproject.toml packages/karpenter-local/pyproject.toml --group build --constraint requirements/dev.txt -o requirements/demo.txt
	$(LOCK) packages/karpenter/pyproject.toml --extra aws --extra lp --constraint requirements/dev.txt -o requirements/image.txt

clean: ## Remove everything that was made
	rm -rf $(VENV) .coverage* .hypothesis .mypy_cache .pytest_cache .ruff_cache build dist
