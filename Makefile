# One-word commands. Each sets up what it needs in .venv; nothing has to be installed by hand.
# Options go along as ARGS: make demo ARGS="--listen 127.0.0.1:9444".
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
STAMP := $(VENV)/.installed

.DEFAULT_GOAL := help
.PHONY: help setup servers demo up test lint format bench clean

help: ## show this list
	@grep -hE '^[a-z]+:.*##' $(MAKEFILE_LIST) | sed -E 's/^([a-z]+):[^#]*## /\1\t/' | expand -t 12

$(STAMP): pyproject.toml tools/setup
	@tools/setup "$(PYTHON)" "$(VENV)"
	@touch $@

setup: $(STAMP) ## make .venv with Trilens and everything it needs

servers: ## install the real servers the tests and benchmarks run against (Debian packages; root or sudo)
	@tools/servers

demo: $(STAMP) ## a running Trilens with a small made-up fleet: open the address it prints
	@$(BIN)/trilens demo $(ARGS)

up: $(STAMP) ## a running Trilens on 127.0.0.1:9333 that keeps its data in ./trilens-data
	@$(BIN)/trilens up $(ARGS)

test: $(STAMP) servers ## all tests, with real servers where they can be had
	$(BIN)/pytest

lint: $(STAMP) ## formatting, style, types, and which folder may import which
	$(BIN)/ruff format --no-cache --check .
	$(BIN)/ruff check --no-cache .
	$(BIN)/mypy
	$(BIN)/lint-imports

format: $(STAMP) ## rewrite the code in the house format
	$(BIN)/ruff format .
	$(BIN)/ruff check --fix .

bench: $(STAMP) servers ## Trilens beside Prometheus and VictoriaMetrics, written to bench/RESULTS.md
	$(BIN)/python -m bench

clean: ## remove what the other commands made
	rm -rf $(VENV) build dist bench/out .mypy_cache .ruff_cache .pytest_cache .hypothesis
