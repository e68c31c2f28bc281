# Each target sets up what it needs in .venv, once, with Python, pip and venv alone; it is set up
# again when setup.cfg, pyproject.toml or constraints.txt change.

PYTHON ?= python3
RANKS ?= 4
DEMO_EPOCHS ?= 15
DEMO_DDP_EPOCHS ?= 4
STRAGGLER ?= 2:30
PYTEST_ARGS ?=
# How many tests run at once. Many start several processes themselves: more need more cores and memory.
TEST_WORKERS ?= 3
# Of make test-deep: what the change is told from, and the seconds after which no further test begins.
SINCE ?= HEAD~1
DEEP_S ?= 600
MUTANTS_ARGS ?=
# How often make test-random runs them, each time on other examples.
RANDOM_ROUNDS ?= 5
CONFORMANCE_ARGS ?=
FAULTS_ARGS ?=
# What make sanitize builds with: all of address thread memcheck groups, or some.
SANITIZERS ?=
BENCH_ARGS ?=
LOCK_ARGS ?=
CHANGELOG_ARGS ?=
# Which environments of tests/matrix make test-matrix tries; by default all that take no gigabytes.
ONLY ?=
# A Python that has torch for this machine's GPU, and pytest; without it .venv is set up and used.
GPU_PYTHON ?=

VENV := .venv
BIN := $(VENV)/bin
LOG := $(VENV)/install.log
DEMO := $(VENV)/installed-demo
TEST := $(VENV)/installed-test
DEV := $(VENV)/installed-dev
DOCS := $(VENV)/installed-docs
BENCH := $(VENV)/installed-bench
BENCH_ANALYSIS := $(VENV)/installed-bench-analysis
LINT := $(VENV)/installed-lint
LOCK := $(VENV)/installed-lock

# Open MPI: allowed to run as root in a container, and with more ranks than cores. One thread a
# rank: two per rank on the same cores make a training step ten times slower.
MPI_ENV := OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1 \
	PRTE_MCA_rmaps_default_mapping_policy=:oversubscribe \
	PRTE_MCA_hwloc_default_binding_policy=none \
	OMPI_MCA_osc=^ucx OMP_NUM_THREADS=1
TRAIN := env $(MPI_ENV) $(BIN)/mpiexec -n $(RANKS) $(BIN)/python -m mpi4py examples/train_digits_mpi.py

# On this machine alone, on a free port.
TRAIN_DDP := env OMP_NUM_THREADS=1 $(BIN)/torchrun --standalone --nproc-per-node $(RANKS) \
	examples/train_ddp.py --epochs $(DEMO_DDP_EPOCHS)

# Each of the hundreds of processes that tests start would compile all modules again.
unexport PYTHONDONTWRITEBYTECODE

# Two targets at once would install into one .venv at once.
.NOTPARALLEL:
.PHONY: help demo demo-ddp demo-live compare mutants test test-all test-deep test-random types test-gpu lint bench bench-page bench-analysis bench-causes bench-compare bench-import bench-live bench-verdicts bench-what-if \
	changelog conformance coverage docs faults lock notebook numbers picture sample sanitize sample-compressed test-matrix

help:
	@echo "make demo       train on 4 ranks, healthy and with one slow rank; where did the time go?"
	@echo "make demo-ddp   train with DDP over torch.distributed on 4 ranks, healthy and with one slow rank"
	@echo "make demo-live  train with DDP for a minute; a rank turns slow half-way, and that is told meanwhile"
	@echo "make compare    the same training with dense and sparse all-reduces: accuracy, bytes and times"
	@echo "make test       run the tests            (one of them: make test PYTEST_ARGS=tests/schema/test_record.py)"
	@echo "make test-all   run the slow tests, too  (before a release, and where a change concerns them)"
	@echo "make test-random run the random tests on new examples (RANDOM_ROUNDS=20 times)"
	@echo "make test-gpu   run the tests that need a GPU, and write docs/validation-gpu.md"
	@echo "make test-matrix try other Pythons and libraries, and write docs/data/compatibility.csv (ONLY=\"python3.13 mpich\")"
	@echo "make coverage   which lines the tests run, by file (half an hour on 2 cores)"
	@echo "make test-deep  run the slow tests of what differs from a commit  (SINCE=main DEEP_S=600)"
	@echo "make mutants    break the code in 100 places: which do the tests notice? (half an hour; MUTANTS_ARGS='--count 10')"
	@echo "make lint       ruff, codespell and import-linter, in a minute from bare"
	@echo "make types      mypy --strict over both packages"
	@echo "make docs       build the documentation, with its reference, into site/"
	@echo "make bench      what recording costs     (on a GPU as well: make bench BENCH_ARGS=--gpu)"
	@echo "make bench-page the same, written to docs/data/performance-*.txt and drawn as docs/cost.png"
	@echo "make bench-analysis what reading and analysing costs (BENCH_ARGS='--sizes 10000x1000' for other sizes)"
	@echo "make bench-causes how often the cause of slowness is told in real jobs (6 hours; BENCH_ARGS='--runs 1' for a glance)"
	@echo "make bench-compare how right comparisons of runs are (two hours; BENCH_ARGS=--quick for a glance)"
	@echo "make bench-import how well imported traces agree with a run that timed itself, and what importing costs"
	@echo "make bench-live what is told while a run goes on: how soon, how right, at what cost (BENCH_ARGS=--quick for a glance)"
	@echo "make bench-verdicts how good the verdicts on slow ranks are (1.5 hours; BENCH_ARGS='--quick --seeds 6' for a glance)"
	@echo "make bench-what-if what a repair gains, foretold and then made (20 minutes; BENCH_ARGS=--quick for a glance)"
	@echo "make conformance mpi4py's own tests, plain and timed, on 1 to 4 ranks (half an hour on 2 cores)"
	@echo "make faults     every promise under real faults, and docs/reliability.md (hours; FAULTS_ARGS=--short for a minute)"
	@echo "make sanitize   the native core, and groups in C++, under sanitizers and valgrind (SANITIZERS=\"address\")"
	@echo "make numbers    the tables that pages have of the code: docs/stragglers-numbers.md, docs/dashboards.md"
	@echo "make notebook   run the notebooks of examples/notebooks"
	@echo "make picture    draw docs/terminal.svg (a terminal session), docs/account.svg and docs/report.png again"
	@echo "make sample     make logs/sample again    (and make sample-compressed: logs/sample-compressed)"
	@echo "make changelog  for a release: CHANGELOG.md from the files of changelog.d (CHANGELOG_ARGS=--draft only prints it)"
	@echo "make lock       make constraints.txt again, keeping the versions in it (LOCK_ARGS='-P NAME' takes the newest NAME)"

# -- what the project does ---------------------------------------------------------------------

demo: $(DEMO)
	@rm -rf logs/demo
	@echo "== run 1 of 2: $(RANKS) ranks, all healthy"
	@$(TRAIN) --epochs $(DEMO_EPOCHS) --log-dir logs/demo/healthy
	@echo "== run 2 of 2: the same, but loading each batch takes one rank longer ($(STRAGGLER) ms)"
	@$(TRAIN) --epochs $(DEMO_EPOCHS) --log-dir logs/demo/straggler --straggler $(STRAGGLER)
	@echo "== where the time went, healthy: timing-logger summary logs/demo/healthy"
	@$(BIN)/timing-logger summary logs/demo/healthy
	@echo "== where the time went, with a delayed rank: timing-logger summary logs/demo/straggler"
	@$(BIN)/timing-logger summary logs/demo/straggler
	@echo "== who is slow, healthy: timing-logger stragglers logs/demo/healthy"
	@$(BIN)/timing-logger stragglers logs/demo/healthy
	@echo "== who is slow, with a delayed rank: timing-logger stragglers logs/demo/straggler"
	@$(BIN)/timing-logger stragglers logs/demo/straggler

demo-ddp: $(DEMO)
	@rm -rf logs/demo-ddp
	@echo "== run 1 of 2: DDP on $(RANKS) ranks, all healthy"
	@$(TRAIN_DDP) --log-dir logs/demo-ddp/healthy
	@echo "== run 2 of 2: the same, but loading each batch takes one rank longer ($(STRAGGLER) ms)"
	@$(TRAIN_DDP) --log-dir logs/demo-ddp/straggler --straggler $(STRAGGLER)
	@echo "== where the time went, healthy: timing-logger summary logs/demo-ddp/healthy"
	@$(BIN)/timing-logger summary logs/demo-ddp/healthy
	@echo "== where the time went, with a delayed rank: timing-logger summary logs/demo-ddp/straggler"
	@$(BIN)/timing-logger summary logs/demo-ddp/straggler
	@echo "== who is slow, healthy: timing-logger stragglers logs/demo-ddp/healthy"
	@$(BIN)/timing-logger stragglers logs/demo-ddp/healthy
	@echo "== who is slow, with a delayed rank: timing-logger stragglers logs/demo-ddp/straggler"
	@$(BIN)/timing-logger stragglers logs/demo-ddp/straggler

demo-live: $(DEMO)
	@rm -rf logs/demo-live
	@env OMP_NUM_THREADS=1 $(BIN)/python examples/watch_training.py --log-dir logs/demo-live

compare: $(DEMO)
	@rm -rf logs/compare
	@env $(MPI_ENV) $(BIN)/mpiexec -n $(RANKS) $(BIN)/python -m mpi4py examples/compare_compression.py \
		--epochs $(DEMO_EPOCHS) --log-dir logs/compare

# What is named in PYTEST_ARGS runs in one process, slow or not; else tests/helpers/suite.py runs what is quick, in parts, or with
# make test-all everything, with five times as many random examples.
SUITE := $(BIN)/python tests/helpers/suite.py

test: $(TEST)
	@$(if $(strip $(PYTEST_ARGS)),$(BIN)/python -m pytest $(PYTEST_ARGS),$(SUITE) quick --workers $(TEST_WORKERS))

test-all: $(TEST)
	@$(SUITE) all --workers $(TEST_WORKERS)

# The slow tests of what differs from the commit SINCE, of which none begins after DEEP_S seconds.
test-deep: $(TEST)
	@$(SUITE) deep --workers $(TEST_WORKERS) --since $(SINCE) --seconds $(DEEP_S)

# In copies of the checkout; the seed is the day's unless MUTANTS_ARGS says --seed.
mutants: $(DEV)
	@PYTHONPATH=tests:tests/helpers $(BIN)/python -m mutants $(MUTANTS_ARGS)

# Timing is no longer what it is without, and programs have a thread and files more: what fails here and not under
# make test is no defect. Processes that tests kill leave torn files of data. The C code has no figure, but make
# sanitize.
coverage: $(DEV)
	@rm -rf build/coverage && mkdir -p build/coverage
	-env TIMING_LOGGER_TESTS_COLD=1 $(BIN)/coverage run -m pytest --timeout 600 -n $(TEST_WORKERS) --dist loadfile -q \
		-m "not slow"
	-env TIMING_LOGGER_TESTS_COLD=1 TIMING_LOGGER_CORE=python $(BIN)/coverage run -m pytest --timeout 600 \
		-n $(TEST_WORKERS) --dist loadfile -q -m "both_cores and not slow"
	-@$(BIN)/coverage combine -q 2> build/coverage/torn.txt
	@$(BIN)/coverage report -i --skip-covered --sort=miss > build/coverage/report.txt 2> build/coverage/moved.txt
	@tail -1 build/coverage/report.txt; echo "by file: build/coverage/report.txt"

# Examples that make test does not have. What fails says by which seed it is found again.
test-random: $(TEST)
	@for round in $$(seq $(RANDOM_ROUNDS)); do \
		echo "== round $$round of $(RANDOM_ROUNDS)"; \
		$(BIN)/python -m pytest -q -n $(TEST_WORKERS) --dist loadfile -m hypothesis \
			--hypothesis-profile new-examples $(PYTEST_ARGS) || exit 1; \
	done

test-gpu: $(if $(GPU_PYTHON),,$(TEST))
	PYTHONPATH=. $(or $(GPU_PYTHON),$(BIN)/python) -m pytest -m gpu -rs --validation docs/validation-gpu.md \
		-p no:cacheprovider tests/gpu
	PYTHONPATH=. $(or $(GPU_PYTHON),$(BIN)/python) benchmarks/device_spans.py

# Environments beside .venv, in .venvs. Those that take gigabytes only if they are named.
test-matrix: $(TEST)
	@PYTHONPATH=tests $(BIN)/python -m matrix $(ONLY)

lint: $(LINT)
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/codespell
	$(BIN)/lint-imports --no-cache --no-logo

types: $(DEV)
	$(BIN)/mypy

# Not --quiet: what it does not say, --strict does not count. The theme would advertise its successor on every run.
docs: $(DOCS)
	@NO_MKDOCS_2_WARNING=1 $(BIN)/mkdocs build --strict -f website/mkdocs.yml
	@echo "open site/index.html; its search needs a server: $(BIN)/python -m http.server -d site"

# The files of changelog.d become a release in CHANGELOG.md, of the version in pyproject.toml.
changelog: $(DEV)
	$(BIN)/towncrier build --yes $(CHANGELOG_ARGS)

lock: $(LOCK)
	$(BIN)/uv pip compile --quiet pyproject.toml --output-file constraints.txt $(LOCK_ARGS) > /dev/null

# Of make bench-page what each prints is kept in a file, from which the figures of docs/performance.md are.
bench-page: INTO_FILE = | $(BIN)/python benchmarks/_into_file.py
bench-page: DRAWN = --draw docs/cost.png
SAID = $(if $(INTO_FILE),$(INTO_FILE) docs/data/performance-$(1).txt)
bench bench-page: $(BENCH)
	$(BIN)/python benchmarks/overhead.py $(BENCH_ARGS) $(DRAWN) $(call SAID,recording)
	@TIMING_LOGGER_CORE=python $(BIN)/python benchmarks/overhead.py --no-peers $(call SAID,python-core)
	@env $(MPI_ENV) $(BIN)/mpiexec -n 1 $(BIN)/python -m mpi4py benchmarks/mpi_calls.py $(call SAID,mpi-1)
	@env $(MPI_ENV) $(BIN)/mpiexec -n 2 $(BIN)/python -m mpi4py benchmarks/mpi_calls.py $(call SAID,mpi-2)
	@$(BIN)/python benchmarks/pauses.py $(call SAID,pauses)
	@TIMING_LOGGER_CORE=python $(BIN)/python benchmarks/pauses.py $(call SAID,pauses-python-core)
	@$(BIN)/python benchmarks/files_beside.py $(call SAID,files-beside)
	@OMP_NUM_THREADS=1 $(BIN)/python benchmarks/process_group.py $(call SAID,process-group)
	@$(BIN)/python benchmarks/ddp_step.py $(call SAID,ddp)
	@$(BIN)/python benchmarks/fsdp_step.py $(call SAID,fsdp)
	@TIMING_LOGGER_GROUP=native OMP_NUM_THREADS=1 $(BIN)/python benchmarks/process_group.py $(call SAID,process-group-in-cpp)
	@TIMING_LOGGER_GROUP=native $(BIN)/python benchmarks/ddp_step.py $(call SAID,ddp-in-cpp)
	@TIMING_LOGGER_GROUP=native $(BIN)/python benchmarks/fsdp_step.py $(call SAID,fsdp-in-cpp)

bench-analysis: $(BENCH_ANALYSIS)
	@PYTHONPATH=. $(BIN)/python benchmarks/analysis.py $(BENCH_ARGS)

bench-causes: $(TEST)
	@PYTHONPATH=.:benchmarks $(BIN)/python benchmarks/causes.py $(or $(BENCH_ARGS),--write docs/causes.md)

bench-import: $(TEST)
	@PYTHONPATH=. $(BIN)/python benchmarks/imported_traces.py $(BENCH_ARGS)

bench-live: $(TEST)
	@PYTHONPATH=. OMP_NUM_THREADS=1 $(BIN)/python benchmarks/live.py $(or $(BENCH_ARGS),--write docs/live.md)

bench-compare: $(TEST)
	@PYTHONPATH=.:benchmarks OMP_NUM_THREADS=1 $(BIN)/python benchmarks/compare.py $(or $(BENCH_ARGS),--write docs/compare.md)

bench-verdicts: $(TEST)
	@PYTHONPATH=. OMP_NUM_THREADS=1 $(BIN)/python benchmarks/verdicts.py $(or $(BENCH_ARGS),--write docs/verdict-accuracy.md)

bench-what-if: $(TEST)
	@PYTHONPATH=.:benchmarks OMP_NUM_THREADS=1 $(BIN)/python benchmarks/what_if.py $(or $(BENCH_ARGS),--write docs/what-if.md)

conformance: $(TEST)
	@env $(MPI_ENV) PATH="$(abspath $(BIN)):$$PATH" $(BIN)/python tests/conformance/compare.py $(CONFORMANCE_ARGS)

faults: $(TEST)
	@PYTHONPATH=.:tests/helpers:tests/faults OMP_NUM_THREADS=1 $(BIN)/python -m campaign $(or $(FAULTS_ARGS),--write docs/reliability.md)

sanitize: $(TEST)
	@tests/sanitize/run.sh $(BIN)/python $(SANITIZERS)

# The tables of all numbers that decide a verdict, in docs/stragglers-numbers.md.
numbers: $(TEST)
	$(BIN)/python website/made_tables.py

# The moving picture of a terminal in docs/run.md, that of an account in docs/stragglers.md, and the report at the head of README.md.
picture: $(DEV)
	$(BIN)/python website/terminal_picture.py
	$(BIN)/python website/account_picture.py
	$(BIN)/python website/report_picture.py

notebook: $(TEST)
	@mkdir -p logs/notebooks
	@cp examples/notebooks/*.ipynb logs/notebooks
	@$(BIN)/jupyter execute --inplace logs/notebooks/*.ipynb
	@echo "logs/notebooks holds them with new plots; open them in Jupyter or an editor"

sample: $(DEMO)
	@rm -rf logs/sample
	@$(TRAIN) --epochs 3 --log-dir logs/sample --straggler $(STRAGGLER)

sample-compressed: $(TEST)
	@rm -rf logs/sample-compressed
	@for allreduce in dense topk; do \
		$(TRAIN) --epochs 2 --batch-size 40 --allreduce $$allreduce --log-dir logs/sample-compressed/$$allreduce && \
		$(BIN)/timing-logger convert logs/sample-compressed/$$allreduce --to parquet \
			-o logs/sample-compressed/$$allreduce.parquet && \
		rm -r logs/sample-compressed/$$allreduce || exit 1; \
	done

# -- set-up ------------------------------------------------------------------------------------

$(VENV)/created:
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 10))' || { \
		echo "'$(PYTHON)' is not a Python of version 3.10 or later; say which: make PYTHON=/path/to/python3 ..."; \
		exit 1; }
	@echo "[set-up 1/2] creating $(VENV)"
	@$(PYTHON) -m venv $(VENV) || { \
		echo "'$(PYTHON) -m venv' failed: this Python lacks its venv or ensurepip module (a package of"; \
		echo "its own on some systems, python3-venv); or say make PYTHON=/path/to/another/python3 ..."; \
		exit 1; }
	@touch $@

# A richer set of packages holds the poorer ones, so that they are not installed again.
HOLDS_demo := demo
HOLDS_test := demo docs test
HOLDS_dev := demo docs test dev lint
HOLDS_docs := docs
HOLDS_bench := demo bench
HOLDS_bench-analysis := bench-analysis
HOLDS_lock := lock

# A checkout that got newer sources of the native core has to build it again.
NATIVE_SOURCES := $(filter-out %/columns.pxi,$(wildcard setup.py $(addprefix timing_logger/,csrc/*.[ch] \
	recording/cores/native/core.pyx recording/cores/native/*.pxi recording/cores/native/csrc/*.[ch])))

# Linters read the sources: nothing else is installed.
$(LINT): constraints.txt | $(VENV)/created
	@echo "[set-up 2/2] installing ruff, codespell and import-linter (log: $(LOG))"
	@$(BIN)/python -m pip install -c constraints.txt ruff 'codespell[toml]' import-linter > $(LOG) 2>&1 || { \
		tail -n 30 $(LOG); exit 1; }
	@touch $@

# uv installs in a third of pip's time, and is told where pip looks for wheels (a CPU build of torch, say). Where there
# is no uv, or it fails, pip does it, without compiling modules that nobody may import.
INSTALL = $(BIN)/python -m pip install -c constraints.txt uv && \
	UV_FIND_LINKS="$$PIP_FIND_LINKS" $(BIN)/uv --no-config pip install --python $(BIN)/python -c constraints.txt -e '.[$*]' || \
	$(BIN)/python -m pip install --no-compile -c constraints.txt -e '.[$*]'

# What they say goes to a log; every ten seconds is shown that it goes on.
$(VENV)/installed-%: setup.cfg pyproject.toml constraints.txt $(NATIVE_SOURCES) | $(VENV)/created
	@echo "[set-up 2/2] installing the packages for: $(HOLDS_$*) (a minute or two; log: $(LOG))"
	@start=$$(date +%s); : > $(LOG); \
	while sleep 10 > /dev/null 2>&1; do \
		echo "    $$(($$(date +%s) - start)) s  $$(tail -n 1 $(LOG) | cut -c 1-80)"; \
	done & ticker=$$!; \
	trap 'kill $$ticker 2> /dev/null' EXIT; trap 'exit 130' INT TERM; \
	{ $(INSTALL); } > $(LOG) 2>&1 || { tail -n 30 $(LOG); echo "installing failed; all that was said is in $(LOG)"; exit 1; }; \
	echo "    done in $$(($$(date +%s) - start)) s"
	@echo "    $$($(BIN)/python -m timing_logger --version)"
	@touch $(foreach set,$(HOLDS_$*),$(VENV)/installed-$(set))
