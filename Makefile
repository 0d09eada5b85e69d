# Every target sets itself up: a Python 3.11 or newer with its venv module is all a machine needs.
SHELL := bash
.SHELLFLAGS := -euo pipefail -c
.DEFAULT_GOAL := help
.PHONY: help demo hooks test check openapi test-servers engines images seeds bench frameworks faults campaign soak dist ci-setup clean

unexport PYTHONDONTWRITEBYTECODE
# uv does not read pip's settings; a mirror given to pip is meant for both.
ifdef PIP_INDEX_URL
export UV_DEFAULT_INDEX ?= $(PIP_INDEX_URL)
endif

NEWEST_FIT := for p in python3 python3.11 python3.12 python3.13 python3.14; do \
	  "$$p" -c 'import sys; sys.exit(sys.version_info < (3, 11))' 2>/dev/null && { echo "$$p"; break; }; done; true
PYTHON ?= $(shell $(NEWEST_FIT))
VENV := .venv
RUN := $(VENV)/bin/python
INSTALL := $(VENV)/bin/uv pip install --quiet --python $(RUN) --constraint constraints.txt
PACKAGES := $(wildcard packages/*/pyproject.toml)
RUFF_PATHS := packages/runyard tests bench seeds release
ON_ANY_MACHINE := "not servers and not frameworks and not engines and not images"
AREAS = $(sort $(notdir $(patsubst %/__init__.py,%,$(wildcard tests/*/__init__.py))))
SYSTEM_PACKAGES := build-essential curl debootstrap docker-compose docker-registry docker.io fuse3 git libopenmpi-dev nginx-light openmpi-bin passt podman postgresql prometheus python3-dev runc
# Packages of one command: where the command comes from elsewhere, the package would clash with it.
COMMAND_PACKAGES := npm rclone

# A line `##@ Title` opens a group.
help: ## list the targets
	@awk -F ':.*## ' '/^##@ /{printf "\n%s\n", substr($$0, 5)} /^[a-z%-]+:.*## /{sub(/%/, "AREA", $$1); printf "  make %-14s%s\n", $$1, $$2}' Makefile

##@ Develop

demo: $(VENV)/.runyard ## train a model, watch it, register it (about a minute)
	$(RUN) examples/demo.py

hooks: ## have git check commit subjects in this clone (.githooks)
	git config core.hooksPath .githooks

clean: ## remove the environment and every cache of this checkout
	rm -rf $(VENV) dist .cache .mypy_cache .ruff_cache .pytest_cache .import_linter_cache .hypothesis
	find packages tests bench seeds release -name __pycache__ -type d -prune -exec rm -rf {} +

# Tests start the servers that they need: policy-rc.d keeps packages from starting theirs.
ci-setup: ## system packages by name; needs root only when one is missing
	@missing=$$(for p in $(SYSTEM_PACKAGES); do \
	  dpkg-query -W -f='$${Status}' "$$p" 2>/dev/null | grep -q 'install ok installed' || echo "$$p"; done; \
	  for p in $(COMMAND_PACKAGES); do command -v "$$p" >/dev/null || echo "$$p"; done); \
	if [ -z "$$missing" ]; then echo "system packages: all here"; exit 0; fi; \
	command -v apt-get >/dev/null || { echo "ci-setup installs with apt-get, which is not here. Install:" $$missing; exit 1; }; \
	[ "$$(id -u)" = 0 ] || { echo "ci-setup must be root to install:" $$missing; exit 1; }; \
	export DEBIAN_FRONTEND=noninteractive; policy=/usr/sbin/policy-rc.d; \
	[ -e $$policy ] || { printf '#!/bin/sh\nexit 101\n' > $$policy; chmod 755 $$policy; trap "rm -f $$policy" EXIT; }; \
	apt-get update -qq; apt-get install -y -qq --no-install-recommends $$missing >/dev/null
	@# Where no udev runs, these devices are closed to ordinary users.
	@[ "$$(id -u)" != 0 ] || for device in /dev/fuse /dev/net/tun; do [ ! -c "$$device" ] || chmod 666 "$$device"; done

##@ Check

# Most tests wait for other processes most of the time: more of them at once than there are processors is no loss.
test: $(VENV)/.dev ## all tests that need no server, cluster or container engine
	$(RUN) -m pytest -m $(ON_ANY_MACHINE) --fork-services -n 6 --dist worksteal --durations=20

# An area is a folder of tests/, or tests/test_AREA.py. pytest exits with 5 where an area has nothing to run here.
# The slow ones run with SLOW=1 and in `make test`.
AREA_TESTS = $(RUN) -m pytest -m $(ON_ANY_MACHINE)$(if $(SLOW),," and not slow") --fork-services -n 4 --dist worksteal --durations=3
test-%: $(VENV)/.dev ## the quick tests of one area: test-storage, test-sdk; SLOW=1 for all of them
	@[ -n "$(wildcard tests/$* tests/test_$*.py)" ] || { echo "There is no tests/$* and no tests/test_$*.py. Areas:" $(AREAS); exit 2; }
	$(AREA_TESTS) $(wildcard tests/$* tests/test_$*.py)

check: $(VENV)/.dev ## lint, format, types, import layers
	$(VENV)/bin/ruff check $(wildcard $(RUFF_PATHS))
	$(VENV)/bin/ruff format --check $(wildcard $(RUFF_PATHS))
	$(VENV)/bin/mypy
	$(VENV)/bin/lint-imports

openapi: $(VENV)/.dev ## write docs/openapi.json anew; whoever changes the wire commits it
	RUNYARD_WRITE_GOLDEN=1 $(RUN) -m pytest -q tests/server/test_openapi.py

test-servers: $(VENV)/.dev $(VENV)/.fuzz ## the tests on a real PostgreSQL, Azurite and S3 server
	$(RUN) -m pytest -m servers

engines: $(VENV)/.ray ## the suite of engines on a real Ray cluster of several nodes, with autoscaling
	timeout 600 $(RUN) -m pytest -m engines tests/engines --durations=5

images: $(VENV)/.dev ## environments and runs in container images, on a real container engine
	timeout 1800 $(RUN) -m pytest -m images tests/images --durations=5

seeds: $(VENV)/.dev ## the five seed pages, block by block (needs ../shared)
	$(RUN) -m seeds

frameworks: $(VENV)/.dev ## the large frameworks, trained through the SDK
	$(RUN) -m pytest -m frameworks tests/frameworks

##@ Measure

bench: $(VENV)/.dev ## one JSON line a measurement; ONLY=name for one of them
	@$(RUN) -m bench $(ONLY)

faults: $(VENV)/.ray campaign ## the whole kill matrix and the full sizes, after the campaign
	RUNYARD_FAULTS=full $(RUN) -m pytest tests/faults

# Each part appends its line to the ledger; what is there adds up. KILLS=50 PART=sqlite runs a smaller one.
KILLS ?= 200
PARTS ?= sqlite postgres disk
LEDGER := .cache/campaign.jsonl
campaign: $(VENV)/.dev ## random kills, stops of 60 s and a full disk, compared with notes outside (PARTS="sqlite", KILLS=50)
	@mkdir -p .cache; failed=0; for part in $(PARTS); do \
	  case $$part in \
	    sqlite) options="--kills $(KILLS) --stops 4";; \
	    postgres) options="--kills $(KILLS) --stops 4 --postgres";; \
	    disk) options="--kills $$(( $(KILLS) / 2 )) --stops 0 --full-disk 5";; \
	  esac; $(RUN) -m tests.campaign $$options --ledger $(LEDGER) || failed=1; \
	done; $(RUN) -m tests.campaign --sum --ledger $(LEDGER); exit $$failed

MINUTES ?= 30
soak: $(VENV)/.dev ## mixed work for MINUTES=30: memory, descriptors, threads, database and disk as a table
	@$(RUN) -m tests.campaign.soak --minutes $(MINUTES)

##@ Release

dist: $(VENV)/.runyard $(VENV)/.dist ## wheels, sdists, lock and SBOM in dist/, installed by pip and uv and tried (1 to 4 minutes)
	@$(RUN) -m release --tools $(VENV)/dist --out dist

$(VENV)/.uv: constraints.txt
	@[ -n "$(PYTHON)" ] || { echo "Runyard needs Python 3.11 or newer; none of python3, python3.11 ... python3.14 is. Name one: make PYTHON=/path/to/python"; exit 1; }
	@[ "$$(uname -s)" = Linux ] || { echo "Runyard runs on Linux; this is $$(uname -s)."; exit 1; }
	@[ -x $(RUN) ] || $(PYTHON) -m venv $(VENV)
	@$(RUN) -m pip install --quiet --disable-pip-version-check "$$(grep '^uv==' constraints.txt)"
	@touch $@

$(VENV)/.runyard: $(VENV)/.uv $(PACKAGES)
	@$(INSTALL) pip -e packages/sdk -e 'packages/runyard[postgres]'  # pip: for what its user adds
	@touch $@

$(VENV)/.dev: $(VENV)/.runyard pyproject.toml
	@$(INSTALL) --group dev
	@touch $@

$(VENV)/.dist: $(VENV)/.uv
	@$(VENV)/bin/uv venv --quiet --clear --python $(RUN) $(VENV)/dist
	@$(VENV)/bin/uv pip install --quiet --python $(VENV)/dist/bin/python --constraint constraints.txt cyclonedx-bom twine
	@touch $@

# Apart from the rest: it is a plug-in of every pytest that it is installed beside.
$(VENV)/.fuzz: $(VENV)/.uv
	@$(VENV)/bin/uv venv --quiet --clear --python $(RUN) $(VENV)/fuzz
	@$(VENV)/bin/uv pip install --quiet --python $(VENV)/fuzz/bin/python --constraint constraints.txt schemathesis
	@touch $@

$(VENV)/.ray: $(VENV)/.dev
	@$(INSTALL) -e 'packages/runyard[ray]'
	@touch $@
