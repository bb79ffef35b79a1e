#!/usr/bin/env python3
"""Measures Keyway against its peers.

examples:
  benchmarks/run.py                             everything, 9 rounds: about half an hour
  benchmarks/run.py --quick --only w1,w2        a first look, about a minute
  benchmarks/run.py --peers keyway,mutex_pool   only these two
  benchmarks/run.py --one-core                  and once more on one core
  benchmarks/run.py --before ../old/build/release/benchmarks --peers keyway,keyway_locks
                                                this build against an older one

Every run is a fresh process. The peers take turns within a round, and the order rotates from
round to round, so that a slow minute of the machine hits all of them. Compare by the column
"x keyway" ("x keyway_locks" in w5): the median of the ratios within one round. A run in which
the host stole too much time is repeated. C++ programs are taken from --bin-dir; the Go and Java
peers are built first.
"""

from __future__ import annotations

import argparse
import datetime
import json
import os
import platform
import shutil
import subprocess
import sys
from dataclasses import asdict, dataclass
from pathlib import Path

import bench_peers
import bench_report
from bench_peers import Peer
from bench_report import Column

MAX_STOLEN = 0.02
MAX_REPEATS = 2
RUN_TIMEOUT_SECONDS = 600


@dataclass(frozen=True)
class Workload:
    name: str
    title: str  # with {tasks} and {keys}
    tasks: int
    keys: int
    limit: int
    submitters: tuple[int, ...]
    metric: Column
    others: tuple[Column, ...] = ()
    baseline: str = "keyway"  # whom the others are compared with
    compared: tuple[tuple[str, str], ...] = ()  # a peer and another, in a line below the table
    submitter: str = "submitter"
    scales_keys: bool = False  # --quick also takes a tenth of the keys
    on_one_core: bool = False


NS_PER_TASK = Column("ns_per_task", "ns per task")
NS_PER_LOCK = Column("ns_per_lock", "ns per lock", 1)
WORKLOADS = (
    Workload("w1", "{tasks:,} no-op tasks over {keys:,} keys, limit 4", 1_000_000, 1_000, 4,
             (1, 2), NS_PER_TASK, on_one_core=True),
    Workload("w2", "{tasks:,} no-op tasks of one key, limit 1", 1_000_000, 1, 1,
             (1, 2), NS_PER_TASK, (Column("fifo", "FIFO"),),
             compared=(("keyway_serial", "asio_strand"),), on_one_core=True),
    Workload("w3", "{keys:,} keys, one no-op task each", 1_000_000, 1_000_000, 4,
             (1,), NS_PER_TASK, (Column("bytes_kept_per_key", "bytes kept per key"),),
             scales_keys=True),
    Workload("w4", "{tasks:,} tasks that sleep for 10 ms over {keys:,} keys, limit 10",
             10_000, 100, 10, (1,), Column("total_ms", "ms", 1), (Column("cold_ms", "cold ms", 1),),
             scales_keys=True),
    Workload("backlog", "{tasks:,} no-op tasks over {keys:,} keys, limit 4, queued then drained",
             1_000_000, 1_000, 4, (1,), NS_PER_TASK,
             (Column("bytes_per_waiting_task", "bytes per waiting task"),), on_one_core=True),
    Workload("w5", "{tasks:,} times lock and unlock, of {keys:,} random keys", 2_000_000, 1_000, 1,
             (1, 2), NS_PER_LOCK, baseline="keyway_locks", submitter="thread", on_one_core=True),
    Workload("w5", "{tasks:,} times lock and unlock, of one key", 2_000_000, 1, 1,
             (2, 4, 8), NS_PER_LOCK, baseline="keyway_locks", submitter="thread",
             on_one_core=True),
    Workload("w6", "round trip on an idle executor, {tasks:,} times", 20_000, 1, 1,
             (1,), Column("p50_ns", "p50 ns"),
             (Column("p90_ns", "p90 ns"), Column("p99_ns", "p99 ns"))),
)


@dataclass(frozen=True)
class Case:
    """A workload with a number of submitters, on all processors or on one."""

    workload: Workload
    submitters: int
    core: int | None
    tasks: int
    keys: int

    def title(self) -> str:
        text = self.workload.title.format(tasks=self.tasks, keys=self.keys)
        if len(self.workload.submitters) > 1:
            text += f"; {self.submitters} {self.workload.submitter}"
            text += "s" if self.submitters > 1 else ""
        if self.core is not None:
            text += "; on one core"
        return f"{self.workload.name}: {text}"

    def command(self, peer: Peer) -> list[str]:
        pin = [] if self.core is None else ["taskset", "-c", str(self.core)]
        sizes = {"submitters": self.submitters, "tasks": self.tasks, "keys": self.keys,
                 "limit": self.workload.limit}
        flags = [word for name, value in sizes.items() for word in (f"--{name}", str(value))]
        return [*pin, *peer.program, self.workload.name, *peer.options, *flags]


class RunFailed(Exception):
    """A program failed, or printed something else than its figures."""


def stolen_and_total_ticks() -> tuple[int, int]:
    with open("/proc/stat", encoding="ascii") as stat:
        ticks = [int(word) for word in stat.readline().split()[1:9]]
    return ticks[7], sum(ticks)


def run_once(command: list[str]) -> tuple[dict, float]:
    """The figures a program printed, and the share of time that the host stole meanwhile."""
    stolen_before, total_before = stolen_and_total_ticks()
    try:
        done = subprocess.run(command, capture_output=True, text=True, check=False,
                              timeout=RUN_TIMEOUT_SECONDS)
    except subprocess.TimeoutExpired as error:
        raise RunFailed(f"no result within {RUN_TIMEOUT_SECONDS} s") from error
    except OSError as error:
        raise RunFailed(str(error)) from error
    stolen_after, total_after = stolen_and_total_ticks()
    if done.returncode != 0:
        last = done.stderr.strip().splitlines()[:1] or ["no message"]
        raise RunFailed(f"exit code {done.returncode}: {last[0]}")
    try:
        figures = json.loads(done.stdout)
    except json.JSONDecodeError as error:
        raise RunFailed(f"not one line of JSON: {done.stdout[:80]!r}") from error
    return figures, (stolen_after - stolen_before) / max(1, total_after - total_before)


def measure(case: Case, peer: Peer, round_number: int) -> list[dict]:
    """All attempts of one run; the one with the least stolen time is the one that counts."""
    attempts = []
    for attempt in range(1 + MAX_REPEATS):
        figures, stolen = run_once(case.command(peer))
        attempts.append({"peer": peer.name, "round": round_number, "attempt": attempt,
                         "stolen": round(stolen, 4), "over_limit": stolen > MAX_STOLEN,
                         "counts": False, "figures": figures})
        if stolen <= MAX_STOLEN:
            break
    min(attempts, key=lambda run: run["stolen"])["counts"] = True
    return attempts


def takes_part(peer: Peer, round_number: int, options: argparse.Namespace) -> bool:
    """Java peers sit out most rounds, evenly spread: each of their runs takes many seconds."""
    if not peer.is_java:
        return True
    java_rounds = min(options.java_rounds, options.rounds)
    return round_number * java_rounds % options.rounds < java_rounds


def run_case(case: Case, peers: list[Peer], options: argparse.Namespace) -> dict:
    able = [peer for peer in peers if case.workload.name in peer.workloads]
    runs: list[dict] = []
    failures: dict[str, str] = {}
    for round_number in range(options.rounds):
        first = round_number % max(1, len(able))
        for peer in able[first:] + able[:first]:
            if peer.name in failures or not takes_part(peer, round_number, options):
                continue
            show_progress(f"{case.title()}: round {round_number + 1} of {options.rounds}, "
                          f"{peer.name}")
            try:
                runs += measure(case, peer, round_number)
            except RunFailed as failure:
                failures[peer.name] = str(failure)
    show_progress("")
    metric, others = case.workload.metric, list(case.workload.others)
    baseline = case.workload.baseline
    counting = [run for run in runs if run["counts"]]
    summaries = bench_report.summarize(
        counting, metric.figure, [column.figure for column in others], baseline)
    compared = [bench_report.compare(counting, metric.figure, peer, other)
                for peer, other in case.workload.compared]
    comparisons = [one for one in compared if one is not None]
    print(f"\n{case.title()}")
    if summaries:
        print(bench_report.table(summaries, metric, others, baseline))
    for comparison in comparisons:
        print(f"  {comparison}")
    for name, reason in failures.items():
        print(f"  FAILED {name}: {reason}")
    sys.stdout.flush()
    return {"title": case.title(), "workload": case.workload.name,
            "submitters": case.submitters, "keys": case.keys, "one_core": case.core is not None,
            "metric": metric.figure, "baseline": baseline,
            "summaries": [asdict(one) for one in summaries],
            "comparisons": [asdict(one) for one in comparisons], "failures": failures, "runs": runs}


def show_progress(text: str) -> None:
    if sys.stderr.isatty():
        width = shutil.get_terminal_size().columns - 1
        sys.stderr.write("\r\033[K" + text[:width])
        sys.stderr.flush()


def make_cases(options: argparse.Namespace) -> list[Case]:
    cores: list[int | None] = [None]
    if options.one_core:
        if shutil.which("taskset"):
            cores.append(min(os.sched_getaffinity(0)))
        else:
            print("SKIPPED the pass on one core: no taskset on the PATH")
    divisor = 10 if options.quick else 1
    cases = []
    for core in cores:
        for workload in WORKLOADS:
            if workload.name not in options.only or (core is not None and not workload.on_one_core):
                continue
            keys = workload.keys // divisor if workload.scales_keys else workload.keys
            submitters = workload.submitters if core is None else workload.submitters[:1]
            cases += [Case(workload, count, core, workload.tasks // divisor, keys)
                      for count in submitters]
    return cases


def machine() -> dict:
    model = ""
    with open("/proc/cpuinfo", encoding="utf-8") as info:
        for line in info:
            if line.startswith("model name"):
                model = line.split(":", 1)[1].strip()
                break
    return {"processor": model, "processors": len(os.sched_getaffinity(0)),
            "system": platform.platform(), "load": os.getloadavg()[0]}


def parse_options() -> argparse.Namespace:
    summary, _, details = __doc__.partition("\n\n")
    parser = argparse.ArgumentParser(description=summary, epilog=details,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    names = list(dict.fromkeys(workload.name for workload in WORKLOADS))
    parser.add_argument("--only", metavar="W,...", default=",".join(names),
                        help=f"workloads to run (default: {','.join(names)})")
    parser.add_argument("--peers", metavar="P,...", default=",".join(bench_peers.all_names()),
                        help=f"peers to run (default: {', '.join(bench_peers.all_names())})")
    parser.add_argument("--rounds", type=int, metavar="N",
                        help="rounds, one process per peer in each (default: 9; --quick: 3)")
    parser.add_argument("--java-rounds", type=int, default=3, metavar="N",
                        help="rounds in which the Java peers take part (default: 3)")
    parser.add_argument("--quick", action="store_true", help="3 rounds and a tenth of the tasks")
    parser.add_argument("--one-core", action="store_true",
                        help="a second pass of w1, w2, w5 and backlog, pinned to one core")
    parser.add_argument("--bin-dir", type=Path, default=Path("build/release/benchmarks"),
                        metavar="DIR", help="where the C++ programs are (default: %(default)s)")
    parser.add_argument("--before", type=Path, metavar="DIR",
                        help="the C++ programs of another build of Keyway, to compare with")
    parser.add_argument("--build-dir", type=Path, default=Path("build/bench-peers"), metavar="DIR",
                        help="where to build the Go and Java peers (default: %(default)s)")
    parser.add_argument("--json", type=Path, default=Path("build/bench.json"), metavar="FILE",
                        help="where to write all runs (default: %(default)s)")
    options = parser.parse_args()
    options.only = split_names(parser, "--only", options.only, names)
    options.peers = split_names(parser, "--peers", options.peers, bench_peers.all_names())
    if options.rounds is None:
        options.rounds = 3 if options.quick else 9
    if options.rounds < 1 or options.java_rounds < 1:
        parser.error("--rounds and --java-rounds are at least 1")
    return options


def split_names(parser: argparse.ArgumentParser, flag: str, text: str,
                known: list[str]) -> list[str]:
    names = [name for name in text.split(",") if name]
    unknown = [name for name in names if name not in known]
    if unknown or not names:
        parser.error(f"{flag}: not known: {', '.join(unknown)}; known are {', '.join(known)}")
    return names


def main() -> int:
    options = parse_options()
    found = bench_peers.find_peers(set(options.peers), options.bin_dir, options.build_dir,
                                   options.before)
    for name, reason in found.skipped.items():
        print(f"SKIPPED {name}: {reason}")
    report = {"started": datetime.datetime.now().astimezone().isoformat(timespec="seconds"),
              "machine": machine(), "versions": found.versions, "rounds": options.rounds,
              "java_rounds": options.java_rounds, "quick": options.quick,
              "skipped": found.skipped, "cases": []}
    interrupted = False
    try:
        for case in make_cases(options):
            if any(case.workload.name in peer.workloads for peer in found.peers):
                report["cases"].append(run_case(case, found.peers, options))
    except KeyboardInterrupt:
        interrupted = True
    options.json.parent.mkdir(parents=True, exist_ok=True)
    options.json.write_text(json.dumps(report, indent=1) + "\n", encoding="utf-8")
    print(f"\nall runs: {options.json}")
    if interrupted:
        return 130
    failed = any(case["failures"] for case in report["cases"])
    return 1 if failed or not found.peers else 0


if __name__ == "__main__":
    sys.exit(main())
