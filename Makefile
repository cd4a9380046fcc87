# One entry for everything. Needs only Python 3.11+, make and the package registry; uses uv where it is installed.
SHELL := /bin/sh
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
UV := $(shell command -v uv 2>/dev/null)
# Tests mostly wait for servers, so three at once fit two cores. TEST_PROCESSES=0 runs them in one process.
TEST_PROCESSES ?= 3

.DEFAULT_GOAL := help
.PHONY: help demo test test-http test-deploy dev lint format bench load scale eval replay histories crash endurance fuzz pictures dashboards image-steps llamacpp lock clean setup setup-dev

help: ## this list
	@grep -hE '^[a-z-]+:.*## ' $(MAKEFILE_LIST) | sed -E 's/:.*## /\t/' | expand -t 14

demo: setup ## a real conversation through real engines on this machine
	$(BIN)/afterturn demo $(ARGS)

# The tests start hundreds of processes that import the product: each would compile it anew where the environment forbids byte code.
test test-http test-deploy: export PYTHONDONTWRITEBYTECODE =
SUITE = $(BIN)/python -m pytest -n $(TEST_PROCESSES) --dist loadfile --no-loadscope-reorder
test: setup-dev ## the suite: real Temporal, S3, SQLite and PostgreSQL; without what the next two do
	$(SUITE) --ignore=tests/api --ignore=tests/browser --ignore=tests/deploy $(ARGS)

test-http: setup-dev ## the API, and the pages in a real browser; needs Chromium
	$(SUITE) tests/api tests/browser $(ARGS)

test-deploy: setup-dev ## image, compose file, manifests, alerts, dashboards, RUNBOOK; needs kubectl and promtool
	$(SUITE) tests/deploy $(ARGS)

dev: setup ## all engines, worker and schedule; Ctrl-C stops them
	$(BIN)/afterturn dev $(ARGS)

lint: setup-dev ## ruff (format and rules) and strict type checks
	$(BIN)/ruff format --check .
	$(BIN)/ruff check .
	$(BIN)/basedpyright

format: setup-dev ## rewrite the files as ruff wants them
	$(BIN)/ruff format .
	$(BIN)/ruff check --fix .

bench: setup-dev ## measures; ONLY=name runs one; writes bench/results.json
	$(BIN)/python -m bench $(if $(ONLY),--only $(ONLY),) $(ARGS)

load: setup-dev ## 20,000 turns of 2,000 users, several worker processes; ARGS="--turns 500 --users 50" for less; writes bench/load.json
	$(BIN)/python -m bench.load $(ARGS)

scale: setup-dev ## what the measured figures mean for 1 and 100 million users; ARGS="--write" puts it into docs/scale.md
	$(BIN)/python -m bench.scale_model $(ARGS)

eval: setup-dev ## golden cases of the event window, precision and recall; ARGS="--model openai:gpt-4.1-mini" for a real model
	$(BIN)/python -m bench.evaluate $(ARGS)

replay: setup-dev ## replay the recorded histories against the code
	$(BIN)/afterturn replay $(ARGS)

histories: setup-dev ## record new replay fixtures for every shape of run
	$(BIN)/python -m starter.record_histories $(ARGS)

crash: setup-dev ## 5,000 events, a misbehaving model, killed workers; some minutes
	$(BIN)/python -m pytest -m crash tests/faults/test_windows_crash.py $(ARGS)

endurance: setup-dev ## restarts and outages under load, about half an hour; ENDURANCE_RESULTS=file takes the figures
	$(BIN)/python -m pytest -s -m endurance tests/faults $(ARGS)

fuzz: setup-dev ## many requests made from the OpenAPI document; some minutes
	$(BIN)/python -m pytest tests/api/test_schemathesis.py --fuzz-examples 100 $(ARGS)

pictures: setup-dev ## the pictures of the pages in docs/img; needs Chromium
	$(BIN)/python -m pytest tests/browser/pictures_settings.py tests/browser/pictures_admin.py $(ARGS)

image-steps: setup-dev ## the steps of deploy/Dockerfile in a clean environment, packages from the registry; some minutes
	$(BIN)/python -m pytest tests/deploy/install_image.py $(ARGS)

dashboards: setup-dev ## each outage before a real Prometheus: its alert fires and ends; pictures of both dashboards; needs prometheus
	$(BIN)/python -m pytest -s --timeout 1500 tests/deploy/outages_seen.py $(ARGS)

llamacpp: setup-dev ## optional: the pipeline's invariants against a small real model
	$(BIN)/python -m tests.llamacpp.install
	$(BIN)/python -m pytest -m llamacpp tests/llamacpp $(ARGS)

setup: $(VENV)/.runtime-ready
setup-dev: $(VENV)/.dev-ready

# pip and uv both check the hashes of the lock file; the project itself is installed in place, without dependencies.
ifdef UV
create_venv = $(UV) venv --quiet --seed --allow-existing --python $(PYTHON) $(VENV)
install = $(UV) pip install --quiet --python $(BIN)/python
else
create_venv = $(PYTHON) -m venv $(VENV)
install = $(BIN)/python -m pip install --quiet --disable-pip-version-check
endif

$(BIN)/python:
	@$(PYTHON) -c 'import sys; sys.exit("afterturn needs Python 3.11 or newer, this is " + sys.version.split()[0] + ": set PYTHON=/path/to/python3.11" if sys.version_info < (3, 11) else 0)'
	@$(create_venv)

$(VENV)/.runtime-ready: requirements/runtime.txt requirements/build.txt pyproject.toml | $(BIN)/python
	@echo "setting up $(VENV) (runtime and embedded engines) ..."
	@$(install) --require-hashes -r requirements/runtime.txt -r requirements/build.txt
	@$(install) --no-deps --no-build-isolation -e .
	@touch $@

$(VENV)/.dev-ready: requirements/dev.txt $(VENV)/.runtime-ready
	@echo "setting up $(VENV) (development tools) ..."
	@$(install) --require-hashes -r requirements/dev.txt
	@touch $@

lock: setup-dev ## pin what pyproject.toml asks for (hashes, no addresses)
	cd requirements && ./lock

clean: ## remove the environment and local data
	rm -rf $(VENV) .afterturn
