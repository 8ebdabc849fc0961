# Two commands do everything on a fresh machine (Python 3.11+ and make): `make demo` and `make test`.
PYTHON ?= python3
VENV ?= .venv
BIN = $(VENV)/bin
DEMO_OUT ?= runs/demo

.PHONY: help demo test lint types pytest coverage docs bench clean

help:
	@echo "make demo      install and match 2,500 turned digits with 2,500 upright ones"
	@echo "make test      ruff, mypy and pytest: everything that CI runs"
	@echo "make coverage  pytest, and which lines it ran"
	@echo "make docs      the site, with its gallery run: build/site/index.html"
	@echo "make bench     speed side by side with other libraries, small sizes: minutes"
	@echo "make clean     remove the virtual environment and caches"

# The stamp is newer than pyproject.toml exactly when the environment is up to date.
$(VENV)/.installed: pyproject.toml
	$(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --upgrade pip
	$(BIN)/python -m pip install --quiet --editable '.[demo,dev]'
	touch $@

demo: $(VENV)/.installed
	$(BIN)/bispectral-ot demo --report --out $(DEMO_OUT) --overwrite

test: lint types pytest

lint: $(VENV)/.installed
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .

types: $(VENV)/.installed
	$(BIN)/mypy

pytest: $(VENV)/.installed
	$(BIN)/pytest -n auto

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
