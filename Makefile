# The two commands of the README. The first run creates .venv and installs pinned packages.
#   make ask    draw a mask and answer questions from a text
#   make test   ruff, mypy, pytest; in a browser too where one can be installed (make browser)
PYTHON ?= $(shell command -v python3.11 || command -v python3)
VENV := .venv
BIN := $(VENV)/bin
PIP := $(BIN)/python -m pip --disable-pip-version-check install --quiet --constraint constraints.txt

.PHONY: ask test browser clean

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
	@$(MAKE) --silent browser
	@touch $@

# For the tests of the service's page: playwright, and Debian's chromium with a Chinese font where they can be installed.
# Without them these tests are skipped.
browser: $(VENV)/ready
	@$(PIP) --editable '.[browser]' || echo "playwright cannot be installed, so the page is not tested in a browser."
	@command -v chromium > /dev/null || command -v chromium-browser > /dev/null || \
		{ test "$$(id -u)" = 0 && command -v apt-get > /dev/null && timeout 300 sh -c \
		'apt-get -qq update && apt-get -qq install -y --no-install-recommends chromium fonts-noto-cjk' > /dev/null 2>&1; } || \
		echo "There is no chromium, so the page is not tested in a browser; as root: apt-get install chromium fonts-noto-cjk"

clean:
	rm -rf $(VENV) .mypy_cache .ruff_cache .pytest_cache .hypothesis .cache
