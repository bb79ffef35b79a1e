# The command menu. Each command prepares what it needs and can be called first.

PREFIX ?= /usr/local
JOBS ?= $(shell nproc)

presets := dev release clang asan tsan
cxx_files = find $(wildcard include src examples tests benchmarks) \( -name '*.h' -o -name '*.cc' \) -type f
tidy_files = find src examples -name '*.cc' ! -name '*_test.cc' ! -path '*/schedules/*' -type f

# The rooms that everything else stands on; all their code is shared by threads.
core_rooms := lanes runtime groups serial locks stream
bite_rooms := base $(core_rooms)
space := $(subst ,, )

began := $(shell date +%s)
say_time = @echo "make $@: passed in $$(( ($$(date +%s) - $(began)) / 60 )) min $$(( ($$(date +%s) - $(began)) % 60 )) s"

.PHONY: help run test check check-core explore bite bench fmt docs install clean
.PHONY: setup-build setup-bite setup-check setup-bench check-fmt check-tidy
.PHONY: build-clang build-bite test-shared test-core-asan test-core-tsan
.PHONY: $(presets:%=test-%)
.NOTPARALLEL:

help:  ## print this menu
	@echo 'make <command>'
	@sed -n 's/^\([a-z-]*\):.*  ## /  \1\t/p' $(MAKEFILE_LIST) | expand -t 14
	@echo 'Set JOBS=n to build and test with n processes (now $(JOBS)).'

sample = build/sample
bill = build/release/bin/keyway run $(sample)/orders.jsonl --key .user -j 8 --backoff 100ms..500ms \
  --report $(sample)/report.html

run: setup-build  ## build the release and bill a sample of orders with it: stopped half-way, then resumed
	cmake --preset release
	cmake --build --preset release -j $(JOBS) --target keyway_program
	mkdir -p $(sample)
	examples/make_orders.sh 2000 > $(sample)/orders.jsonl
	@echo 'The first run gets a Ctrl-C after two seconds.'
	timeout --foreground --signal=INT 2 $(bill) --fresh -- examples/bill.sh || test $$? -eq 124
	@echo 'The second goes on where it was. A few orders can never be billed: status 1, and that is right here.'
	$(bill) -- examples/bill.sh || test $$? -eq 1
	build/release/bin/keyway dead list $(sample)/orders.jsonl.keyway

test: setup-build test-dev  ## build and run all tests: the check before every commit

# For as long as the test that changes a limit all the time: ten seconds.
check: export KEYWAY_LIMIT_CHANGES ?= 10000
check: setup-check test-dev explore test-shared test-asan test-tsan test-clang bite check-fmt check-tidy  ## test, also under sanitizers and clang; a million interleavings; shared libraries; planted bugs; format; clang-tidy
	$(say_time)

check-core: setup-check build-clang test-core-asan test-core-tsan  ## build all with clang; the core rooms' tests under sanitizers
	$(say_time)

# It fails unless there were that many.
explore: export KEYWAY_INTERLEAVINGS ?= 1000000
explore: setup-build  ## run the interleaving explorer for a million interleavings, counted per component
	cmake --preset dev
	cmake --build --preset dev -j $(JOBS) --target keyway_explore_tests
	build/dev/tests/explore/keyway_explore_tests --gtest_brief=1

bite: setup-bite build-bite  ## plant bugs in a copy of the library and print which tests find each
	python3 tests/bite/bite.py --jobs $(JOBS)

bench: setup-bench  ## build the release and measure it against its peers
	cmake --preset release -DKEYWAY_BUILD_BENCHMARKS=ON
	cmake --build --preset release -j $(JOBS) --target benchmarks/all
	python3 benchmarks/run.py --bin-dir build/release/benchmarks
	build/release/benchmarks/fairness_bench
	build/release/benchmarks/waits_bench
	build/release/benchmarks/stream_bench table
	build/release/benchmarks/stream_bench speed --records 50000000 --rounds 1
	build/release/benchmarks/stream_bench speed --records 5000000 --rounds 7
	build/release/benchmarks/stream_bench stuck
	build/release/benchmarks/source_bench
	cmake --build --preset release -j $(JOBS) --target keyway_program
	benchmarks/batch.py
	benchmarks/exec.py
	cmake --build --preset release -j $(JOBS) --target keyway_worker_probe
	benchmarks/workers.py

fmt: setup-check  ## format all C++ files
	$(cxx_files) -exec clang-format-19 -i {} +

docs: setup-build  ## write docs/ anew from the commands' descriptions
	cmake --preset release
	cmake --build --preset release -j $(JOBS) --target keyway_program
	for command in run batch exec dead config; do \
	  build/release/bin/keyway man $$command --markdown > docs/keyway-$$command.md; done

install: setup-build  ## build the release and install it to PREFIX (/usr/local)
	cmake --preset release
	cmake --build --preset release -j $(JOBS) --target keyway_installable
	cmake --install build/release --prefix $(PREFIX)

clean:  ## remove all build output
	rm -rf build

setup-build setup-bite setup-check setup-bench: setup-%:
	@scripts/setup.sh $*

$(presets:%=test-%): test-%:
	cmake --preset $*
	cmake --build --preset $* -j $(JOBS)
	ctest --preset $* -j $(JOBS) --output-on-failure

# The installed package with shared libraries; every other preset tests it with static ones.
test-shared:
	cmake --preset shared
	cmake --build --preset shared -j $(JOBS) --target keyway_installable
	ctest --preset shared -j $(JOBS) --output-on-failure -L '^package$$'

build-clang:
	cmake --preset clang
	cmake --build --preset clang -j $(JOBS)

build-bite:
	cmake --preset bite
	cmake --build --preset bite -j $(JOBS) --target $(bite_rooms:%=keyway_%_tests) keyway_explore_tests

test-core-asan test-core-tsan: test-core-%:
	cmake --preset $*
	cmake --build --preset $* -j $(JOBS) --target $(core_rooms:%=keyway_%_tests)
	ctest --preset $* -j $(JOBS) --output-on-failure -L '^($(subst $(space),|,$(core_rooms)))$$'

check-fmt:
	$(cxx_files) -exec clang-format-19 --dry-run -Werror {} +

# On the compile commands of the clang preset, which test-clang makes.
check-tidy:
	$(tidy_files) -print0 | xargs -0 -n 1 -P $(JOBS) clang-tidy-19 -p build/clang --quiet
