# One command a habit. Everything runs in .venv, made from the hash-pinned locks in requirements/.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
PIP := $(BIN)/python -m pip install --quiet --disable-pip-version-check --no-deps --require-hashes
SOURCES := app.py portal models migrations tests bench

.PHONY: run setup setup-dev migrate test test-vllm check format bench bench-sharing lock

run: setup
	$(BIN)/python app.py serve

setup: $(VENV)/.portal

setup-dev: $(VENV)/.dev

$(VENV)/.portal: requirements/portal.txt
	@$(PYTHON) -c 'import sys; sys.exit(not (3, 11) <= sys.version_info < (3, 14) and "Python 3.11, 3.12 or 3.13 is needed, this is %d.%d; try: make PYTHON=python3.13 run" % sys.version_info[:2])'
	@# Debian without python3-venv makes half of it, with a python and no pip, and fails.
	@$(BIN)/python -m pip --version >/dev/null 2>&1 || $(PYTHON) -m venv $(VENV) || { rm -rf $(VENV); \
	    echo "$(VENV) could not be made. On Debian and Ubuntu: sudo apt-get install -y python3-venv" >&2; exit 1; }
	@echo "Installing the portal into $(VENV) (once, and after the lock changes) …"
	@$(PIP) -r requirements/portal.txt
	@touch $@

$(VENV)/.dev: requirements/dev.txt $(VENV)/.portal
	@echo "Installing the test and check tools into $(VENV) …"
	@$(PIP) -r requirements/dev.txt
	@touch $@

migrate: setup
	$(BIN)/python app.py migrate

# Two processes, since most of the time of a test is spent waiting: for children, servers, a browser.
test: setup-dev
	$(BIN)/python -m pytest -n 2 --dist loadgroup --no-loadscope-reorder $(ARGS)

# Real vLLM servers on CPU, in an environment of their own outside the checkout (3.5 GB, made once for each lock).
test-vllm: setup-dev
	@python=$$($(PYTHON) tests/vllm/environment.py) && VLLM_PYTHON=$$python $(BIN)/python -m pytest --timeout=900 $(if $(ARGS),$(ARGS),tests/vllm)

check: setup-dev
	$(BIN)/ruff format --check $(SOURCES)
	$(BIN)/ruff check $(SOURCES)
	$(BIN)/mypy --strict app.py portal models bench
	$(BIN)/lint-imports

format: setup-dev
	$(BIN)/ruff format $(SOURCES)
	$(BIN)/ruff check --fix $(SOURCES)

bench: setup-dev
	$(BIN)/python -m bench $(ARGS)

bench-sharing: setup-dev
	@python=$$($(PYTHON) tests/vllm/environment.py) && VLLM_PYTHON=$$python $(BIN)/python -m bench sharing $(ARGS)

lock: setup-dev
	$(BIN)/uv pip compile --quiet --universal --python-version 3.11 --generate-hashes --no-annotate --custom-compile-command "make lock" pyproject.toml -o requirements/portal.txt
	$(BIN)/uv pip compile --quiet --universal --python-version 3.11 --generate-hashes --no-annotate --custom-compile-command "make lock" --group dev -c requirements/portal.txt -o requirements/dev.txt
	$(BIN)/uv pip compile --quiet --python-version 3.11 --python-platform x86_64-manylinux_2_28 --generate-hashes --no-annotate --custom-compile-command "make lock" --group vllm --override requirements/vllm-overrides.txt $(addprefix --find-links ,$(PIP_FIND_LINKS)) -o requirements/vllm.txt
