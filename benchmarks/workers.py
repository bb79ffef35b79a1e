#!/usr/bin/env python3
"""A million lines through `keyway run --worker` with a worker that does nothing, and where the time goes.

usage: workers.py [--keyway PATH] [--worker PATH] [--lines N] [--jobs N...] [--rounds N]

Keys are drawn by a power law: the busiest has about a third of the lines, and its lines go one after the other. Beside it
`cat` through a pipe, record by record, is not a peer but the least there is: two switches between processes each.
Where perf is installed, one more run is profiled.
"""
import argparse
import collections
import os
import random
import shutil
import statistics
import subprocess
import sys
import tempfile
import time


def make_lines(path, lines):
    random.seed(1)
    with open(path, "w") as file:
        for number in range(1, lines + 1):
            user = min(int(random.paretovariate(0.5)), 10000)
            file.write(f'{{"order":{number},"user":"u{user}","amount":{number % 999},"note":"{"x" * 40}"}}\n')


def round_trips(count):
    """How many times a second a line goes to a process and back."""
    cat = subprocess.Popen([shutil.which("cat")], stdin=subprocess.PIPE, stdout=subprocess.PIPE, bufsize=0)
    to, back = cat.stdin.fileno(), cat.stdout.fileno()
    line = b"x" * 150 + b"\n"
    before = time.monotonic()
    for _ in range(count):
        os.write(to, line)
        os.read(back, 4096)
    seconds = time.monotonic() - before
    cat.stdin.close()
    cat.wait()
    return count / seconds


def command(options, source, jobs):
    return [options.keyway, "run", source, "--key", ".user", "--worker", "-j", str(jobs), "--fresh", "-q",
            "--", options.worker, "ok"]


def profile(options, source, jobs, folder):
    data = os.path.join(folder, "perf.data")
    recorded = subprocess.run(["perf", "record", "-F", "1000", "-o", data] + command(options, source, jobs),
                              stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    if recorded.returncode != 0:
        print("SKIPPED profile: perf may not record here")
        return
    text = subprocess.run(["perf", "report", "-i", data, "--stdio", "--no-children", "-F", "overhead,comm,dso"],
                          capture_output=True, text=True).stdout
    shares = collections.Counter()
    for line in text.splitlines():
        words = line.split()
        if len(words) < 3 or not words[0].endswith("%"):
            continue
        program = "keyway" if words[1].startswith("keyway") and "worker" not in words[1] else "the workers"
        where = "in the kernel" if words[2].startswith("[kernel") else "in their own code"
        shares[f"{program} {where}"] += float(words[0][:-1])
    print(f"  profile with {jobs} workers: " + ", ".join(f"{name} {share:.0f} %" for name, share in shares.most_common()))


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--keyway", default="build/release/bin/keyway", help="the program (%(default)s)")
    parser.add_argument("--worker", default="build/release/src/handlers/keyway_worker_probe", help="%(default)s")
    parser.add_argument("--lines", type=int, default=1_000_000, help="(%(default)s)")
    parser.add_argument("--jobs", type=int, nargs="+", default=[1, 4, 16], help="(%(default)s)")
    parser.add_argument("--rounds", type=int, default=3, help="how often each (%(default)s)")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="keyway-workers-bench-") as folder:
        source = os.path.join(folder, "orders.jsonl")
        make_lines(source, options.lines)
        print(f"{options.lines:,} lines of {os.path.getsize(source) // options.lines} bytes")
        for jobs in options.jobs:
            rates, least = [], []
            for _ in range(options.rounds):
                least.append(round_trips(50_000))
                before = time.monotonic()
                if subprocess.run(command(options, source, jobs)).returncode != 0:
                    sys.exit("workers.py: keyway run failed")
                rates.append(options.lines / (time.monotonic() - before))
            ratio = statistics.median(rate / bare for rate, bare in zip(rates, least))
            print(f"  {jobs:2} workers: {statistics.median(rates):,.0f} records/s ({min(rates):,.0f} to"
                  f" {max(rates):,.0f}), {ratio:.2f} times the bare round trips of one process")
        if shutil.which("perf"):
            profile(options, source, options.jobs[-1], folder)
        else:
            print("SKIPPED profile: perf is not installed")


if __name__ == "__main__":
    main()
