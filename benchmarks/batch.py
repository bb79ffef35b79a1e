#!/usr/bin/env python3
"""Runs many `true` commands by keyway batch, xargs and GNU parallel, by turns, and compares jobs per second.

usage: batch.py [--keyway PATH] [--jobs N] [--at-once N] [--rounds N]

Peers that are not here are named in SKIPPED lines. GNU parallel is the slowest by far, and runs a fifth of the jobs.
"""
import argparse
import json
import os
import shutil
import statistics
import subprocess
import sys
import tempfile
import time


def timed(command, **options):
    before = time.monotonic()
    subprocess.run(command, check=True, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, **options)
    return time.monotonic() - before


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--keyway", default="build/release/bin/keyway", help="the program (%(default)s)")
    parser.add_argument("--jobs", type=int, default=10_000, help="how many commands (%(default)s)")
    parser.add_argument("--at-once", type=int, default=os.cpu_count(), help="how many at once (%(default)s)")
    parser.add_argument("--rounds", type=int, default=3, help="how often each (%(default)s)")
    options = parser.parse_args()
    at_once, jobs = str(options.at_once), options.jobs

    with tempfile.TemporaryDirectory(prefix="keyway-batch-bench-") as folder:
        path = os.path.join(folder, "jobs.jsonl")
        with open(path, "w") as file:
            for i in range(jobs):
                file.write(json.dumps({"id": str(i), "group": f"g{i % 16}", "cmd": ["true"]}) + "\n")
        words = os.path.join(folder, "words")
        with open(words, "w") as file:
            file.writelines(f"{i}\n" for i in range(jobs))
        few = os.path.join(folder, "few")
        with open(few, "w") as file:
            file.writelines(f"{i}\n" for i in range(jobs // 5))

        def keyway():
            return jobs / timed([options.keyway, "batch", path, "--fresh", "-q", "-j", at_once, "--limit", at_once])

        def xargs():
            with open(words) as file:
                return jobs / timed(["xargs", "-P", at_once, "-n", "1", "true"], stdin=file)

        def parallel():
            with open(few) as file:
                return jobs // 5 / timed(["parallel", "-j", at_once, "true"], stdin=file)

        peers = {"keyway batch": keyway}
        for name, program, run in (("xargs", "xargs", xargs), ("GNU parallel", "parallel", parallel)):
            if shutil.which(program):
                peers[name] = run
            else:
                print(f"SKIPPED {name}: {program} is not installed")
        rates = {name: [] for name in peers}
        for _ in range(options.rounds):
            for name, run in peers.items():
                rates[name].append(run())

    print(f"{jobs:,} times `true`, {at_once} at once; jobs per second, median of {options.rounds} rounds")
    for name, values in rates.items():
        ratios = [ours / theirs for ours, theirs in zip(rates["keyway batch"], values)]
        print(f"  {name:<14} {statistics.median(values):>8,.0f}   {min(values):,.0f} - {max(values):,.0f}"
              f"   keyway is {statistics.median(ratios):.2f} times as fast")


if __name__ == "__main__":
    sys.exit(main())
