"""A program with known stacks, recorded by perf: each callchain is what `perf script` reads."""

from __future__ import annotations

import json
import platform
import re
import shutil
import subprocess
from collections import Counter
from pathlib import Path
from typing import Any

import pytest
from conftest import needs_tracing
from decoded import decoded

import schedlens

pytestmark = pytest.mark.alone

# Each function has a frame pointer and its own frame; the system call needs no other library code.
PROGRAM = """
#include <time.h>
__attribute__((noinline)) long wait_here(void) {
    struct timespec t = {0, 2000000};
    long result = 35;
    __asm__ volatile("syscall" : "+a"(result) : "D"(&t), "S"(0L) : "rcx", "r11", "memory");
    return result;
}
__attribute__((noinline)) long take_job(void) { long done = wait_here(); return done + 1; }
__attribute__((noinline)) unsigned long spin_here(void) {
    struct timespec from, now;
    unsigned long rounds = 0;
    clock_gettime(CLOCK_MONOTONIC, &from);
    do {
        for (int n = 0; n < 1000; n++) { __asm__ volatile("" : "+r"(rounds)); rounds++; }
        clock_gettime(CLOCK_MONOTONIC, &now);
    } while ((now.tv_sec - from.tv_sec) * 1000000000L + now.tv_nsec - from.tv_nsec < 60000000L);
    return rounds;
}
int main(void) {
    long sum = 0;
    for (int n = 0; n < 20; n++) sum += take_job();
    return (int)((sum + (long)spin_here()) & 0);
}
"""
FLAGS = ("-O1", "-no-pie", "-fno-omit-frame-pointer", "-fno-optimize-sibling-calls")
EVENTS = (
    "-e",
    "sched:sched_switch/call-graph=fp/",
    "-e",
    "sched:sched_waking/call-graph=fp/",
    "-e",
    "cpu-clock/call-graph=fp,freq=999/",
)
HEAD = re.compile(
    r"^(\d+) (\d+) 0x[0-9a-f]+ \[0x[0-9a-f]+\]: PERF_RECORD_SAMPLE\(.*?\): -?\d+/(-?\d+):"
)
FRAME = re.compile(r"^\.+ +\d+: ([0-9a-f]{16})$")
MARKERS = {-128: "kernel", -512: "user"}

Key = tuple[int, int, int]
Chain = list[tuple[str | None, str]]


@pytest.fixture(scope="module")
def recorded(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Path]:
    """The program and its recording."""
    needs_tracing()
    compiler = shutil.which("cc") or shutil.which("gcc")
    if compiler is None:
        pytest.skip("no C compiler: the program with known stacks cannot be built")
    if platform.machine() != "x86_64":
        pytest.skip("the program with known stacks makes its system call in x86-64 assembly")
    folder = tmp_path_factory.mktemp("callchains")
    source, program, output = folder / "stacks.c", folder / "stacks", folder / "perf.data"
    source.write_text(PROGRAM)
    subprocess.run([compiler, *FLAGS, "-o", program, source], check=True)
    command = ["perf", "record", "-q", "-N", "-B", "-a", "-c", "1", "-k", "CLOCK_MONOTONIC"]
    subprocess.run([*command, *EVENTS, "-o", output, "--", program], check=True)
    return program, output


@pytest.fixture(scope="module")
def samples(recorded: tuple[Path, Path]) -> list[dict[str, Any]]:
    """Every sample with a callchain."""
    events = schedlens.events(recorded[1]).read_all().to_pylist()
    return [row for row in (flat(event) for event in events) if row["chain"] is not None]


def flat(event: dict[str, Any]) -> dict[str, Any]:
    """The event with its callchain as one list of context and address."""
    parts = json.loads(event["fields"] or "{}").get("callchain")
    chain = None
    if parts is not None:
        chain = [(part["context"], address) for part in parts for address in part["addresses"]]
    return {**event, "chain": chain}


def read_by_perf(file: Path) -> dict[Key, list[Chain]]:
    """CPU, time, and thread of each sample with the chains of `perf script -D`."""
    command = ["perf", "script", "-D", "-i", str(file)]
    text = subprocess.run(command, capture_output=True, text=True, check=True).stdout
    found: dict[Key, list[Chain]] = {}
    chain: Chain | None = None
    context: str | None = None
    for line in text.splitlines():
        if head := HEAD.match(line):
            chain, context = [], None
            cpu, clock, tid = map(int, head.groups())
            found.setdefault((cpu, clock, tid), []).append(chain)
        elif chain is not None and (frame := FRAME.match(line)):
            word = int(frame[1], 16)
            if word >= 2**64 - 4095:
                # A frame pointer that is none leads to any value, also to one of an unknown marker.
                context = MARKERS.get(word - 2**64)
            else:
                chain.append((context, f"{word:#x}"))
        elif not line.startswith("..."):
            chain = None
    return found


def test_each_callchain_equals_that_of_perf_script(
    recorded: tuple[Path, Path], samples: list[dict[str, Any]]
) -> None:
    start = decoded(recorded[1])["trace"]["start_clock"][0].as_py()
    ours: dict[Key, list[Chain]] = {}
    for row in samples:
        key = (row["cpu"], start + row["ts_ns"], row["tid"])
        ours.setdefault(key, []).append(row["chain"])
    theirs = read_by_perf(recorded[1])
    assert len(ours) > 40
    assert ours.keys() == theirs.keys()
    differing = {
        key: (chains, theirs[key])
        for key, chains in ours.items()
        if sorted(map(repr, chains)) != sorted(map(repr, theirs[key]))
    }
    assert differing == {}


def test_the_frames_are_those_of_the_program(
    recorded: tuple[Path, Path], samples: list[dict[str, Any]]
) -> None:
    nm = shutil.which("nm")
    if nm is None:
        pytest.skip("no nm: the program's functions have no known addresses")
    listed = subprocess.run([nm, "-n", recorded[0]], capture_output=True, text=True, check=True)
    lines = [line.split() for line in listed.stdout.splitlines()]
    starts = [(int(line[0], 16), line[2]) for line in lines if len(line) == 3]

    def names(chain: Chain) -> list[str]:
        """The program's own functions, innermost first."""
        addresses = [int(address, 16) for context, address in chain if context == "user"]
        inside = [at for at in addresses if starts[0][0] <= at <= starts[-1][0]]
        return [[name for start, name in starts if start <= at][-1] for at in inside]

    sleeps = [row for row in samples if names(row["chain"])[:1] == ["wait_here"]]
    switches = [row for row in sleeps if row["name"] == "sched_switch"]
    stacks = Counter(tuple(names(row["chain"])[:3]) for row in switches)
    # Where a thread is preempted before it has made its frame, its caller is missing.
    assert stacks[("wait_here", "take_job", "main")] >= 18
    assert set(stacks) <= {("wait_here", "take_job", "main"), ("wait_here", "main")}
    assert {row["chain"][0][0] for row in switches} == {"kernel"}
    spins = [names(row["chain"]) for row in samples if "spin_here" in names(row["chain"])]
    assert len(spins) >= 10
    below = Counter(found[found.index("spin_here") + 1] for found in spins if found[-1] == "main")
    assert below.most_common(1)[0][0] == "main"
