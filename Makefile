# Everything lives in .venv beside this file; pip is the only thing that reaches out.
#   make run     the bot on its embedded workspace        make check   what is run before every commit
#   make demo    the same story, told and checked         make test    check, and all that this machine can run
#   make bench   what parts of it cost, as ratios         make soak    a thousand messages under kills, for many minutes

SHELL := /bin/bash
VENV := .venv
PY := $(VENV)/bin/python
INSTALLED := $(VENV)/.installed
EXTRAS ?= claude,dev
OLD_ENOUGH := import sys, venv, ensurepip; sys.exit(sys.version_info < (3, 11))
# The first Python that is new enough and can make an environment; `make setup PYTHON=...` names another.
PYTHON ?= $(shell for p in python3 python3.14 python3.13 python3.12 python3.11; do \
	"$$p" -c '$(OLD_ENOUGH)' >/dev/null 2>&1 && { echo "$$p"; break; }; done)

.PHONY: setup run demo lint check test soak bench clean
.DEFAULT_GOAL := run

# The environment holds absolute paths: where the folder was moved, or its Python is gone, it is made anew.
ifneq ($(shell cat $(INSTALLED) 2>/dev/null; $(PY) -c pass 2>/dev/null || echo broken),$(CURDIR))
.PHONY: $(INSTALLED)
endif

setup: $(INSTALLED)
	@:

$(INSTALLED): pyproject.toml
	@[ -n '$(PYTHON)' ] && '$(PYTHON)' -c '$(OLD_ENOUGH)' 2>/dev/null || { \
		echo 'Insomnia needs Python 3.11 or newer with venv (Debian: apt install python3-venv). Name one: make setup PYTHON=/path/to/python3' >&2; exit 1; }
	@echo 'Setting up .venv with pip (a few minutes the first time).'
	@case ',$(EXTRAS),' in *,claude,*) \
		echo "This installs Anthropic's Claude CLI (about 180 MB), which is Anthropic's own software under Anthropic's terms;"; \
		echo 'without it: make setup EXTRAS=dev, then put `claude` on the PATH.';; esac
	@'$(PYTHON)' -m venv --clear $(VENV)
	@$(PY) -m pip install --quiet --disable-pip-version-check --editable '.[$(EXTRAS)]'
	@echo '$(CURDIR)' > $@

run: setup
	@exec $(PY) -m bot up

demo: setup
	@exec $(PY) -m bot demo

lint: setup
	@$(PY) -m ruff format --check --quiet . || { echo 'to mend: $(PY) -m ruff format .' >&2; exit 1; }
	@$(PY) -m ruff check --quiet .
	@$(PY) -m mypy --strict
	@$(VENV)/bin/lint-imports

check: lint
	@$(PY) -m pytest -q -n 2 -m 'not (cli or slack or kill or root or sweep)'

test: lint
	@$(PY) -m pytest

soak: setup
	@$(PY) -m pytest -m soak

bench: setup
	@for each in benchmarks/bench_*.py; do $(PY) -m benchmarks.$$(basename $$each .py) || exit 1; done

clean:
	rm -rf $(VENV) build dist *.egg-info .mypy_cache .ruff_cache .pytest_cache .hypothesis .import_linter_cache
