#!/usr/bin/env python3
"""Runs the tests against each bug that the preset `bite` has planted, and prints which of them find it.

  bite.py [--bin-dir build/bite] [--jobs N] [bug...]
  bite.py --keep [--bin-dir build/bite] bug...

Each bug is looked for in three ways: by the seeded schedules, by the interleaving explorer, and by all other tests of
the bug's room and of the rooms that build on it. Each way ends with the first test that fails, crashes or hangs, and
does so again when it is run alone. The tests are first run without a bug: they must pass, and their times tell when a
test hangs. The output of each run is in <bin-dir>/logs. The exit status is 1 if a bug is not found, or if a test fails
without one.

Of some bugs the explorer's schedule is kept as a test (tests/explore/kept_schedules.h). It is replayed with the bug, and
must find it; if it does not, the exit status is 1 too. --keep lets the explorer find these bugs again, in the test that
the schedule belongs to if there is one, and writes the schedules.
"""

import argparse
import concurrent.futures
import os
import re
import resource
import select
import signal
import subprocess
import sys
import time
from pathlib import Path

ROOMS = ["base", "lanes", "runtime", "groups", "serial", "locks", "stream"]  # a room uses only those before it
SCHEDULE_ROOMS = ["groups", "serial", "locks", "stream"]
SCHEDULES = "*Schedules.*"
SCHEDULES_PER_PART = 2000
# A test hangs if it takes so much longer than without a bug, in seconds without any output.
HANG_SECONDS = 10
HANG_FACTOR = 5
FIRST_RUN_SECONDS = 300
CHANCE_FAILURES = 3  # of tests that pass when they are run alone
KEPT_SCHEDULES = Path(__file__).parent.parent / "explore" / "kept_schedules.h"
KEPT_LINE = re.compile(r'^    \{"(.*)", "(.*)", "(.*)", (\d+)\},\n', re.MULTILINE)


class Run:
    """A test program, run until its first failure."""

    def __init__(self, program, test_filter, bug, allowed, repeat=1, schedule=None):
        environment = {name: value for name, value in os.environ.items() if not name.startswith("KEYWAY_")}
        environment["KEYWAY_SCHEDULES"] = str(SCHEDULES_PER_PART)
        if bug is not None:
            environment["KEYWAY_BUG"] = bug
        if schedule is not None:
            environment["KEYWAY_REPLAY"] = schedule
        arguments = [program, f"--gtest_filter={test_filter}", f"--gtest_repeat={repeat}", "--gtest_color=no"]
        if bug is not None:
            arguments.append("--gtest_fail_fast")
        process = subprocess.Popen(arguments, env=environment, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                                   stderr=subprocess.STDOUT, start_new_session=True)
        self.failed = None  # the test
        self.how = ""
        self.output = ""
        test, rest, left = "the start", "", FIRST_RUN_SECONDS
        while True:
            if not select.select([process.stdout], [], [], 1)[0]:
                left -= 1
                if left > 0:
                    continue
                os.killpg(process.pid, signal.SIGKILL)
                self.failed, self.how = test, "hang"
                break
            data = os.read(process.stdout.fileno(), 65536).decode(errors="replace")
            if not data:
                break
            self.output += data
            *lines, rest = (rest + data).split("\n")
            for line in lines:
                if match := re.match(r"\[ RUN      \] (\S+)", line):
                    test = match[1]
                    left = allowed(test)
                elif match := re.match(r"\[  FAILED  \] ([^\s,]+).* \(\d+ ms\)$", line):
                    self.failed = self.failed or match[1]
        process.stdout.close()
        if process.wait() != 0 and self.failed is None:
            self.failed, self.how = test, "crash"


def program(bin_dir, name):
    return str(bin_dir / "bin" / f"keyway_{name}_tests")


def ways(bin_dir, rooms):
    """Which programs to run, with which filters."""
    return {
        "schedules": [(program(bin_dir, room), SCHEDULES) for room in rooms if room in SCHEDULE_ROOMS],
        "explorer": [(program(bin_dir, "explore"), "-Explorer.*")],
        "tests": [(program(bin_dir, room), f"-{SCHEDULES}:*WithAPlantedBug.*") for room in rooms],
    }


def kept_schedules():
    """Of each bug that has one: its test, its schedule, and after how many interleavings it was found."""
    return {bug: (test, schedule, int(after)) for bug, test, schedule, after in
            KEPT_LINE.findall(KEPT_SCHEDULES.read_text())}


def replays(bin_dir, bug, kept):
    """Whether the kept schedule finds the bug."""
    test, schedule, _ = kept
    return Run(program(bin_dir, "explore"), test, bug, lambda _: FIRST_RUN_SECONDS, schedule=schedule).failed is not None


def keep(bin_dir, bugs):
    """Explores the bugs and writes the schedules. Gives the exit status."""
    all_kept = kept_schedules()
    for bug in bugs:
        test_filter = all_kept[bug][0] if bug in all_kept else "-Explorer.*"
        run = Run(program(bin_dir, "explore"), test_filter, bug, lambda _: FIRST_RUN_SECONDS)
        match = re.search(r"after (\d+) interleavings.*?KEYWAY_REPLAY=(\S+) .*?--gtest_filter=(\S+)", run.output, re.DOTALL)
        if match is None:
            print(f"{bug}: the explorer does not find it with --gtest_filter={test_filter}")
            return 1
        all_kept[bug] = (match[3], match[2], int(match[1]) + 1)
        print(f"{bug}: {match[3]}, {match[2]}, found after {int(match[1]) + 1:,} interleavings")
    head, begin, rest = KEPT_SCHEDULES.read_text().partition("kKeptSchedules[] = {\n")
    lines = "".join(f'    {{"{bug}", "{test}", "{schedule}", {after}}},\n'
                    for bug, (test, schedule, after) in sorted(all_kept.items()))
    KEPT_SCHEDULES.write_text(head + begin + lines + KEPT_LINE.sub("", rest))
    return 0


class Search:
    """One bug, looked for in one way."""

    def __init__(self, way, runs, bug, bin_dir, allowed):
        self.way = way
        self.found = None
        began = time.monotonic()
        with (bin_dir / "logs" / f"{bug or 'none'}-{way}.log").open("w") as log:
            for program, test_filter in runs:
                failure = self.first_failure(program, test_filter, bug, allowed, log)
                self.found = self.found or failure
                if self.found is not None and bug is not None:
                    break
        self.seconds = time.monotonic() - began

    @staticmethod
    def first_failure(program, test_filter, bug, allowed, log):
        for _ in range(CHANCE_FAILURES + 1):
            run = Run(program, test_filter, bug, allowed)
            log.write(run.output)
            if run.failed is None or bug is None:
                return run if run.failed else None
            # A test that has failed by chance, for want of time, has not found the bug.
            again = Run(program, run.failed, bug, allowed, repeat=10)
            log.write(again.output)
            if again.failed is not None:
                return run
            test_filter += (":" if "-" in test_filter else "-") + run.failed
        return None

    def text(self):
        """How many schedules or interleavings it took, if that is known."""
        if self.found is None:
            return "-"
        effort = {"schedules": r"KEYWAY_SEED=(\d+)", "explorer": r"after (\d+) interleavings"}.get(self.way)
        match = re.search(effort, self.found.output) if effort else None
        if match is None:
            return self.found.how or "yes"
        return f"{int(match[1]) + 1:,}"  # both begin with 0


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--bin-dir", type=Path, default=Path("build/bite"), help="where the preset was built")
    parser.add_argument("--jobs", type=int, default=os.cpu_count(), help="how many programs run at once")
    parser.add_argument("--keep", action="store_true", help="write the explorer's schedules of these bugs")
    parser.add_argument("bugs", nargs="*", help="default: all")
    options = parser.parse_args()
    planted = [line.split("\t") for line in (options.bin_dir / "bugs.tsv").read_text().splitlines()]
    unknown = set(options.bugs) - {name for name, _, _ in planted}
    if unknown:
        parser.error(f"no such bug: {', '.join(sorted(unknown))}")
    wanted = [bug for bug in planted if not options.bugs or bug[0] in options.bugs]
    if options.keep:
        return keep(options.bin_dir, options.bugs)
    kept = kept_schedules()
    (options.bin_dir / "logs").mkdir(exist_ok=True)
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))  # of the programs that crash
    began = time.monotonic()

    with concurrent.futures.ThreadPoolExecutor(options.jobs) as pool:
        def search(bug, rooms, allowed):
            return {way: pool.submit(Search, way, runs, bug, options.bin_dir, allowed)
                    for way, runs in ways(options.bin_dir, rooms).items()}

        times = {}
        healthy = True
        for way, future in search(None, ROOMS, lambda test: FIRST_RUN_SECONDS).items():
            found = future.result().found
            log = options.bin_dir / "logs" / f"none-{way}.log"
            if found is not None:
                print(f"Without a bug, {found.failed} fails: see {log}")
                healthy = False
            for test, milliseconds in re.findall(r"\[       OK \] (\S+) \((\d+) ms\)", log.read_text()):
                times[test] = int(milliseconds) / 1000
        print(f"Without a bug, {len(times)} tests pass in {time.monotonic() - began:.0f} s.", flush=True)

        def allowed(test):
            return HANG_SECONDS + HANG_FACTOR * times.get(test, 0)

        searches = []
        replayed = {}
        for name, file, _ in wanted:
            room = file.split("/")[1]
            rooms = ROOMS[ROOMS.index(room):] if room in ROOMS else ROOMS
            searches.append(search(name, rooms, allowed))
            if name in kept:
                replayed[name] = pool.submit(replays, options.bin_dir, name, kept[name])
        name_width, file_width = (max(len(bug[i]) for bug in wanted) for i in (0, 1))

        def print_row(name, file, schedules, explorer, kept_one, tests, seconds, found_by):
            print(f"{name:{name_width}}  {file:{file_width}}  {schedules:>9}  {explorer:>8}  {kept_one:>5}  {tests:>5}  "
                  f"{seconds:>7}  {found_by}", flush=True)

        print_row("bug", "where", "schedules", "explorer", "kept", "tests", "seconds", "found by")
        missed = []
        stale = []
        for (name, file, _), futures in zip(wanted, searches):
            results = [future.result() for future in futures.values()]
            finders = [result.found.failed for result in results if result.found is not None]
            if not finders:
                missed.append(name)
            kept_one = "-"
            if name in replayed:
                kept_one = "yes" if replayed[name].result() else "no"
                if kept_one == "no":
                    stale.append(name)
            by_schedules, by_explorer, by_tests = (result.text() for result in results)
            print_row(name, file, by_schedules, by_explorer, kept_one, by_tests,
                      f"{sum(result.seconds for result in results):.0f}", finders[0] if finders else "NOTHING")
    print(f"{len(wanted) - len(missed)} of {len(wanted)} bugs found, in {time.monotonic() - began:.0f} s. A number: how many "
          "schedules or interleavings it took; kept: whether the kept schedule finds it.")
    if stale:
        print(f"Kept schedules that do not find their bugs any more; write new ones: bite.py --keep {' '.join(stale)}")
    return 1 if missed or stale or not healthy else 0


if __name__ == "__main__":
    sys.exit(main())
