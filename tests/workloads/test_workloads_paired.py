"""Kernels that run alongside each other, and those that time requests and frames."""

from __future__ import annotations

import math
import os
import sys
from pathlib import Path

import pytest
from workloads.test_workloads import MULTIPLIER, recorded, run

pytestmark = pytest.mark.alone

WORD = 2**64 - 1


def test_second_kernel_has_its_own_numbers(tmp_path: Path) -> None:
    result = recorded(
        tmp_path, "imul3", "--threads", "2", "--alongside", "add1", "--alongside",
        "pointer_chase:shared", "--seconds", "0.05",
    )  # fmt: skip
    assert result["kernel"] == "imul3+add1+pointer_chase"
    found = [(worker["name"], worker["kernel"], worker["variant"]) for worker in result["workers"]]
    assert found == [
        ("imul3-00", "imul3", "default"), ("imul3-01", "imul3", "default"),
        ("add1-02", "add1", "default"), ("pointer_chas-03", "pointer_chase", "shared"),
    ]  # fmt: skip
    # Three chains each, a sum, and two proofs of the path through memory.
    assert [proof["ok"] for proof in result["proofs"]] == [True] * 9
    assert [worker["instructions_per_iteration"] for worker in result["workers"]] == [5, 5, 3, 3]


def test_cycles_are_time_times_the_clock_that_was_read(tmp_path: Path) -> None:
    missed: list[tuple[str, float, list[float | None]]] = []
    # Each batch counts in cycles of the nearest reading. A hypervisor that takes the CPU during a
    # few of them changes the cycles, but not the median of the readings: not three times in a row.
    for attempt in range(3):
        result = recorded(
            tmp_path / str(attempt), "imul3", "--threads", "2", "--alongside", "add1",
            "--alongside", "pointer_chase:shared", "--seconds", "0.05",
        )  # fmt: skip
        missed = []
        for worker in result["workers"]:
            read = [worker[f"core_ghz_{when}"] for when in ("before", "during", "after")]
            known = [value for value in read if value is not None]
            ghz = worker["core_cycles_per_iteration"] / worker["ns_per_iteration"]
            if not 0.95 * min(known) <= ghz <= 1.05 * max(known):
                missed.append((worker["name"], ghz, read))
        if not missed:
            return
    assert not missed


def test_warm_up_is_not_part_of_the_measured_interval(tmp_path: Path) -> None:
    short = ("--threads", "2", "--seconds", "0.05", "--warm-up", "0.3")
    for place, words in enumerate((("imul1",), ("spin_handoff", "--how", "park"), ("queue",))):
        result = recorded(tmp_path / str(place), *words, *short)
        assert result["options"]["warm_up_seconds"] == 0.3
        assert all(proof["ok"] for proof in result["proofs"])
        for worker in result["workers"]:
            assert worker["end_mono_ns"] - worker["start_mono_ns"] < 300_000_000


def splitmix64(state: int) -> int:
    """The output function of SplitMix64 (Steele, Lea, Flood 2014), of a 64-bit state."""
    state = (state ^ (state >> 30)) * 0xBF58476D1CE4E5B9 & WORD
    state = (state ^ (state >> 27)) * 0x94D049BB133111EB & WORD
    return state ^ (state >> 31)


def arrival_ns(requests: int, seed: int, mean_ns: float) -> float:
    """Intended arrival of the last of `requests` of worker 0, ns after the interval began."""
    state, arrived_ns = splitmix64(splitmix64((seed + MULTIPLIER) & WORD)), 0.0
    for _ in range(requests):
        state = (state + MULTIPLIER) & WORD
        uniform = ((splitmix64(state) >> 11) + 1) / 2**53
        arrived_ns -= math.log(uniform) * mean_ns
    return arrived_ns


def test_arrivals_do_not_depend_on_the_warm_up(tmp_path: Path) -> None:
    serving = ("serve", "--variant", "open", "--rate", "100", "--seed", "7", "--seconds", "0.2")
    for number, warm_up in enumerate(("0", "0.15")):
        result = recorded(tmp_path / str(number), *serving, "--warm-up", warm_up)
        counts = result["workers"][0]["counts"]
        # How many requests the last batch adds after the interval depends on the machine's speed;
        # when the n-th arrives does not. Monotonic time is added up in doubles, exact to ns.
        due_ns = arrival_ns(counts["requests"], 7, 1e9 / 100)
        assert counts["last_arrival_ns"] == pytest.approx(due_ns, abs=1_000)
        # Gaps of 10 ms on average: one request more or less is another arrival.
        assert abs(arrival_ns(counts["requests"] + 1, 7, 1e9 / 100) - due_ns) > 1_000


def test_pointer_chase_is_shared_or_private(tmp_path: Path) -> None:
    for variant in ("private", "shared"):
        place = tmp_path / variant
        result = recorded(
            place, "pointer_chase", "--variant", variant, "--threads", "2", "--seconds", "0.05"
        )
        nodes = [p["found"] for p in result["proofs"] if p["proof"].endswith("nodes in one cycle")]
        assert len(nodes) == 2
        assert len(set(nodes)) == 1


def test_every_request_is_in_the_histogram(tmp_path: Path) -> None:
    result = recorded(
        tmp_path, "serve", "--variant", "open", "--rate", "2000", "--how", "park", "--threads", "2",
        "--seconds", "0.3",
    )  # fmt: skip
    assert result["options"]["rate"] == 2000
    for worker in result["workers"]:
        counts, latency = worker["counts"], worker["latency"]
        assert sum(count for _, count in latency) == counts["requests"]
        assert [upper for upper, _ in latency] == sorted({upper for upper, _ in latency})
        assert counts["late_starts"] <= counts["requests"]
        # The worker is busy for at most the whole time.
        assert counts["busy_ns"] <= counts["interval_ns"]
        slowest = latency[-1][0]
        assert slowest <= counts["interval_ns"] * 65 / 64


def test_frame_takes_at_least_a_sixtieth_of_a_second(tmp_path: Path) -> None:
    result = recorded(tmp_path, "frame", "--how", "park", "--handoffs", "3", "--seconds", "0.3")
    main, partner = result["workers"]
    assert result["options"] == {
        "threads": 2, "seconds": 0.3, "warm_up_seconds": 0.0, "unit": "iterations", "how": "park",
        "handoffs": 3,
    }  # fmt: skip
    frames = sum(count for _, count in main["latency"])
    # A run may end late. The stamps of its interval are exact to a few us.
    took_ns = main["end_mono_ns"] - main["start_mono_ns"]
    assert 1 <= frames == main["counts"]["frames"] <= (took_ns + 5_000) * 60 / 1e9
    assert partner["latency"] is None


def test_kernel_that_must_run_alone_is_refused_alongside_another() -> None:
    done = run("run", "imul1", "--alongside", "spin_handoff")
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr == (
        "schedlens-workloads: run: --alongside: spin_handoff runs workers in pairs\n"
    )


def test_command_is_bound_and_its_exit_code_returned() -> None:
    cpu = max(os.sched_getaffinity(0))
    program = "import os, sys; print(os.sched_getaffinity(0)); sys.exit(3)"
    done = run("bind", "--cpu", str(cpu), "--", sys.executable, "-c", program)
    assert (done.returncode, done.stdout) == (3, f"{{{cpu}}}\n")
    done = run("bind", "--cpu", "60000", "--", sys.executable)
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr.startswith("schedlens-workloads: CPU 60000: ")
    done = run("bind", "--cpu", str(cpu), "--", "/no/such/program")
    assert done.returncode == 2
    assert done.stderr.startswith("schedlens-workloads: /no/such/program: No such file")
