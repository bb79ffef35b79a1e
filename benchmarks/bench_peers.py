"""Which peers there are, and which of them can run here."""

from __future__ import annotations

import functools
import glob
import os
import re
import shutil
import subprocess
from dataclasses import dataclass, field
from pathlib import Path

HERE = Path(__file__).resolve().parent
OLDEST_JDK = 21  # the first with virtual threads

ALL_TASKS = ("w1", "w2", "w3", "w4", "backlog", "w6")
NO_BLOCKING = ("w1", "w2", "w3", "backlog", "w6")

LOCKS = ("w5",)

# name, program, workloads, what to do when the program is missing
CPP_PEERS = (
    ("keyway", "keyway_bench", ALL_TASKS, "build the target keyway_bench"),
    ("keyway_post", "keyway_bench", ALL_TASKS, "build the target keyway_bench"),
    ("keyway_coroutine", "keyway_bench", ("w4",), "build the target keyway_bench"),
    ("keyway_serial", "serial_bench", ("w1", "w2", "w6"), "build the target serial_bench"),
    ("keyway_locks", "locks_bench", LOCKS, "build the target locks_bench"),
    ("mutex_pool", "mutex_pool", ALL_TASKS, "build the target mutex_pool"),
    ("asio_strand", "asio_strand", ALL_TASKS, "it needs Boost 1.81 when CMake configures"),
    ("tbb_arena", "tbb_arena", NO_BLOCKING, "it needs oneTBB when CMake configures"),
    ("tbb_flow", "tbb_flow", NO_BLOCKING, "it needs oneTBB when CMake configures"),
    ("striped_64", "mutex_locks", LOCKS, "build the target mutex_locks"),
    ("striped_1024", "mutex_locks", LOCKS, "build the target mutex_locks"),
    ("mutex_map", "mutex_locks", LOCKS, "build the target mutex_locks"),
    ("mutex_map_freeing", "mutex_locks", LOCKS, "build the target mutex_locks"),
    ("tbb_accessor", "tbb_locks", LOCKS, "it needs oneTBB when CMake configures"),
    ("tbb_accessor_erasing", "tbb_locks", LOCKS, "it needs oneTBB when CMake configures"),
)
GO_PEERS = {"go_goroutine": ALL_TASKS, "go_lane": ALL_TASKS, "go_lock_map": LOCKS}
JAVA_PEERS = {"java_three_layer": ALL_TASKS, "java_plain": ALL_TASKS, "java_lock_map": LOCKS}
COLLECTORS = {"g1": "-XX:+UseG1GC", "parallel": "-XX:+UseParallelGC"}


@dataclass(frozen=True)
class Peer:
    name: str
    program: tuple[str, ...]  # what stands before the workload on the command line
    options: tuple[str, ...]  # what stands after it
    workloads: tuple[str, ...]
    is_java: bool = False


@dataclass
class Found:
    peers: list[Peer] = field(default_factory=list)
    skipped: dict[str, str] = field(default_factory=dict)  # name -> reason
    versions: dict[str, str] = field(default_factory=dict)  # of the tools that were found


def all_names() -> list[str]:
    java = [f"{name}_{collector}" for name in JAVA_PEERS for collector in COLLECTORS]
    return [peer[0] for peer in CPP_PEERS] + list(GO_PEERS) + java


def find_peers(wanted: set[str], bin_dir: Path, build_dir: Path, before: Path | None) -> Found:
    """Finds the C++ programs, and builds the Go and Java peers that are wanted. `before`: the
    programs of another build of Keyway, which take part as keyway_before and so on."""
    found = Found()
    for name, program, workloads, _ in CPP_PEERS if before is not None else ():
        if name not in wanted or not name.startswith("keyway"):
            continue
        path = before / program
        if os.access(path, os.X_OK):
            found.peers.append(Peer(f"{name}_before", (str(path.resolve()),), ("--peer", name),
                                    workloads))
        else:
            found.skipped[f"{name}_before"] = f"no program {path}"
    for name, program, workloads, remedy in CPP_PEERS:
        if name not in wanted:
            continue
        path = bin_dir / program
        if os.access(path, os.X_OK):
            found.peers.append(Peer(name, (str(path.resolve()),), ("--peer", name), workloads))
        else:
            found.skipped[name] = f"no program {path} ({remedy})"
    if wanted.intersection(GO_PEERS):
        _add_go_peers(found, wanted, build_dir)
    if any(name.startswith("java_") for name in wanted):
        _add_java_peers(found, wanted, build_dir)
    return found


def _add_go_peers(found: Found, wanted: set[str], build_dir: Path) -> None:
    program = build_dir.resolve() / "go_peers"
    go = shutil.which("go")
    if go is None:
        reason = "no go on the PATH"
    else:
        build_dir.mkdir(parents=True, exist_ok=True)
        reason = _run_build([go, "build", "-o", str(program), "."], HERE / "peers" / "go")
        found.versions["go"] = _first_line([go, "version"])
    for name, workloads in GO_PEERS.items():
        if name not in wanted:
            continue
        if reason:
            found.skipped[name] = reason
        else:
            found.peers.append(Peer(name, (str(program),), ("--peer", name), workloads))


def _add_java_peers(found: Found, wanted: set[str], build_dir: Path) -> None:
    classes = build_dir.resolve() / "java"
    jdk, reason = find_jdk()
    if jdk is not None:
        classes.mkdir(parents=True, exist_ok=True)
        folder = HERE / "peers" / "java"
        sources = sorted(path.name for path in folder.glob("*.java"))
        reason = _run_build([str(jdk / "bin" / "javac"), "-d", str(classes), *sources], folder)
        found.versions["java"] = _first_line([str(jdk / "bin" / "java"), "-version"])
    for base, workloads in JAVA_PEERS.items():
        for collector, flag in COLLECTORS.items():
            name = f"{base}_{collector}"
            if name not in wanted:
                continue
            if reason:
                found.skipped[name] = reason
                continue
            program = (str(jdk / "bin" / "java"), flag, "-cp", str(classes), "PeerMain")
            found.peers.append(Peer(name, program, ("--peer", name), workloads, is_java=True))


def find_jdk() -> tuple[Path | None, str]:
    """A JDK with virtual threads, or None and why there is none."""
    homes = [Path(os.environ["JAVA_HOME"])] if os.environ.get("JAVA_HOME") else []
    javac = shutil.which("javac")
    if javac:
        homes.append(Path(javac).resolve().parent.parent)
    installed = [Path(path) for path in glob.glob("/usr/lib/jvm/*")]
    homes += sorted(installed, key=_jdk_version, reverse=True)
    for home in homes:
        if _jdk_version(home) >= OLDEST_JDK:
            return home, ""
    newest = max((_jdk_version(home) for home in homes), default=0)
    seen = f"the newest found is {newest}" if newest else "none found"
    return None, f"no JDK {OLDEST_JDK} or later in JAVA_HOME, PATH or /usr/lib/jvm ({seen})"


@functools.cache
def _jdk_version(home: Path) -> int:
    """25 for JDK 25; 0 if there is no compiler."""
    javac = home / "bin" / "javac"
    if not os.access(javac, os.X_OK):
        return 0
    match = re.search(r"javac (\d+)", _first_line([str(javac), "-version"]))
    return int(match.group(1)) if match else 0


def _first_line(command: list[str]) -> str:
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    lines = (done.stdout + done.stderr).splitlines()
    return lines[0] if lines else ""


def _run_build(command: list[str], folder: Path) -> str:
    """Why the build failed, or nothing."""
    done = subprocess.run(command, cwd=folder, capture_output=True, text=True, check=False)
    if done.returncode == 0:
        return ""
    lines = (done.stderr + done.stdout).strip().splitlines()
    return f"{Path(command[0]).name} failed: {lines[0] if lines else done.returncode}"
