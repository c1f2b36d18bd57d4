# `make test` and `make quickstart` each make the virtual environment first, where it is missing or its pins changed.
# They need Python 3.11 or newer, make and a package registry. Elsewhere than in .venv: make VENV=path.

VENV ?= .venv
PYTHON ?= $(shell for python in python3.11 python3 python3.12 python3.13 python3.14; do \
	$$python -c 'import sys, venv; sys.exit(sys.version_info < (3, 11))' 2> /dev/null && echo $$python && break; done)
BIN := $(VENV)/bin
READY := $(VENV)/ready
COMPILED := $(VENV)/compiled
# Python compiles a module when it is first imported: of torch and transformers most never are
INSTALL := $(BIN)/python -m pip install -qq --no-compile --constraint constraints.txt
START := $(shell date +%s)
# one more than the two cores of CI: some tests wait for processes and for time to pass
WORKERS ?= 3

export HF_HUB_OFFLINE = 1
# bytecode is kept: without it each process of the tests would compile all of zoo and of the tests anew
unexport PYTHONDONTWRITEBYTECODE
export PIP_DISABLE_PIP_VERSION_CHECK = 1

# what an hour's work is tried with: the rooms below training, and the house rules; the contracts take minutes, those with
# processes or commands of their own too (those of benchmarks are such), and steps captured or on a pretended GPU up to half a minute
QUICK := --ignore=tests/models/test_decoding_on_cuda.py --ignore=tests/models/test_captured.py \
	--ignore=tests/blocks/test_packed_rows_on_cuda.py \
	tests/blocks tests/models tests/examples tests/objectives tests/batches tests/metrics \
	tests/contracts/test_parameter_names.py \
	$(filter-out tests/test_installed.py tests/test_docs.py $(wildcard tests/test_gpu_*.py tests/test_bench*.py),$(wildcard tests/test_*.py))

.PHONY: help test quick long mutants bits bars bench lint types tests quickstart variants versions oldest newest clean
.DEFAULT_GOAL := help

help:
	@echo "make test        check the style and the types, run the tests"
	@echo "make quick       the fast tests (about a minute), for while you work"
	@echo "make long        random trials: kills, signals, damaged files, mixtures of variants, exports"
	@echo "make mutants     make wrong changes of the code, one at a time, and see whether tests fail (hours; ROOMS=blocks SAMPLE=60)"
	@echo "make bits        train and export every family of models, compare the bits with those on record"
	@echo "make bars        learning bars: every variant learns a toy task to 99 % (half an hour)"
	@echo "make bench       time training, generation and starting beside transformers and others (ROWS=\"gpt bert\")"
	@echo "make quickstart  pretrain, fine-tune and export five small models, and show what came out"
	@echo "make variants    write the tables of variants, targets and objectives anew, from the registries"
	@echo "make versions    check exports of every target with four versions of transformers"
	@echo "make oldest      the tests with the oldest versions that pyproject.toml allows; make newest: with the newest (several GB)"
	@echo "make clean       remove the virtual environment and every cache"

# mypy has one thread, and most tests wait now and then: side by side they take less time
test: lint
	@$(MAKE) --no-print-directory --jobs 2 types tests
	@echo "make test: all passed in $$(( $$(date +%s) - $(START) )) s, installing included"

lint: $(READY)
	$(BIN)/ruff check .

types: $(READY)
	$(BIN)/mypy

tests quick long mutants: export OMP_NUM_THREADS = 1
tests: $(COMPILED)
	$(BIN)/python -m pytest -n $(WORKERS) --dist worksteal

quick: $(READY)
	$(BIN)/python -m pytest -n $(WORKERS) --dist worksteal $(QUICK)

# few of these tests wait, and each process takes ten seconds to import all that they read
quick: WORKERS = 2

long: $(READY)
	$(BIN)/python -m pytest -m long

mutants: $(READY)
	$(INSTALL) --editable '.[mutants]'
	$(BIN)/python benchmarks/mutants.py $(if $(SAMPLE),--sample $(SAMPLE)) $(ROOMS)

bits: $(READY)
	$(BIN)/python tests/training/same_bits_families.py compare

bars: $(READY)
	OMP_NUM_THREADS=1 $(BIN)/python tests/bars/every_bar.py $(if $(ONLY),--only $(ONLY))

bench: $(READY)
	$(BIN)/python benchmarks/bench.py $(ROWS)

quickstart: $(READY)
	$(BIN)/python docs/quickstart.py

variants: $(READY)
	$(BIN)/python docs/variants.py
	$(BIN)/python docs/targets.py
	$(BIN)/python docs/tasks.py

versions: $(READY)
	$(BIN)/python benchmarks/transformers_versions.py

# What `pip install .` may bring: constraints.txt does not count. uv is here because pip cannot choose the oldest versions.
oldest: RESOLUTION = lowest-direct
newest: RESOLUTION = highest
oldest newest: export OMP_NUM_THREADS = 1
oldest newest:
	test -x build/$@/bin/uv || { $(PYTHON) -m venv build/$@ && build/$@/bin/python -m pip install -qq uv; }
	build/$@/bin/uv pip install -q --python build/$@/bin/python --resolution $(RESOLUTION) --editable '.[plots]'
	build/$@/bin/uv pip install -q --python build/$@/bin/python --editable '.[test]'  # no old tools of tests
	build/$@/bin/uv pip list --python build/$@/bin/python
	TRITON_INTERPRET=1 build/$@/bin/python -m pytest tests/devices/test_logits_kernel.py  # triton comes with these torches
	build/$@/bin/python -m pytest -n $(WORKERS) --dist worksteal $(TESTS)

# torch comes alone, and by pip: with its exact version a wheel on disk is taken before any download. uv installs the rest in
# a third of pip's time, but does not read pip's settings: where they name the registry, pip does it. Meanwhile the other
# core compiles what of torch the tests import: each of their workers would.
REST := --editable '.[test,plots]'
$(READY): pyproject.toml constraints.txt
	@test -n "$(PYTHON)" || { echo "Python 3.11 or newer is needed; name yours: make PYTHON=/path/to/python3"; exit 1; }
	$(BIN)/python -m pip --version > /dev/null 2>&1 || $(PYTHON) -m venv $(VENV)
	@echo "installing what constraints.txt pins into $(VENV): one to five minutes"
	$(INSTALL) torch==2.13.0 uv
	$(BIN)/python -c 'import torch._inductor.compile_fx' 2> /dev/null & \
		$(BIN)/uv pip install -q --python $(BIN)/python --constraint constraints.txt $(REST) || \
		{ echo "uv cannot install it; pip tries"; $(INSTALL) $(REST); }; \
		installed=$$?; wait; exit $$installed
	@touch $@

# what the tests import is compiled once, by one process beside mypy; else each worker would, all at the same time
$(COMPILED): $(READY)
	@-$(BIN)/python -m pytest --collect-only > /dev/null  # what fails is said by the tests
	@touch $@

clean:
	rm -rf $(VENV) .mypy_cache .ruff_cache .pytest_cache .hypothesis build dist
	find src tests -name __pycache__ -type d -prune -exec rm -rf {} +
