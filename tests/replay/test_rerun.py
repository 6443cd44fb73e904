"""The extension's replay and the scheduler simulation of the demo give the same schedule."""

from __future__ import annotations

from array import array
from collections.abc import Iterator
from typing import Any

import duckdb
import pytest
import reference_replay
import simulated
from planted import gain_truth, gains

from schedlens import _decoders
from schedlens.replay import alterations, programs, rerun
from schedlens.replay.recorded_programs import Recorded
from schedlens.replay.rerun import Outcome
from schedlens.simulate import cases

CHANGES = (
    "parking=off", "smt=off", "affinity *=any", "affinity *=0-3", "priority *=9", "qos *=eco",
    "qos *=high", "ideal *=5", "work *=-30%", "work *=-80%",
)  # fmt: skip


@pytest.fixture(scope="module")
def con(tmp_path_factory: pytest.TempPathFactory) -> Iterator[duckdb.DuckDBPyConnection]:
    """The cases of the demo, faulty and fixed, and planted faults with frames."""
    played = [
        (f"{case.name} {fixed}", case.play(fixed=fixed, seconds=1.3))
        for case in cases.CASES
        for fixed in (False, True)
    ]
    faults = ("parked_frames", "stutter_shared", "slow_presenter", "stutter_stranded")
    played += [(fault, gain_truth.play(fault, gains.FIRST_SEED)[0].simulation) for fault in faults]
    with simulated.simulated_database(tmp_path_factory.mktemp("rerun"), played) as con:
        yield con


def plain(outcome: Outcome) -> tuple[object, ...]:
    running = {
        utid: {kind: ns for kind, ns in spent.items() if ns}
        for utid, spent in outcome.running_ns.items()
    }
    return (
        {utid: found for utid, found in outcome.frames.items() if found},
        {utid: spent for utid, spent in running.items() if spent},
        {utid: ns for utid, ns in outcome.ready_ns.items() if ns},
    )


def is_equal(recorded: Recorded) -> bool:
    outcome = rerun.replay(recorded)
    assert outcome.running_ns
    return plain(outcome) == plain(reference_replay.replay(recorded))


@pytest.mark.parametrize("trace_id", range(1, 11))
def test_replay_equals_the_scheduler_simulation(
    con: duckdb.DuckDBPyConnection, trace_id: int
) -> None:
    recorded = programs.read(con, trace_id)
    assert (recorded.stranded_share > 0) == (trace_id == 10)
    assert is_equal(recorded)
    for number, text in enumerate(CHANGES):
        # Each recording with some of the changes: the simulation in Python is slow.
        if number % 3 == trace_id % 3:
            assert is_equal(alterations.changed(recorded, [alterations.parse(text)])), text


def test_thread_that_waits_first_has_not_run_for_it() -> None:
    # On three CPUs: one thread has CPU 0, one has CPU 1 for 1 ms, and one wakes at 5 ms.
    def step(*steps: tuple[bytes, float]) -> tuple[bytes, bytes, bytes]:
        kinds = b"".join(kind for kind, _ in steps)
        return kinds, array("d", [value for _, value in steps]).tobytes(), b""

    threads: Any = [
        (0, 8, [0, 1, 2], 0, False, step((b"r", 10e6))),
        (0, 8, [0, 1, 2], 1, False, step((b"r", 1e6))),
        (0, 8, [0, 1, 2], 0, False, step((b"u", 5e6), (b"r", 2e6), (b"s", 1e6))),
    ]
    rules: Any = {"quantum_ns": 10**7, "wake_boost": 0, "starved_ns": 10**9, "until_ns": 10**7}
    cpus = [(cpu, False, False, 1.0) for cpu in range(3)]
    found = _decoders.replay(cpus, 1.0, threads, [0], [], [], watched=[2], **rules)
    # The first idle CPU; beginning on the only idle one at 0 would make that its last one.
    assert found[2] == [[10**7, 0, 0], [0, 10**6, 0], [0, 2 * 10**6, 0]]
    # Nothing before its first wait, then 2 ms up to the next one, and nothing up to its end.
    assert found[4][2] == [0, 2 * 10**6, 0]


def test_invalid_programs_are_refused() -> None:
    cpus = [(0, False, False, 1.0)]
    rules: Any = {"quantum_ns": 1_000_000, "wake_boost": 0, "starved_ns": 10**9, "until_ns": 10**9}

    def run(thread: Any, on: Any = cpus) -> object:
        return _decoders.replay(on, 1.0, [thread], [0, 1], [], [], **rules)

    program = (b"r", bytes(8), b"")
    assert run((0, 8, [0], None, False, program))
    with pytest.raises(ValueError, match="thread 0 has no CPU to run on, or no priority"):
        run((0, 8, [1], None, False, program))
    with pytest.raises(ValueError, match="thread 0 has no CPU"):
        run((0, 32, [0], None, False, program))
    with pytest.raises(ValueError, match="thread 0 waits for or opens an unknown gate"):
        run((0, 8, [0], None, False, (b"w", b"\x00" * 6 + b"\x22\x40", b"")))
    with pytest.raises(ValueError, match="the machine has no CPU, or one without a speed"):
        run((0, 8, [0], None, False, program), [(0, False, False, float("nan"))])
    with pytest.raises(ValueError, match="a step has no value"):
        run((0, 8, [0], None, False, (b"rr", bytes(8), b"")))
    with pytest.raises(ValueError, match="unknown step 120"):
        run((0, 8, [0], None, False, (b"x", bytes(8), b"")))
