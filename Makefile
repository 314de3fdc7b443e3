# make demo   make the environment, record the shipped scenario, seek in it, verify it
# make test   run the tests
# make test-long   the cases that make test leaves out, since it runs others of their kind
# make test-foreign   arrays of JAX, Atari, SimPy: packages of hundreds of megabytes; make test skips these tests
# make test-gs    tapes at gs://, from a server on loopback; make test skips these tests without its packages
# make test-ray   work on Ray, which is started on loopback; make test skips these tests without the package
# make test-real   defects of public packages in old versions, each in an environment of its own; make test has programs like them
# make lint   formatting, lint, types, import rules
# make test-pythons   the tests on every installed Python from 3.11
# make test-exact     the tests that depend most on the Python, on every installed one: hashes, golden tapes, forks
# make test-oldest    the tests with the oldest versions of the packages that pyproject.toml allows
# make test-wheel     build sdist and wheel; use the wheel in a new environment, run tests from the sdist
# make docs   the site of the documentation, in build/site, looked at in a browser
# make bench  the costs of recording and their growth, compared with peers and targets; BENCH=--quick takes minutes

PYTHON ?= python3
VENV ?= .venv
BIN := $(VENV)/bin
TEST_GROUPS ?= test datasets adapters viewers stores  # Without the last four, the tests of other packages' integrations are skipped.
FOREIGN_TESTS := tests/end_to_end/test_examples.py tests/sim/adapters/jax tests/sim/adapters/ale tests/sim/adapters/capture/test_refusals.py
PYTEST_ARGS ?=  # Of make test and test-exact, such as the seeds that a run printed.
TEST_JOBS ?= 3  # On two cores: tests wait for the disk and for processes in a seventh of their time.
PAGES_ARGS ?=  # Of the pages in make test: the seed that a run printed.
BENCH ?=  # Arguments for all benches; --quick is one that each of them has.
DEMO_TAPE := recordings/demo.tape

# The tests start many processes. None of them may compile all modules again, whatever the environment sets.
unexport PYTHONDONTWRITEBYTECODE

.PHONY: demo test test-long test-ray test-gs test-real test-pythons test-exact test-oldest test-wheel test-foreign lint docs bench clean

demo: $(VENV)/.installed
	mkdir -p recordings && rm -rf $(DEMO_TAPE)
	$(BIN)/record run quiet-meadow --output $(DEMO_TAPE)
	$(BIN)/replay info $(DEMO_TAPE)
	$(BIN)/replay seek $(DEMO_TAPE) --tick 2500 --picture
	$(BIN)/replay verify $(DEMO_TAPE) --jobs 2

test: $(VENV)/.tested
	$(BIN)/python tools/run_tests.py --jobs $(TEST_JOBS) $(PYTEST_ARGS) $(PAGES_ARGS)

test-long: $(VENV)/.tested
	$(BIN)/pytest -n 2 --dist worksteal -m long tests
	$(BIN)/pytest -n 2 --dist loadfile -m "" README.md docs

test-foreign: $(VENV)/.tested
	$(BIN)/pip install --quiet --group foreign
	$(BIN)/pytest -n 2 --dist worksteal -m "" $(FOREIGN_TESTS)

test-ray: $(VENV)/.tested
	$(BIN)/pip install --quiet --group ray
	$(BIN)/pytest -m "" tests/recorder/processes/engines

test-gs: $(VENV)/.tested
	$(BIN)/pip install --quiet --group gs
	$(BIN)/pytest -m "" tests/recorder/storage/remote/test_gcs_store.py

test-real:
	tools/test_real.sh

test-pythons:
	tools/test_pythons.sh

test-exact:
	tools/test_pythons.sh -m "" $(PYTEST_ARGS) tests/sim/worlds/meadow/test_exactness.py tests/recorder/format/test_golden_tapes.py \
		tests/recorder/processes/test_fork.py tests/replayer/timeline/test_verify.py tests/recorder/ambient/outside/test_line_digests.py \
		tests/recorder/ambient/outside/test_code_text.py

test-oldest:
	tools/test_oldest.sh

test-wheel: $(VENV)/.tested
	$(BIN)/pip install --quiet --group release
	$(BIN)/python tools/test_wheel.py

lint: $(VENV)/.linted
	$(BIN)/ruff format --check .
	$(BIN)/ruff check .
	$(BIN)/mypy
	$(BIN)/lint-imports

# --strict: a link to nothing, a page that the navigation lacks, and a docstring that does not parse are errors.
docs: $(VENV)/.installed tools/get_chromium.sh
	$(BIN)/pip install --quiet --group docs
	tools/get_chromium.sh
	NO_MKDOCS_2_WARNING=1 $(BIN)/python -m mkdocs build --quiet --strict --config-file tools/site/mkdocs.yml
	$(BIN)/python tools/site/check_site.py

bench: $(VENV)/.installed
	$(BIN)/pip install --quiet --group bench
	mkdir -p build/bench
	$(BIN)/python tools/bench/profile_step.py $(BENCH) --json build/bench/profile.json
	$(BIN)/python tools/bench/ticks.py $(BENCH) --json build/bench/ticks.json
	$(BIN)/python tools/bench/scaling.py $(BENCH) --json build/bench/scaling.json
	$(BIN)/python tools/bench/peer_costs.py $(BENCH) --json build/bench/peers.json
	$(BIN)/python tools/bench/objects.py $(BENCH) --json build/bench/objects.json
	$(BIN)/python tools/bench/targets.py $(BENCH) --json build/bench/targets.json

$(VENV)/.installed: pyproject.toml tools/make_venv.sh
	PYTHON=$(PYTHON) tools/make_venv.sh $(VENV)
	$(BIN)/pip install --quiet --editable .
	touch $@

$(VENV)/.tested: $(VENV)/.installed tools/get_kaitai.sh tools/get_chromium.sh tools/kaitai/package-lock.json
	$(BIN)/pip install --quiet $(TEST_GROUPS:%=--group %)
	tools/get_kaitai.sh $(VENV)
	$(if $(filter viewers,$(TEST_GROUPS)),tools/get_chromium.sh)
	touch $@

$(VENV)/.linted: $(VENV)/.tested
	$(BIN)/pip install --quiet --group lint
	touch $@

clean:
	rm -rf .venv .venv-* .mypy_cache .ruff_cache .pytest_cache .hypothesis .import_linter_cache
