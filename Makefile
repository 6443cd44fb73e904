# make run    sets up, records a sha256 sweep on this machine, analyzes it, prints the report's path
# make test   sets up, runs all checks and all tests
# make quick  runs the tests that need no recording, browser or timing: under 2 minutes
# make check  checks formatting, lints and types
# make wheels  builds a source distribution, a manylinux wheel, and a Windows wheel in dist/
# make reference  writes docs/reference/ from the commands and the queries
# make licenses  writes docs/third-party-licenses.md from the lock files
# make notebook  executes docs/notebook.ipynb and writes docs/notebook.md from it
# make sbom  writes sbom.cdx.json, the bill of materials in the wheels, from the lock files
# make audit  checks the dependencies: licenses, checksums, yanked versions, known vulnerabilities
# make detectors  measures the analyzers' precision and recall on faults planted in simulations
# make what-if  compares predicted gains of changes with the true ones on faults planted in simulations
# make compare-check  measures how often `schedlens compare` reports a difference where nothing changed
# make damage damages the bytes of recordings and checks the bounds of all query results
# make faults  kills collect and analyze at 50 random moments, and fills their disk
# make fuzz   fuzzes the readers and the state machine, guided by coverage; HOURS=n or SECONDS=n
# make bench   measures schedlens and other programs, and writes docs/benchmarks.md
# make picture  renders the report of the demo for the README, and copies one of its findings
# make experiments-check  checks the load generator of the experiments against queueing theory
# make statistics-check   checks the intervals of the experiments on synthetic ones with known truth
SHELL := /bin/bash
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
RUST := $(shell find decoders workloads -name '*.rs' -o -name Cargo.toml) Cargo.lock \
        $(wildcard queries/schema/*.sql)
# System programs that recording and the tests need, by Debian package name.
RUN_PACKAGES := perf:linux-perf
TEST_PACKAGES := perf:linux-perf trace-cmd:trace-cmd chromium:chromium xz:xz-utils mcs:mono-mcs mono:mono-runtime \
                 /usr/lib/wine/wine64:wine64 x86_64-w64-mingw32-gcc:gcc-mingw-w64-x86-64-win32
WINDOWS := x86_64-pc-windows-gnu
# Only the tests of PDB files: programs for it need no library of Microsoft.
WITH_PDB := x86_64-pc-windows-msvc

# Some machines forbid compiled modules: then each of the thousands of commands that the tests start
# would compile 230 of them for 0.2 s.
export PYTHONDONTWRITEBYTECODE :=

.PHONY: run test quick check check-python check-rust setup setup-run setup-test rust-targets rust-tests test-packages lock reference notebook licenses sbom audit wheels bench bench-fleet damage detectors what-if faults picture experiments-check statistics-check compare-check fuzz fuzz-corpus fuzz-bytes fuzz-drawn clean

run: setup-run
	$(BIN)/python -m schedlens.commands.first_run

# pip and mypy use one CPU each: what needs only Rust runs meanwhile. Of the three processes that
# test on two CPUs, one mostly waits for recordings: four take a tenth more time of the processor
# for the same tests. Fuzzing takes what they leave.
test:
	@$(MAKE) --jobs=2 --no-print-directory setup test-packages check-rust
	@$(MAKE) --jobs=2 --no-print-directory check-python rust-targets rust-tests
	cargo test --workspace --locked -j2
	@mkdir -p build; \
	nice -n 19 $(BIN)/python tools/fuzz/run.py --seed 1 --seconds 10 >build/fuzz.log 2>&1 & fuzz=$$!; \
	trap "kill $$fuzz 2>/dev/null" EXIT; \
	$(BIN)/python -m pytest -m "not alone and not release" -n 3 --dist loadfile --durations=40; parallel=$$?; \
	wait $$fuzz; fuzzed=$$?; cat build/fuzz.log; \
	$(BIN)/python -m pytest -m "alone and not release" --durations=20 && exit $$((parallel | fuzzed))

quick: setup
	$(BIN)/python -m pytest -m "not alone and not records and not slow" -n 2 --dist loadfile -q

check: check-python check-rust

check-python: setup
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/python tools/lint_javascript.py
	$(BIN)/python tools/lint_workflows.py

check-rust:
	cargo fmt --all --check
	cargo fmt --manifest-path tools/fuzz/Cargo.toml --check
	cargo metadata --locked --format-version 1 --manifest-path tools/fuzz/Cargo.toml >/dev/null
	cargo clippy --workspace --all-targets --locked -j2 -- -D warnings

setup: $(VENV)/.installed

$(VENV)/.python: requirements.lock
	$(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --require-hashes -r requirements.lock
	touch $@

$(VENV)/.installed: $(VENV)/.python pyproject.toml $(RUST)
	$(BIN)/python -m pip install --quiet --no-deps --no-build-isolation --editable .
	touch $@

setup-run: setup
	@tools/system_packages.sh $(RUN_PACKAGES)

setup-test:
	@$(MAKE) --jobs=2 --no-print-directory setup test-packages
	@$(MAKE) --no-print-directory rust-targets

# Builds the tests of the crates.
rust-tests:
	cargo test --workspace --locked -j2 --no-run

rust-targets:
	@rustup target add $(WINDOWS) $(WITH_PDB) 2>/dev/null || echo "no Rust library for $(WINDOWS) or $(WITH_PDB): continuing without it"

test-packages:
	@tools/system_packages.sh $(TEST_PACKAGES)

lock: $(VENV)/.python
	$(BIN)/uv pip compile pyproject.toml --extra dev --universal --generate-hashes \
	  --no-emit-index-url --python-version 3.11 --custom-compile-command "make lock" \
	  --output-file requirements.lock

reference: setup
	$(BIN)/python tools/reference.py

notebook: setup
	$(BIN)/python tools/notebook.py

wheels: setup
	@tools/system_packages.sh x86_64-w64-mingw32-gcc:gcc-mingw-w64-x86-64-win32
	@rustup target add $(WINDOWS) 2>/dev/null || echo "no Rust library for $(WINDOWS): going on"
	$(BIN)/python tools/wheels.py
	$(BIN)/python -m pytest -m release

licenses: setup
	$(BIN)/python tools/licenses.py

sbom: setup
	$(BIN)/python tools/sbom.py

# One line says which data cannot be reached; REQUIRE=--require makes that a failure.
audit: setup
	$(BIN)/python tools/audit.py $(REQUIRE)

# TRACE_PROCESSOR=FILE names trace_processor_shell, or a Python program that takes a trace and SQL.
# LONG=1 takes half an hour instead of minutes. On a busy machine, docs/benchmarks.md is not written.
bench: setup-run
	$(BIN)/python benches/bench.py --write docs/benchmarks.md \
	  $(if $(TRACE_PROCESSOR),--trace-processor $(TRACE_PROCESSOR)) $(if $(LONG),--long)
	PYTHONPATH=tests:tests/support $(BIN)/python benches/questions.py

# Takes minutes; the figures in docs/scale.md are from it.
bench-fleet: setup
	PYTHONPATH=tests:tests/support $(BIN)/python benches/fleet.py

# Checks the load generator of the experiments against queueing theory.
experiments-check: setup
	$(BIN)/python benches/late_starts.py

# Checks the confidence intervals of the experiments on 1,000 synthetic experiments with known truth;
# the table in docs/statistics.md is from it.
statistics-check: setup
	PYTHONPATH=tests:tests/support $(BIN)/python tests/support/simulated_intervals.py

# Takes 20 minutes; the figures in docs/compare.md are from it. PAIRS=20 make compare-check is shorter.
compare-check: setup
	PYTHONPATH=tests/support $(BIN)/python tests/support/measure_alike.py --pairs $(or $(PAIRS),200)

# Run it after a change of the report or of the findings: the README shows both.
picture: setup
	$(BIN)/python tools/readme_picture.py

detectors: setup
	PYTHONPATH=tests:tests/support $(BIN)/python -m planted

what-if: setup
	PYTHONPATH=tests:tests/support $(BIN)/python -m planted.gains

# Those that record run one after the other, so this takes more than half an hour. FAULTS=5 make faults is shorter.
faults: setup-test
	FAULTS=$(or $(FAULTS),50) $(BIN)/python -m pytest tests/commands/test_analyze_faults.py \
	  tests/record/test_collect_faults.py

# 2,000 damaged recordings take hours: RUNS=2000 SEED=0 make damage. With LOG=FILE, a second call
# goes on where the first one stopped; use a new file for other sources.
damage: setup
	PYTHONPATH=tests:tests/support $(BIN)/python -m damage --workers 2 --runs $(or $(RUNS),200) \
	  --seed $(or $(SEED),0) --keep build/damage $(if $(LOG),--log $(LOG))

# SECONDS is the time of each target, HOURS that of all targets together.
fuzz: setup
	$(BIN)/python tools/fuzz/run.py $(if $(HOURS),--optimized --hours $(HOURS),--seconds $(or $(SECONDS),10))

# After long runs: adds what they found to the corpora in fixtures/fuzz.
fuzz-corpus: setup
	$(BIN)/python tools/fuzz/run.py --minimize

# Without coverage: cuts and changes bytes of whole recordings.
fuzz-bytes: setup
	SCHEDLENS_FUZZ_ROUNDS=20000 SCHEDLENS_FUZZ_ETL=1 $(BIN)/python -m pytest \
	  tests/decoders/test_perf_data_hostile.py tests/decoders/test_trace_dat_hostile.py \
	  tests/decoders/test_etl_hostile.py

# Tests that draw their inputs, with other ones than `make test` has.
fuzz-drawn: setup
	$(BIN)/python -m pytest --hypothesis-profile=others $$(grep -rl "^@given" tests)

clean:
	rm -rf $(VENV) build dist target *.egg-info
