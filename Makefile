# `make demo` and `make test` are all that a newcomer needs; both install what is missing (scripts/ensure-deps.sh).
SHELL := /bin/bash
.SHELLFLAGS := -eu -o pipefail -c
.DEFAULT_GOAL := help
# A toolchain that stands beside the system's programs is found too.
export PATH := $(PATH):/opt/swift/usr/bin

# The interpreter of the system's packages, which need not be the first on PATH.
PYTHON := $(firstword $(wildcard /usr/bin/python3) python3)
SECONDS ?= 60
BUDGET ?= 50000
# The shares that `make test` does of what is done in full by `make crashtest` and `make simulate`.
TEST_BUDGET ?= 500
# Every how many changes, and every how many writes and syncs.
TEST_KILL_STEP ?= 40
TEST_FAULT_STEP ?= 60
SEEDS ?= 10000
ROUNDS ?= 1
TEST_SEEDS ?= 2000
# Tests that run at once: more only make each one late, and what waits for a deadline fails.
TEST_WIDTH ?= 4
SWIFT_PATHS := $(wildcard Package.swift Sources Tests benchmarks/Package.swift benchmarks/Sources benchmarks/Benchmarks \
	fuzz/Package.swift fuzz/Sources crashtest/Package.swift crashtest/Sources)

.PHONY: help demo test build lint format bench fuzz crashtest sanitize delays simulate docs-vectors check-vectors

help:
	@echo 'make demo                imports real conversations and AI streams, verifies all, syncs two devices with a hub, says how fast'
	@echo 'make test                builds and runs all tests'
	@echo 'make lint                swift format, strict'
	@echo 'make format              swift format, in place'
	@echo 'make bench               measures beside other stores (benchmarks/)'
	@echo 'make fuzz SECONDS=60     fuzzes the decoders, so long each (fuzz/)'
	@echo 'make crashtest BUDGET=N  checks N states that a crash may leave (crashtest/)'
	@echo 'make sanitize            the tests of the libraries under the thread and the address sanitizer'
	@echo 'make delays ROUNDS=N     all tests while tasks and calls are delayed at random (Tests/delays/)'
	@echo 'make simulate SEEDS=N    a hub and devices in N worlds where everything goes wrong (docs/SIMULATION.md)'
	@echo 'make docs-vectors        writes docs/vectors anew and has them read by an independent decoder'

demo:
	@scripts/ensure-deps.sh build
	@scripts/demo.sh

# The crash states and the simulated worlds come first, so that the test runner has the last word.
test:
	@scripts/ensure-deps.sh test
	swift build --build-tests
	$(PYTHON) scripts/check-vectors.py
	crashtest/run.sh $(TEST_BUDGET)
	crashtest/run.sh kill $(TEST_KILL_STEP)
	crashtest/run.sh faults $(TEST_FAULT_STEP)
	swift build -c release --product simulate
	.build/release/simulate --seeds $(TEST_SEEDS)
	SWIFT_BACKTRACE=enable=no SWT_EXPERIMENTAL_MAXIMUM_PARALLELIZATION_WIDTH=$(TEST_WIDTH) scripts/run-tests.sh

build:
	@scripts/ensure-deps.sh build
	swift build -c release --product convstore

lint:
	@scripts/ensure-deps.sh swift
	swift format lint --strict --parallel --recursive $(SWIFT_PATHS)

format:
	@scripts/ensure-deps.sh swift
	swift format --in-place --parallel --recursive $(SWIFT_PATHS)

bench:
	@scripts/ensure-deps.sh build
	benchmarks/run.sh

fuzz:
	@scripts/ensure-deps.sh build
	fuzz/run.sh $(SECONDS)

crashtest:
	@scripts/ensure-deps.sh build
	crashtest/run.sh $(BUDGET)

# Each in a build of its own. Some tests wait for others: fewer at once than otherwise. A fault of Foundation is passed over by its name, and programs and worlds
# of tests end without giving all back: that a closed store does, LifetimeTests say.
SANITIZED = SWIFT_BACKTRACE=enable=no SWT_EXPERIMENTAL_MAXIMUM_PARALLELIZATION_WIDTH=2 \
	ASAN_OPTIONS=detect_leaks=0:suppressions=$(CURDIR)/scripts/address-sanitizer.txt swift test --skip-build --disable-xctest
sanitize:
	@scripts/ensure-deps.sh test
	for sanitizer in thread address; do \
		swift build --build-tests --sanitize=$$sanitizer --scratch-path .build/$$sanitizer && \
		$(SANITIZED) --sanitize=$$sanitizer --scratch-path .build/$$sanitizer || exit 1; \
	done

# What a busy machine does now and then, all the time.
delays:
	@scripts/ensure-deps.sh test
	swift build --build-tests
	Tests/delays/run.sh --rounds $(ROUNDS)

# A seed that fails is printed with the command that runs it again. A million of them, a night's work: make simulate SEEDS=1000000.
simulate:
	@scripts/ensure-deps.sh build
	swift build -c release --product simulate
	.build/release/simulate --seeds $(SEEDS)

# The bytes are our encoder's; that they say what docs/FORMAT.md and docs/PROTOCOL.md claim is for check-vectors.py to find.
docs-vectors:
	@scripts/ensure-deps.sh test
	CONVSTORE_WRITE_VECTORS=docs/vectors swift test --filter "FormatVectorTests|FrameVectorTests"
	$(PYTHON) scripts/check-vectors.py

check-vectors:
	@scripts/ensure-deps.sh test
	$(PYTHON) scripts/check-vectors.py
