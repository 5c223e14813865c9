# make run     the default scenario, from nothing but Python >= 3.11 and make
# make test    the tests that CI runs: unit, contract, trust, process, docs (minutes)
# make test-unit  those without whole runs, as plain `pytest` does (a minute)
# make test-all   the slow ones too: every round, every field, published figures, all processes (half an hour and more)
# make test-matrix  the unit tests on every Python of MATRIX that is installed, each in an environment of its own
# make test-processors  the numerical unit tests on the other processors that this one can stand for (a minute)
# make faults  writes the table of docs/faults.md anew, from what happens
# make screenshots  the pictures in docs/images, from runs made anew (needs Chromium)
# make docs    the pages of docs/ as a site, site/index.html
# make bench   writes docs/benchmarks.md anew: peers side by side, cost against growth (about 20 minutes)
# make peers   what it compares coreset with and cannot share an environment with consilience (needs a C++ compiler)
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
PEERS := $(VENV)/peers
MATRIX ?= 3.11 3.12 3.13
# PyPI's torch for Linux is the build for CUDA, wheels of 2.7 GB; the build without is here. Empty: take PyPI's.
TORCH_INDEX ?= $(if $(filter Linux,$(shell uname -s)),https://download.pytorch.org/whl/cpu)
# The run keeps its Flower state here, apart from the user's own ~/.flwr.
export FLWR_HOME := $(CURDIR)/.flwr

.PHONY: run test test-unit test-all test-matrix test-processors keys faults screenshots docs bench peers lint clean

run: $(VENV)/installed
	$(BIN)/consilience run bc3e-wine

test: $(VENV)/installed-dev
	$(BIN)/python -m pytest -n 3 tests

test-unit: $(VENV)/installed-dev
	$(BIN)/python -m pytest -n 2

test-all: $(VENV)/installed-dev
	$(BIN)/python -m pytest -n 3 tests -m "" --hypothesis-profile slow --timeout 1800

test-matrix: $(MATRIX:%=test-python%)

# An environment of its own for each; what `make clean` removes with the others.
test-python%:
	$(if $(shell python$* -c 'print(1)' 2>/dev/null),$(MAKE) VENV=$(VENV)/python$* PYTHON=python$* test-unit,\
		@echo "python$*: not installed")

test-processors: $(VENV)/installed-dev
	$(BIN)/python -m tests.support.core_types --all tests/unit/numerics

keys: $(VENV)/installed-dev
	$(BIN)/python -m consilience.app_folder
	$(BIN)/python -m consilience.reference

faults: $(VENV)/installed-dev
	CONSILIENCE_REWRITE_FAULTS=1 $(BIN)/python -m pytest tests/contract/test_fault_table.py

screenshots: $(VENV)/installed-dev
	PATH="$(CURDIR)/$(BIN):$$PATH" $(BIN)/python docs/screenshots.py

docs: $(VENV)/installed-dev
	NO_MKDOCS_2_WARNING=1 $(BIN)/mkdocs build --strict

bench: $(VENV)/installed-bench
	$(BIN)/python -m benchmarks $(if $(wildcard $(PEERS)/installed),--peers $(PEERS)/bin/python)

peers: $(PEERS)/installed

lint: $(VENV)/installed-dev
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy

clean:
	rm -rf $(VENV) .flwr site build dist *.fab .mypy_cache .pytest_cache .ruff_cache .hypothesis
	find . -name __pycache__ -type d -prune -exec rm -rf {} +

# pip's own python is the witness that the environment is whole: it is made last.
$(BIN)/pip:
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11) and "consilience needs Python 3.11 or later; name one with: make PYTHON=python3.12")'
	$(PYTHON) -m venv $(VENV)

# Without a way to that index the next command takes PyPI's torch.
$(VENV)/torch: constraints.txt | $(BIN)/pip
	$(if $(TORCH_INDEX),-$(BIN)/python -m pip install --disable-pip-version-check -q --retries 1 --no-deps \
		-c constraints.txt --index-url $(TORCH_INDEX) torch)
	touch $@

$(VENV)/installed: pyproject.toml constraints.txt | $(VENV)/torch
	$(BIN)/python -m pip install --disable-pip-version-check -q -c constraints.txt -e '.[all]'
	touch $@

$(VENV)/installed-dev: pyproject.toml constraints.txt | $(VENV)/torch
	$(BIN)/python -m pip install --disable-pip-version-check -q -c constraints.txt -e '.[dev]'
	touch $@ $(VENV)/installed

$(VENV)/installed-bench: pyproject.toml constraints.txt | $(VENV)/torch
	$(BIN)/python -m pip install --disable-pip-version-check -q -c constraints.txt -e '.[bench]'
	touch $@ $(VENV)/installed

# An environment of its own: both need NumPy below 2, and bico is under the GPL.
$(PEERS)/installed: | $(BIN)/pip
	$(PYTHON) -m venv $(PEERS)
	$(PEERS)/bin/python -m pip install --disable-pip-version-check -q fair-kmeans bico
	touch $@
