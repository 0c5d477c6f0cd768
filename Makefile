# The commands of the project. Only make and Python 3.11 or later are needed:
#
#   make demo     install, score the sample dump in configs/demo on two workers, show the result
#   make test     install with the test dependencies, run the test suite
#   make avx2     tests of models and jobs as on a processor that has AVX2 and nothing newer
#   make quick    the tests that need no model, no Beam pipeline and no process: under a minute
#   make lint     formatting, lint, types, import contracts and the Dockerfile
#   make check    `make lint` and `make quick`
#   make engines  the longest tests, and those that need another engine: some forty minutes
#   make docs     build the site in build/docs; links, the tour's outputs and the reference are checked
#   make versions test the core with the oldest and the newest versions it may have: 20 GB of disk
#   make configs  write docker/flex/score.json from the options of `score`
#   make recipes  test the recipes with the packages of others, in an environment of their own
#   make lock     write docker/requirements.lock and docker/torch.lock: hashes of the image's packages
#   make golden   make the golden scores again with the reference implementation (needs the network)
#   make bench    measure speed against the reference implementation, 15 minutes (needs the network)
#   make fuzz     fuzz the readers of files and texts with ten thousand examples each
#   make clean    remove what these commands made, except the environment in .venv
#
# Variables, each given as in `make demo PYTHON=python3.12`:
#
#   PYTHON        the interpreter that .venv is made with
#   PIP_ARGS      more arguments for pip install, such as an index with the CPU build of torch
#   PYTEST_ARGS   more arguments for pytest, such as `-k matching`, `-m job` or `-n 0`
#   PROCESSES     how many processes the tests run in; three take some 9 GB of memory
#   ENDS          of `make versions`, `oldest` or `newest` alone

PYTHON ?= python3
PIP_ARGS ?=
PYTEST_ARGS ?=
ENDS ?= oldest newest
PROCESSES ?= 2
# A process has a file of tests at a time, so that files share the models they load. Files come in
# their own order, in which the longest are first (tests/support/layers.py).
PYTEST_SPREAD = -n $(PROCESSES) --dist loadfile --no-loadscope-reorder

VENV := .venv
BIN := $(VENV)/bin
PIP_FLAGS := --quiet --disable-pip-version-check $(PIP_ARGS)
PIP_INSTALL := $(BIN)/python -m pip install $(PIP_FLAGS)
PINS := pyproject.toml constraints.txt
DEMO_OUTPUT := build/demo-scores
GOLDEN_VENV := build/golden-venv
RECIPES_VENV := build/recipes-venv

.PHONY: help demo test avx2 quick check lint engines docs versions recipes configs lock golden bench fuzz clean
.DELETE_ON_ERROR:
.NOTPARALLEL:

help:
	@sed -n '/^#/!q; s/^# \{0,1\}//p' Makefile

# The folder is cleared first, so that every call shows a whole run and not a resumed one.
demo: $(VENV)/.demo-stamp
	rm -rf $(DEMO_OUTPUT)
	$(BIN)/bertscore-beam score --config configs/demo/demo.yaml

# Nothing is fetched while testing: the models are in the environment or made by the tests.
test avx2 quick check engines docs versions recipes: export TOKENIZERS_PARALLELISM = false
test avx2 quick check engines docs versions recipes: export HF_HUB_OFFLINE = 1
# As many processes as cores: more threads in each would only wait for one another.
test avx2 quick versions: export OMP_NUM_THREADS = 1
# Hundreds of processes import the project: none of them should compile it again.
test avx2 quick check engines versions recipes: export PYTHONDONTWRITEBYTECODE =
PYTEST := $(BIN)/python -m pytest

# Many of these tests wait for processes: a third process keeps two cores busy.
test avx2: PROCESSES = 3
test avx2: $(VENV)/.test-stamp
	$(PYTEST) $(PYTEST_SPREAD) -m "$(MARKERS)" $(PYTEST_ARGS)

test: MARKERS = not long
# Only what computes scores depends on the processor.
avx2: MARKERS = (model or job) and not long
# Torch, oneDNN (also OpenVINO's), numpy and its BLAS each have a limit of their own.
avx2: export ATEN_CPU_CAPABILITY = avx2
avx2: export ONEDNN_MAX_CPU_ISA = AVX2
avx2: export NPY_DISABLE_CPU_FEATURES = X86_V4 AVX512_ICL AVX512_SPR
avx2: export OPENBLAS_CORETYPE = Haswell

quick: $(VENV)/.test-stamp
	$(PYTEST) $(PYTEST_SPREAD) --hypothesis-profile quick -m "not (model or job or process or long)" $(PYTEST_ARGS)

engines: $(VENV)/.test-stamp
	$(BIN)/python -m tests.support.get_chromium
	$(BIN)/python -m tests.support.get_mpnet
	$(PYTEST) $(PYTEST_SPREAD) -m long $(PYTEST_ARGS)

# SITE_URL and REPOSITORY_URL are set where it is published.
docs: export NO_MKDOCS_2_WARNING = 1
docs: $(VENV)/.docs-stamp
	$(BIN)/python -m tests.site
	$(BIN)/mkdocs build

# Each in an environment of its own. Where torch is built for CUDA, as on PyPI, no GPU is needed to
# run the work of a layer on tensors that say they are on one.
versions: $(ENDS:%=build/versions-%/.stamp)
	for end in $(ENDS); do \
	  build/versions-$$end/bin/python -m pytest $(PYTEST_SPREAD) -m "not long" $(PYTEST_ARGS) tests/core || exit; \
	done

# The packages choose the versions of what they share with the project: constraints.txt is left out.
recipes: $(VENV)/.test-stamp $(RECIPES_VENV)/.stamp
	RECIPES_PYTHON=$(CURDIR)/$(RECIPES_VENV)/bin/python $(PYTEST) -n 0 tests/test_recipes.py $(PYTEST_ARGS)

check: lint quick

lint: $(VENV)/.test-stamp
	$(BIN)/ruff format --check .
	$(BIN)/ruff check .
	$(BIN)/mypy
	$(BIN)/lint-imports
	$(BIN)/hadolint docker/Dockerfile

configs: $(VENV)/.demo-stamp
	$(BIN)/python docker/flex_template.py

# After a change of a version. Needs Linux on x86-64, Python 3.11 and the network.
lock: $(VENV)/.demo-stamp
	$(BIN)/python docker/lock.py

# The reference implementation needs an older transformers than the project: its own environment.
golden: $(GOLDEN_VENV)/.stamp
	$(GOLDEN_VENV)/bin/python -m tests.golden.make_golden

# Both sides in turn, each in its environment. Leave the machine alone meanwhile.
bench: $(VENV)/.test-stamp $(GOLDEN_VENV)/.stamp
	$(BIN)/python -m tests.benchmarks

fuzz: export TOKENIZERS_PARALLELISM = false
fuzz: export HF_HUB_OFFLINE = 1
fuzz: $(VENV)/.test-stamp
	$(BIN)/python -m pytest -n 0 tests/fuzz --hypothesis-profile fuzz

clean:
	rm -rf build dist *.egg-info .coverage htmlcov
	rm -rf .hypothesis .import_linter_cache .mypy_cache .pytest_cache .ruff_cache
	find bertscore_core pipelines configs tests -type d -name __pycache__ -prune -exec rm -rf {} +

# Environments. A stamp is as old as the last installation from these files, so a second call of
# any command above starts at once.

$(BIN)/python:
	@command -v $(PYTHON) >/dev/null || { \
	  echo "No interpreter '$(PYTHON)'. Install Python 3.11 or later, or name one: make PYTHON=python3.12" >&2; \
	  exit 1; }
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || { \
	  echo "Python 3.11 or later is needed; $(PYTHON) is $$($(PYTHON) -V 2>&1). Name another: make PYTHON=python3.12" >&2; \
	  exit 1; }
	$(PYTHON) -m venv $(VENV)

$(VENV)/.demo-stamp: $(PINS) | $(BIN)/python
	@echo "Installing into $(VENV): a few minutes the first time."
	$(PIP_INSTALL) -c constraints.txt -e '.[demo]'
	@touch $@

$(VENV)/.test-stamp: $(PINS) | $(BIN)/python
	@echo "Installing into $(VENV): a few minutes the first time."
	$(PIP_INSTALL) -c constraints.txt -e '.[demo,baseline,delta,results,tune,s3,gcs,gcp,test,dev]'
	@touch $@ $(VENV)/.demo-stamp

$(VENV)/.docs-stamp: $(VENV)/.test-stamp
	$(PIP_INSTALL) -c constraints.txt -e '.[demo,results,docs]'
	@touch $@

build/versions-%/.stamp: constraints-%.txt pyproject.toml | $(BIN)/python
	$(BIN)/python -m venv $(@D)
	$(@D)/bin/python -m pip install $(PIP_FLAGS) -c $< -e '.[demo,test]'
	@touch $@

$(GOLDEN_VENV)/.stamp: tests/golden/requirements.txt | $(BIN)/python
	$(BIN)/python -m venv $(GOLDEN_VENV)
	$(GOLDEN_VENV)/bin/python -m pip install $(PIP_FLAGS) -r $<
	@touch $@

$(RECIPES_VENV)/.stamp: tests/recipes.txt pyproject.toml | $(BIN)/python
	$(BIN)/python -m venv $(@D)
	$(@D)/bin/python -m pip install $(PIP_FLAGS) -r $< -e '.[demo]'
	@touch $@
