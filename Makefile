# Two commands do everything on a fresh machine (Python 3.11+ and make): `make demo` and `make test`.
PYTHON ?= python3
VENV ?= .venv
BIN = $(VENV)/bin
DEMO_OUT ?= runs/demo

.PHONY: help demo tables test test-all lint types kernels coverage docs bench clean

help:
	@echo "make demo      install and match 2,500 rotated digits with 2,500 upright ones"
	@echo "make tables    tables 1 and 2 of the paper, full size: hours; DATA=folder with the IDX files, else downloaded"
	@echo "make test      ruff, mypy and pytest without the slow tests: minutes"
	@echo "make test-all  the same with all tests and the site: everything that CI runs"
	@echo "make coverage  pytest with line coverage"
	@echo "make docs      the site, with its gallery run: build/site/index.html"
	@echo "make bench     speed compared with other libraries, small sizes: minutes"
	@echo "make clean     remove the virtual environment and caches"

# The stamp is newer than pyproject.toml exactly when the environment is up to date.
$(VENV)/.installed: pyproject.toml
	$(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --upgrade pip
	$(BIN)/python -m pip install --quiet --editable '.[demo,dev]'
	$(BIN)/python -m compileall -q src  # an editable installation does not: the first commands would
	touch $@

demo: $(VENV)/.installed
	$(BIN)/bispectral-ot demo --report --out $(DEMO_OUT) --overwrite

# Resumable: cells that the folder has are not computed again.
tables: $(VENV)/.installed
	$(BIN)/python -m studies class-preservation --out runs/tables $(if $(DATA),--root $(DATA))

test: lint types kernels
	$(BIN)/pytest -n auto -m "not slow"

test-all: lint types kernels
	$(BIN)/pytest -n auto --dist worksteal
	$(MAKE) docs

lint: $(VENV)/.installed
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .

types: $(VENV)/.installed
	$(BIN)/mypy

# Without it every test process would compile the same kernels.
kernels: $(VENV)/.installed
	$(BIN)/python tests/compile_kernels.py

coverage: $(VENV)/.installed
	$(BIN)/pytest -n auto --cov --cov-report=term:skip-covered

$(VENV)/.docs: $(VENV)/.installed
	$(BIN)/python -m pip install --quiet --editable '.[docs]'
	touch $@

# Warnings are errors. Scripts of the gallery run again only where they changed.
docs: $(VENV)/.docs
	$(BIN)/sphinx-build -W --keep-going -q docs build/site
	@echo "open build/site/index.html"

bench: $(VENV)/.installed
	$(BIN)/python -m benchmarks --quick

clean:
	rm -rf $(VENV) .pytest_cache .mypy_cache .ruff_cache .hypothesis build dist docs/_generated
