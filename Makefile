# Two commands do everything on a fresh machine: `make demo` and `make test`.
SHELL := /bin/bash
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
JOBS ?= 2
# Tests start many processes, and each would compile everything once more.
unexport PYTHONDONTWRITEBYTECODE
RUNS ?= 3000
# What `make test` leaves to targets of their own: they need programs of others, or minutes.
QUICK := not (controlplane or helm or tour or long or browser or cdk or prometheus or terminal or terraform or readme)
# The tests that cover base and core. Tracing doubles the time of the others, so they run without.
COVERING := tests/unit/base tests/unit/core tests/unit/api tests/property tests/parity

.PHONY: help demo test lint types imports unit coverage tour long shadow browser helm prometheus terminal cdk infrastructure readme bench duel duel-short walks soak planted mutants chaos memory hostile-load fuzz generate crds chart terraform settings metrics doctor commands man krew docs controlplane release release-twice sbom lock clean

help: ## Say what can be made; CONTRIBUTING.md says more
	@sed -nE 's/^([a-z -]+):.*## /\1\t/p; s/^#: //p' $(firstword $(MAKEFILE_LIST)) | expand -t 18

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

#: lint types imports unit coverage	The parts of make test
lint: $(VENV)/.ready
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .

types: $(VENV)/.ready
	$(BIN)/mypy packages/karpenter/src packages/karpenter-local/src tests benchmarks

imports: $(VENV)/.ready
	$(BIN)/lint-imports --no-cache

unit: $(VENV)/.ready
	$(BIN)/pytest -n $(JOBS) -m "$(QUICK)"

coverage: $(VENV)/.ready
	$(BIN)/coverage erase
	$(BIN)/pytest -n $(JOBS) -m "$(QUICK)" --cov --cov-report= $(COVERING)
	$(BIN)/coverage report
	$(BIN)/pytest -n $(JOBS) -m "$(QUICK)" $(addprefix --ignore=,$(COVERING)) tests

tour: $(VENV)/.ready ## Follow the tutorials, command by command; needs kubectl
	$(BIN)/pytest -n 0 -m tour tests/integration/test_docs_install.py tests/integration/test_docs_aws.py

#: browser helm prometheus terminal cdk
#: 	Tests that need Chromium, helm, Prometheus, tmux or node
browser helm prometheus terminal: $(VENV)/.ready
	$(BIN)/pytest -n 0 -m $@ tests

$(VENV)/.cdk: requirements/cdk.txt $(VENV)/.ready
	@tools/install $(BIN) requirements/cdk.txt
	@touch $@

cdk: $(VENV)/.cdk
	$(BIN)/pytest -n 0 -m cdk tests

$(VENV)/.docs: requirements/docs.txt $(VENV)/.ready
	@tools/install $(BIN) requirements/docs.txt
	@touch $@

long: $(VENV)/.ready ## Run more simulated runs, and more examples of each law
	$(BIN)/pytest -n $(JOBS) -m long --ignore tests/integration/test_shadow.py tests
	$(BIN)/pytest -n $(JOBS) --hypothesis-profile=steady tests/property

shadow: $(VENV)/.ready
	$(BIN)/pytest -n $(JOBS) -m long tests/integration/test_shadow.py

infrastructure: $(VENV)/.ready ## Apply the Terraform on the embedded AWS
	$(BIN)/pytest -n 0 -m terraform tests/integration/test_terraform.py tests/integration/test_terraform_helm.py

readme: $(VENV)/.ready ## Install as the README says, and run what it prints
	$(BIN)/pytest -n 0 -p no:randomly -m readme tests/integration/test_readme.py

#: bench duel	Print tables of speed and price; play against Karpenter in Go
bench: $(VENV)/.ready
	$(BIN)/python -m benchmarks

duel: $(VENV)/.ready
	$(BIN)/python -m benchmarks.duel $(OPTIONS)

duel-short: $(VENV)/.ready
	$(BIN)/python -m benchmarks.duel --pods 60 --minutes 3 --seed $$(date -u +%Y%j) $(OPTIONS)

walks: $(VENV)/.ready
	$(BIN)/python -m tools.walks

soak: $(VENV)/.ready ## Run thousands of simulated hours with faults; takes hours
	$(BIN)/karpenter simulate --seed 1..$(RUNS) --hours 1 --faults many --jobs $(JOBS)
	$(BIN)/karpenter simulate --provider aws --seed 1..$(RUNS) --hours 1 --faults many --jobs $(JOBS)

PART ?= 0/1
planted: $(VENV)/.ready ## Look whether the simulation finds planted bugs; PART=k/n
	$(BIN)/python -m tests.planted --jobs $(JOBS) --part $(PART)

mutants: $(VENV)/.ready ## Look whether tests notice a changed core; COUNT=400 SEED=1
	$(BIN)/python -m tests.planted.mutants --jobs $(JOBS) --count $(or $(COUNT),400) --seed $(or $(SEED),1) --least $(or $(LEAST),0.97)

SERVER ?= embedded
KILLS ?= 100
chaos: $(VENV)/.ready ## Kill and break things; SERVER=embedded|real KILLS= MINUTES=
	$(BIN)/python -m tests.chaos --server $(SERVER) --kills $(KILLS) --minutes $(or $(MINUTES),120)

memory: $(VENV)/.ready ## Print memory over MINUTES=45 at 1,000 nodes
	$(BIN)/python -m benchmarks.bench_memory --minutes $(or $(MINUTES),45)

hostile-load: $(VENV)/.ready ## Print what decisions cost with lists of any length
	$(BIN)/python -m benchmarks.bench_hostile

release: $(VENV)/.ready ## Write wheels, charts, image context, SBOM and sums; also krew
	$(BIN)/python -m tools.release dist

release-twice: $(VENV)/.ready
	$(BIN)/python -m tools.release dist
	$(BIN)/python -m tools.release build/again
	cmp dist/SHA256SUMS build/again/SHA256SUMS

sbom: $(VENV)/.ready
	@mkdir -p build
	$(BIN)/python -m tools.sbom requirements/image.txt > build/sbom.cdx.json

SECONDS ?= 60
fuzz: $(VENV)/.ready ## Feed hostile text to everything that reads, SECONDS=60
	$(BIN)/python -m tests.fuzz $(SECONDS)

generate: crds chart terraform settings metrics doctor commands man ## Write all that is generated anew; make test compares

crds: $(VENV)/.ready
	$(BIN)/karpenter crds --write charts/karpenter/crds
	$(BIN)/karpenter crds --write docs/reference --output markdown

chart: $(VENV)/.ready
	$(BIN)/python -m tools.charts charts/karpenter charts/karpenter-crd

terraform: $(VENV)/.ready
	$(BIN)/python -m karpenter.install.terraform deploy/terraform/karpenter

settings: $(VENV)/.ready
	$(BIN)/python -m tools.settings_reference > docs/reference/settings.md

metrics: $(VENV)/.ready
	$(BIN)/python -m tools.metrics_reference > docs/reference/metrics.md
	$(BIN)/python -m tools.metrics_reference aws > docs/reference/metrics-aws.md

doctor: $(VENV)/.ready
	$(BIN)/python -m tools.doctor_reference > docs/reference/doctor.md

commands: $(VENV)/.ready
	$(BIN)/python -m karpenter.cli.manual > docs/reference/commands.md

docs: $(VENV)/.docs ## Build the documentation site into build/site
	NO_MKDOCS_2_WARNING=1 $(BIN)/mkdocs build --strict --quiet

man: $(VENV)/.ready
	$(BIN)/python -m karpenter.cli.manual packages

RELEASES ?=

krew: $(VENV)/.ready
	$(BIN)/python -m tools.krew dist/krew "$(RELEASES)"

controlplane: $(VENV)/.ready ## Build or find the real control plane and helm, with Go
	$(BIN)/python controlplane/build.py

LOCK = $(BIN)/uv pip compile --quiet --universal --python-version 3.11 --generate-hashes --no-emit-index-url --no-header --no-emit-package karpenter

lock: $(VENV)/.python ## Lock the dependencies anew
	$(BIN)/python -m pip install --quiet uv
	$(LOCK) packages/karpenter/pyproject.toml packages/karpenter-local/pyproject.toml --extra aws --extra otel --extra socks --extra terraform --extra top --group dev -o requirements/dev.txt
	$(LOCK) packages/karpenter/pyproject.toml packages/karpenter-local/pyproject.toml --group build --constraint requirements/dev.txt -o requirements/demo.txt
	$(LOCK) packages/karpenter/pyproject.toml --extra aws --extra otel --constraint requirements/dev.txt -o requirements/image.txt
	$(LOCK) packages/karpenter/pyproject.toml --extra cdk --group cdk --constraint requirements/dev.txt -o requirements/cdk.txt
	$(LOCK) packages/karpenter/pyproject.toml --group docs --constraint requirements/dev.txt -o requirements/docs.txt

clean: ## Remove everything that was made
	rm -rf $(VENV) .coverage* .hypothesis .mypy_cache .pytest_cache .ruff_cache build dist
