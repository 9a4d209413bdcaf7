# The two commands of the README. The first run creates .venv and installs pinned packages.
#   make ask    draw a mask and answer questions from a text
#   make test   ruff, mypy, pytest
PYTHON ?= $(shell command -v python3.11 || command -v python3)
VENV := .venv
BIN := $(VENV)/bin
PIP := $(BIN)/python -m pip --disable-pip-version-check install --quiet --constraint constraints.txt

.PHONY: ask test clean

ask: $(VENV)/ready
	$(BIN)/python examples/ask.py

test: $(VENV)/ready-dev
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/python -m pytest

$(VENV)/ready: pyproject.toml constraints.txt
	@test -x $(BIN)/python || { echo "Making $(VENV) with $(PYTHON) …"; $(PYTHON) -m venv $(VENV); }
	@echo "Installing Masquerade into $(VENV), pinned (about a minute the first time) …"
	@$(PIP) --editable .
	@touch $@

$(VENV)/ready-dev: $(VENV)/ready
	@echo "Installing the tools for its tests …"
	@$(PIP) --editable '.[dev]'
	@touch $@

clean:
	rm -rf $(VENV) .mypy_cache .ruff_cache .pytest_cache .hypothesis .cache
