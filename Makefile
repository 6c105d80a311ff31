# The commands of this project. `make help` lists them.
PYTHON ?= python3
VENV := .venv
PY := $(VENV)/bin/python
READY := $(VENV)/.ready
TESTED := $(VENV)/.tested

SERVE ?= 1
PORT ?= 8000
WORKERS ?= 2
PYTEST_ARGS ?=

# Two notebooks run at a time; numpy's own threads would only fight over the same cores.
export OMP_NUM_THREADS ?= 1
export OPENBLAS_NUM_THREADS ?= 1
export PYTHONUNBUFFERED := 1

.DEFAULT_GOAL := help
.PHONY: help env test-env book lab test test-quick test-peers check bench toc lock screenshot clean

help:           ## list the commands
	@grep -hE '^[a-z-]+:.*##' $(firstword $(MAKEFILE_LIST)) | sed -E 's/:[^#]*##/:/' | awk -F: '{printf "  make %-12s %s\n", $$1, $$2}'

env: $(READY)   ## make .venv with what the book needs

test-env: $(TESTED)

# $(call install,LOCK): fetch the packages of a lock, one line for each.
define install
	@rm -f $(VENV)/.failed
	@{ $(PY) -m pip install --disable-pip-version-check --no-deps --no-compile --progress-bar off -r $(1) || touch $(VENV)/.failed; } \
	  | awk '/^Collecting/ { print "[env]   " $$2; fflush() } /^Installing/ { print "[env] installing them"; fflush() }'
	@test ! -e $(VENV)/.failed
endef

$(READY): requirements.lock pyproject.toml
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || \
	  { echo "Python 3.11 or newer is needed, $(PYTHON) is `$(PYTHON) -V 2>&1`. Try: make PYTHON=python3.12 $(MAKECMDGOALS)"; exit 1; }
	@test -x $(PY) || $(PYTHON) -m venv $(VENV) || \
	  { echo "$(PYTHON) -m venv failed. On Debian and Ubuntu: apt-get install python3-venv"; rm -rf $(VENV); exit 1; }
	@echo "[env] fetching the locked packages into $(VENV); a minute or two"
	$(call install,requirements.lock)
	@$(PY) -m pip install --disable-pip-version-check --no-deps --no-build-isolation --quiet -e .
	@touch $(READY)
	@echo "[env] ready"

$(TESTED): $(READY) requirements-test.lock
	@echo "[env] fetching what the tests need besides"
	$(call install,requirements-test.lock)
	@touch $(TESTED)
	@echo "[env] ready for tests"

book: env       ## build the executed book and serve it; SERVE=0 only builds; PORT=8000
	@$(PY) -m tools.book --workers $(WORKERS) $(if $(filter 0,$(SERVE)),,--serve --port $(PORT))

lab: env        ## open JupyterLab on the chapters
	@$(PY) -m jupyter lab --ServerApp.root_dir=book

check: test-env      ## ruff, mypy, and who may import whom
	@$(PY) -m ruff check .
	@$(PY) -m ruff format --check --quiet .
	@$(PY) -m mypy
	@$(VENV)/bin/lint-imports --no-logo --no-cache

# $(call alone,MARKERS): what failed runs once more by itself, since servers and pages are slow on a busy machine; then it counts.
alone = { echo "[test] what failed, once more and alone"; \
  $(PY) -m pytest --benchmark-skip -m "$(1)" --last-failed --last-failed-no-failures none $(PYTEST_ARGS); }

test: test-env check ## every check and test; builds the book first
	-@$(PY) -m tools.book --workers $(WORKERS)
	@$(PY) -m pytest --benchmark-skip -m "not browser" -n $(WORKERS) --dist worksteal $(PYTEST_ARGS) || $(call alone,not browser)
	@$(PY) -m pytest --benchmark-skip -m browser -n $(WORKERS) --dist worksteal $(PYTEST_ARGS) || $(call alone,browser)

test-quick: test-env ## tests that need neither a browser nor patience (under a minute)
	@$(PY) -m pytest -q -n $(WORKERS) -m "not slow and not browser and not peers and not benchmark" --benchmark-disable $(PYTEST_ARGS)

test-peers: test-env ## live comparisons with peer libraries
	@$(PY) -m pytest -m peers $(PYTEST_ARGS)

bench: test-env      ## speeds, with pytest-benchmark
	@$(PY) -m pytest benchmarks --benchmark-only $(PYTEST_ARGS)

toc: env        ## renew _toc.yml after adding a page
	@$(PY) -m tools.toc

lock: env       ## renew the locks, then environment.yml
	@$(PY) -m pip install --quiet uv
	@$(PY) -m tools.lock

screenshot: test-env ## renew the picture in README.md
	@$(PY) -m tools.screenshot

clean:          ## remove everything that was built, except .venv
	rm -rf _build .pytest_cache .mypy_cache .ruff_cache .hypothesis .benchmarks
