# One-word commands. Each sets up what it needs in .venv; nothing has to be installed by hand.
# Options go along as ARGS: make demo ARGS="--listen 127.0.0.1:9444".
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
# What a server needs, and what working on the code needs besides; one .venv holds all.
SERVER := $(VENV)/.server-installed
DEV := $(VENV)/.dev-installed

# pip compiles what it installs, but not a checkout: where Python is told to write no bytecode, as containers often
# tell it, every start would compile all of Trilens anew, which doubles its time.
COMPILE = @$(BIN)/python -m compileall -q src

.DEFAULT_GOAL := help
.PHONY: help setup servers kubernetes demo demo-faults up test lint format bench bench-detect bench-why clean

help: ## show this list
	@grep -hE '^[a-z-]+:.*##' $(MAKEFILE_LIST) | sed -E 's/^([a-z-]+):[^#]*## /\1\t/' | expand -t 14

$(SERVER): pyproject.toml tools/setup
	@tools/setup "$(PYTHON)" "$(VENV)" server
	@touch $@

$(DEV): pyproject.toml tools/setup
	@tools/setup "$(PYTHON)" "$(VENV)" server,agent,dev
	@touch $@ $(SERVER)

setup: $(DEV) ## make .venv with Trilens and everything that working on it needs

servers: ## install the real servers the tests and benchmarks run against (Debian packages; root or sudo)
	@tools/servers

kubernetes: ## build the Kubernetes API server that tests run against, once for all checkouts (Debian source; minutes)
	@tools/kubernetes

demo: $(SERVER) ## a running Trilens with a simulated GPU cluster: open the address it prints
	$(COMPILE)
	@$(BIN)/trilens demo $(ARGS)

demo-faults: $(SERVER) ## each fault that the demo knows, with its alert, until it is resolved: 20 minutes
	$(COMPILE)
	@$(BIN)/trilens demo --fault all $(ARGS)

up: $(SERVER) ## a running Trilens on 127.0.0.1:9333 that keeps its data in ./trilens-data
	$(COMPILE)
	@$(BIN)/trilens up $(ARGS)

# Tests wait for servers half of the time: one process more than there are cores. More than four gain nothing.
WORKERS = $(shell cores=$$(nproc); echo $$((cores < 3 ? cores + 1 : 4)))

# Without an API server the other tests can still run, and those that need it say so.
test: $(DEV) servers ## all tests, with real servers where they can be had
	-@tools/kubernetes
	$(COMPILE)
	$(BIN)/pytest -n $(WORKERS) --dist loadfile --no-loadscope-reorder

lint: $(DEV) ## formatting, style, types, and which folder may import which
	$(BIN)/ruff format --no-cache --check .
	$(BIN)/ruff check --no-cache .
	$(BIN)/mypy
	$(BIN)/lint-imports

format: $(DEV) ## rewrite the code in the house format
	$(BIN)/ruff format .
	$(BIN)/ruff check --fix .

bench-detect: $(DEV) ## the scoreboard of detection (SEED=n; about 20 minutes on two cores): what is found, how soon, how rightly
	$(COMPILE)
	@$(BIN)/python -m bench.detect $(if $(SEED),--seed $(SEED)) $(ARGS)

bench-why: $(DEV) ## causes against a labelled set (SEED=n; some minutes): how often they are right, and never surely wrong
	$(COMPILE)
	@$(BIN)/python -m bench.verdicts $(if $(SEED),--seed $(SEED)) $(ARGS)

bench: $(DEV) servers ## Trilens beside Prometheus and VictoriaMetrics, written to bench/RESULTS.md
	$(COMPILE)
	$(BIN)/python -m bench

clean: ## remove what the other commands made in this checkout
	find src -name __pycache__ -prune -exec rm -rf {} +
	rm -rf $(VENV) build dist bench/out .mypy_cache .ruff_cache .pytest_cache .hypothesis
