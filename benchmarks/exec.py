#!/usr/bin/env python3
"""Runs `true` under keyway exec, flock and GNU sem, by turns, and compares what each adds to the bare command.

usage: exec.py [--keyway PATH] [--commands N] [--rounds N]

Peers that are not here are named in SKIPPED lines. GNU sem is the slowest by far, and runs a twentieth of the commands.
All have one slot, which is always free.
"""
import argparse
import os
import shutil
import statistics
import sys
import tempfile
import time


def microseconds(argv):
    before = time.monotonic()
    pid = os.posix_spawn(argv[0], argv, os.environ)
    _, state = os.waitpid(pid, 0)
    if state != 0:
        sys.exit(f"exec.py: {' '.join(argv)} ended with {os.waitstatus_to_exitcode(state)}")
    return (time.monotonic() - before) * 1e6


def one_round(peers, commands):
    """The median time of each peer's commands; they alternate one by one, so that all see the same machine."""
    times = {name: [] for name in peers}
    for i in range(commands):
        for name, (argv, every) in peers.items():
            if i % every == 0:
                times[name].append(microseconds(argv))
    return {name: statistics.median(values) for name, values in times.items()}


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--keyway", default="build/release/bin/keyway", help="the program (%(default)s)")
    parser.add_argument("--commands", type=int, default=400, help="how many in a round (%(default)s)")
    parser.add_argument("--rounds", type=int, default=9, help="how often each (%(default)s)")
    options = parser.parse_args()
    bare = [shutil.which("true")]

    with tempfile.TemporaryDirectory(prefix="keyway-exec-bench-") as folder:
        os.environ["PARALLEL_HOME"] = folder  # where sem keeps its state
        # What each runs, and in which of how many turns.
        peers = {"bare": (bare, 1),
                 "keyway exec": ([options.keyway, "exec", "--key", "bench", "--state", folder, "--"] + bare, 1)}
        for name, program, arguments, every in (
                ("flock", "flock", [os.path.join(folder, "lock")], 1),
                ("GNU sem", "sem", ["--fg", "--id", f"keyway-bench-{os.getpid()}", "-j", "1"], 20)):
            if shutil.which(program):
                peers[name] = ([shutil.which(program)] + arguments + bare, every)
            else:
                print(f"SKIPPED {name}: {program} is not installed")
        rounds = [one_round(peers, options.commands) for _ in range(options.rounds)]

    alone = [times["bare"] for times in rounds]
    print(f"`true` alone takes {statistics.median(alone):,.0f} us ({min(alone):,.0f} - {max(alone):,.0f});"
          f" added to it, in us, median of {options.rounds} rounds")
    added = {name: [times[name] - times["bare"] for times in rounds] for name in peers if name != "bare"}
    for name, values in added.items():
        ratios = [ours / theirs for ours, theirs in zip(added["keyway exec"], values)]
        print(f"  {name:<12} {statistics.median(values):>9,.0f}   {min(values):,.0f} - {max(values):,.0f}"
              f"   keyway adds {statistics.median(ratios):.3f} times as much"
              f" ({min(ratios):.3f} - {max(ratios):.3f})")


if __name__ == "__main__":
    sys.exit(main())
