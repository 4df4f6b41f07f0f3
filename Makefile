# `make` alone runs what CI runs. `make demo` and `make test` do their own set-up in a fresh clone.
VENV   ?= .venv
PYTHON ?= python3
BIN    := $(VENV)/bin
STAMP  := $(VENV)/.ready

# without bytecode every process of the tests would compile the package, and every run the tests, anew
unexport PYTHONDONTWRITEBYTECODE

.DEFAULT_GOAL := all
.PHONY: all setup web no-npm types-web test-web demo test test-slow lint format types docs site bench wheels clean

all:
	@$(MAKE) --no-print-directory -j2 lint types web
	@$(MAKE) --no-print-directory test

setup: $(STAMP)

$(STAMP): pyproject.toml
	$(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --upgrade "pip>=25.1"
	$(BIN)/python -m pip install --quiet --no-compile --editable . --group dev
	-$(BIN)/python -m compileall -qq -j 0 $(VENV)/lib  # pip would use one core
	touch $(STAMP)

# the studio's page: built again when a file of web/ is newer; without npm tests in a browser are skipped
PAGE := src/epoxy/studio/static/index.html
web: $(if $(shell command -v npm 2>/dev/null),$(PAGE),no-npm)

no-npm:
	@echo "npm is not installed: the studio's page is not built, and nothing is tested in a browser" >&2

$(PAGE): $(shell find web -name node_modules -prune -o -type f -print)
	cd web && npm install --no-audit --no-fund && npm run build

# the types of what page and server say to each other, from the verbs
types-web: setup
	cd web && npm install --no-audit --no-fund
	$(BIN)/python -m epoxy.studio.openapi | (cd web && npx openapi-typescript --default-non-nullable=false -o src/schema.ts)

test-web: types-web
	cd web && npm run check && npm test

demo: setup
	$(BIN)/epoxy demo

# three workers for two cores: many tests wait for processes they started
test:
	@$(MAKE) --no-print-directory -j2 setup web
	$(BIN)/python -m pytest -n 3 --dist worksteal -m "not slow and not needs_torch"

test-slow: setup
	$(BIN)/python -m pip install --quiet --group slow
	$(BIN)/python -m pytest -m "slow or needs_torch"

lint: setup
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .

format: setup
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .

types: setup
	$(BIN)/mypy

docs: setup
	$(BIN)/python docs/generate.py

# the documentation as pages, in site/; a link that leads nowhere is an error
site: setup
	$(BIN)/zensical build --clean --strict -f mkdocs.yml

bench: setup
	$(BIN)/python -m pip install --quiet --group bench
	$(BIN)/python benchmarks/speed.py --quick
	$(BIN)/python benchmarks/label_models.py
	$(BIN)/python benchmarks/radius.py

# the wheel on every Python that is here, with the newest and the oldest dependencies it allows
wheels: setup
	$(BIN)/python -m pip install --quiet build uv
	$(BIN)/python -m build --wheel --outdir dist .
	$(BIN)/python tests/wheels.py dist/*.whl

clean:
	rm -rf $(VENV) dist site .pytest_cache .mypy_cache .ruff_cache .hypothesis
