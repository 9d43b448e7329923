# make demo · make test · make test-gpu · make results · make docs · make lint: each sets up what it needs.
#
# Everything happens in .venv, which is made again when pyproject.toml changes. To use an interpreter that
# already has the dependencies instead: make test-gpu PYTHON=python3

BASE_PYTHON ?= python3

# Processes that compile side by side, each with a context on the GPU of its own.
WORKERS ?= 8

ifdef PYTHON
READY :=
else
PYTHON := .venv/bin/python
READY := .venv/ready
endif

# The toolkit's major version that the driver supports; 13 where there is no driver.
CUDA_MAJOR := $(shell nvidia-smi 2>/dev/null | sed -n 's/.*CUDA Version: \([0-9]*\).*/\1/p')
CUDA_MAJOR := $(if $(CUDA_MAJOR),$(CUDA_MAJOR),13)

.PHONY: demo test test-simulator test-host test-gpu sanitize bench tables results docs lint format clean

demo: $(READY) cublas
	$(PYTHON) -m numba_gemm.cli demo

# Two runs, because the simulator and the compiler exclude each other in one process: first what runs kernels.
test: test-simulator test-host

test-simulator: $(READY)
	NUMBA_ENABLE_CUDASIM=1 $(PYTHON) -m pytest -n 2 --dist worksteal -q -m "device or simulator"

test-host: $(READY)
	$(PYTHON) -m pytest -n 2 --dist worksteal -q -m "not device and not gpu"

# What needs a GPU or the simulator, on the GPU; what needs the GPU for itself; then each of compute-sanitizer's tools
# over every version.
test-gpu: $(READY) cublas
	$(PYTHON) -m pytest -n $(WORKERS) --dist worksteal -q -m "device or gpu"
	$(PYTHON) -m pytest -q -m alone
	$(MAKE) sanitize PYTHON=$(PYTHON)

sanitize: $(READY)
	$(PYTHON) tests/sanitize.py

# First compile and verify everything on all processors, without a clock; then time, one after another.
bench: $(READY) cublas
	$(PYTHON) -m pytest benchmarks -n $(WORKERS) -q --benchmark-disable
	$(PYTHON) -m pytest benchmarks --benchmark-json=benchmarks/results/benchmarks.json

# Everything that is made from stored results: tables of the README and the notes, and pictures.
tables: $(READY)
	$(PYTHON) -m benchmarks.report
	$(PYTHON) -m notes.make.predictions
	$(PYTHON) -m notes.make.claims
	$(PYTHON) -m notes.make
	$(PYTHON) -m numba_gemm.cli plot --out notes/pictures

results: bench
	$(MAKE) tables PYTHON=$(PYTHON)

# Fills in the generated parts of notes/, then builds them into site/. To read: python -m http.server -d site
docs: $(READY)
	$(PYTHON) -m notes.make
	NO_MKDOCS_2_WARNING=1 $(PYTHON) -m mkdocs build --strict

lint: $(READY)
	$(PYTHON) -m ruff check .
	$(PYTHON) -m ruff format --check .
	$(PYTHON) -m mypy
	$(PYTHON) -c 'from importlinter.cli import lint_imports_command; lint_imports_command()'

format: $(READY)
	$(PYTHON) -m ruff check --fix .
	$(PYTHON) -m ruff format .

.venv/ready: pyproject.toml
	$(BASE_PYTHON) -m venv .venv
	.venv/bin/python -m pip install --quiet --upgrade pip
	.venv/bin/python -m pip install --quiet --editable '.[dev,cu$(CUDA_MAJOR)]' $(if $(filter 13,$(CUDA_MAJOR)),--group toolchain13)
	touch $@

# The baseline is 444 MB: only where there is a GPU to run it and no cuBLAS at hand.
.PHONY: cublas
cublas: $(READY)
	@if command -v nvidia-smi >/dev/null && ! $(PYTHON) -c 'from cuda.pathfinder import load_nvidia_dynamic_lib as load; load("cublas")' 2>/dev/null; \
	then $(PYTHON) -m pip install --quiet '.[cublas$(CUDA_MAJOR)]'; fi

clean:
	rm -rf .venv build dist .pytest_cache .mypy_cache .ruff_cache .benchmarks
	find . -name __pycache__ -prune -exec rm -rf {} +
