"""A time that does not fit its neighbors is reported as a problem and a gap."""

from __future__ import annotations

import random
import struct
from pathlib import Path
from typing import Any

import etl_bytes
import pyarrow as pa
import pytest
import recording_writer
from damage.perf_file import PerfFile
from damage.stream import Plan
from decoded import decoded
from fixture_files import fixture

NO_FIT = "a record whose time does not fit those around it: left out"
HOUR_NS = 3_600_000_000_000
# Switches of a buffer, one every 100 us, at 10 MHz.
A_BUFFER, STEP = 20, 1_000
CPUS, BUFFERS = 2, 5


def _times(cpu: int, number: int) -> list[int]:
    """Raw times of the switches in a buffer of a CPU."""
    first = etl_bytes.START + 5_000 + number * A_BUFFER * STEP + 300 * cpu
    return [first + at * STEP for at in range(A_BUFFER)]


def _log(changes: dict[tuple[int, int, int], int], **header: Any) -> bytes:
    """Two CPUs with five buffers each; `changes`: times of records by CPU, buffer and place."""
    buffers = []
    for number in range(BUFFERS):
        for cpu in range(CPUS):
            times = _times(cpu, number)
            records = [
                etl_bytes.switch(changes.get((cpu, number, at), ts), 0 if at % 2 else 80 + cpu,
                                 80 + cpu if at % 2 else 0)
                for at, ts in enumerate(times)
            ]  # fmt: skip
            sequence = 1 + number * CPUS + cpu
            buffers.append(etl_bytes.Buffer(records, cpu=cpu, sequence=sequence))
    return etl_bytes.Log(buffers, cpus=CPUS, **header).encoded()


def _ns(raw: int | None) -> int | None:
    return None if raw is None else (raw - etl_bytes.START) * 100


def _rows(tables: dict[str, pa.Table], table: str) -> list[dict[str, Any]]:
    return tables[table].to_pylist() if table in tables else []


def _window(tables: dict[str, pa.Table]) -> tuple[int, int]:
    trace = tables["trace"]
    return trace["first_ns"][0].as_py(), trace["duration_ns"][0].as_py()


def _gaps(tables: dict[str, pa.Table]) -> list[tuple[int | None, int | None, int | None]]:
    return [
        (row["cpu"], row["start_ns"], row["end_ns"])
        for row in _rows(tables, "loss") if row["signalled_by"] == "damaged"
    ]  # fmt: skip


def _left_out(tables: dict[str, pa.Table]) -> int:
    return sum(row["count"] for row in _rows(tables, "problem") if row["what"] == NO_FIT)


# More than a day, minutes, 5 ms; in both directions.
SHIFTS = [29_027_037 * 10_000_000, HOUR_NS // 100, 50_000, -50_000, -HOUR_NS // 100]


@pytest.mark.parametrize("shift", SHIFTS)
@pytest.mark.parametrize("place", [(1, 2, 7), (0, 0, 2), (1, 2, A_BUFFER - 1), (0, 3, 0)])
def test_damaged_etl_time_is_a_gap_on_its_cpu(
    place: tuple[int, int, int], shift: int, tmp_path: Path
) -> None:
    cpu, number, at = place
    stream = [ts for buffer in range(BUFFERS) for ts in _times(cpu, buffer)]
    where = number * A_BUFFER + at
    whole, trace = tmp_path / "whole.etl", tmp_path / "damaged.etl"
    whole.write_bytes(_log({}))
    trace.write_bytes(_log({place: stream[where] + shift}))
    tables, undamaged = decoded(trace), decoded(whole)
    assert _window(tables) == _window(undamaged)
    assert _left_out(tables) == 1
    assert _gaps(tables) == [(cpu, _ns(stream[where - 1]), _ns(stream[where + 1]))]
    switches = tables["context_switch"].num_rows
    assert switches == undamaged["context_switch"].num_rows - 1 == CPUS * BUFFERS * A_BUFFER - 1


@pytest.mark.parametrize("closed", [True, False])
@pytest.mark.parametrize("shift", SHIFTS[:2])
def test_damaged_last_etl_time_does_not_lengthen_recording(
    *, closed: bool, shift: int, tmp_path: Path
) -> None:
    times = _times(1, BUFFERS - 1)
    header = {} if closed else {"end_time": 0}
    whole, trace = tmp_path / "whole.etl", tmp_path / "damaged.etl"
    whole.write_bytes(_log({}, **header))
    trace.write_bytes(_log({(1, BUFFERS - 1, A_BUFFER - 1): times[-1] + shift}, **header))
    tables = decoded(trace)
    last = _times(1, BUFFERS - 1)[-2] if closed else times[-2]
    assert _window(tables) == (0, max(_ns(last) or 0, _ns(_times(0, BUFFERS - 1)[-1]) or 0))
    assert _left_out(tables) == 1
    assert (1, _ns(times[-2]), None) in _gaps(tables)


@pytest.mark.parametrize("shift", [-86_400 * 10_000_000, 86_400 * 10_000_000])
def test_damaged_header_time_does_not_shift_recording(shift: int, tmp_path: Path) -> None:
    trace = tmp_path / "damaged.etl"
    trace.write_bytes(_log({}, start=etl_bytes.START + shift))
    tables = decoded(trace)
    # Counted from the earliest record, whose wall time is unknown.
    length = (_times(1, BUFFERS - 1)[-1] - _times(0, 0)[0]) * 100
    assert _window(tables) == (0, length)
    assert tables["trace"]["start_time_utc"][0].as_py() is None
    assert _left_out(tables) == 1


@pytest.mark.parametrize("shift", [-30_000, 600_000_000])
def test_etl_clock_step_neither_crashes_nor_lengthens_recording(shift: int, tmp_path: Path) -> None:
    # CPU 1 from its third buffer on.
    changes = {
        (1, number, at): ts + shift
        for number in range(2, BUFFERS)
        for at, ts in enumerate(_times(1, number))
    }
    trace = tmp_path / "stepped.etl"
    trace.write_bytes(_log(changes, end_time=etl_bytes.START_TIME + 700_000_000))
    tables = decoded(trace)
    first, last = _window(tables)
    assert first == 0
    assert last <= 70_000_000_000
    if shift < 0:
        # Time that occurs twice is unknown on this CPU.
        assert [gap for gap in _gaps(tables) if gap[0] == 1]
        ts = [row["ts"] for row in _rows(tables, "context_switch") if row["cpu"] == 1]
        assert ts == sorted(ts)


def test_wall_clock_change_does_not_affect_etl_times(tmp_path: Path) -> None:
    # The header says 0.1 ms, the records say 10 ms: none of them is damaged.
    trace = tmp_path / "set.etl"
    trace.write_bytes(_log({}, end_time=etl_bytes.START_TIME + 1_000))
    tables = decoded(trace)
    assert _left_out(tables) == 0
    assert tables["context_switch"].num_rows == CPUS * BUFFERS * A_BUFFER


def _perf(tmp_path_factory: pytest.TempPathFactory) -> tuple[bytes, dict[str, pa.Table]]:
    path = fixture("host_plain", tmp_path_factory)
    return path.read_bytes(), decoded(path)


def _switches(tables: dict[str, pa.Table]) -> dict[int, list[int]]:
    """Times of the switches of each CPU."""
    found: dict[int, list[int]] = {}
    for row in _rows(tables, "context_switch"):
        found.setdefault(row["cpu"], []).append(row["ts"])
    return found


def _damaged(content: bytes, old: int, new: int) -> bytes | None:
    """The file with another time in one record; None unless the old time occurs exactly once."""
    before, after = struct.pack("<Q", old), struct.pack("<Q", new)
    return content.replace(before, after) if content.count(before) == 1 else None


@pytest.mark.parametrize("shift", [20 * 24 * HOUR_NS, HOUR_NS, 50_000_000, -50_000_000, -HOUR_NS])
def test_damaged_perf_time_is_a_gap_on_its_cpu(
    shift: int, tmp_path: Path, tmp_path_factory: pytest.TempPathFactory
) -> None:
    content, whole = _perf(tmp_path_factory)
    start = whole["trace"]["start_clock"][0].as_py()
    dice = random.Random(shift)
    trace = tmp_path / "damaged.perf.data"
    tried = 0
    streams = [(cpu, times) for cpu, times in _switches(whole).items() if len(times) > 10]
    for _ in range(30):
        cpu, times = dice.choice(streams)
        at = dice.randrange(1, len(times) - 1)
        changed = _damaged(content, start + times[at], start + times[at] + shift)
        if changed is None:
            continue
        tried += 1
        trace.write_bytes(changed)
        tables = decoded(trace)
        assert _window(tables) == _window(whole), (cpu, at)
        assert _left_out(tables) == 1, (cpu, at)
        gaps = _gaps(tables)
        assert {gap[0] for gap in gaps} == {cpu}
        # One gap at its position in the file, and one at its time, if that is in the recording.
        ends = [(begin, end) for _, begin, end in gaps if begin is not None and end is not None]
        here = [(a, b) for a, b in ends if times[at - 1] <= a <= times[at] <= b <= times[at + 1]]
        there = [(a, b) for a, b in ends if a <= times[at] + shift <= b]
        is_within = times[0] <= times[at] + shift <= times[-1]
        assert here, gaps
        assert bool(there) or not is_within
        assert len(gaps) <= 2
        # The PERF_RECORD_SWITCH pair may show the same switch.
        seen = {row["ts"] for row in _rows(tables, "context_switch")}
        assert (
            not seen
            - {ts for stream in _switches(whole).values() for ts in stream}
            - {ts + more for ts in times[at : at + 1] for more in range(-20_000, 20_000)}
        )
        assert times[at] + shift not in seen
    assert tried >= 10


def _two_cpus(tmp_path: Path, switches: int, every_ns: int) -> Path:
    """A perf.data of two CPUs with that many switches each."""
    machine = {"cpus": [{"cpu": cpu, "core": cpu, "l2": cpu, "l3": 0} for cpu in range(2)]}
    lines = [
        {"ts": 1_000 + every_ns * at + 50_000 * cpu, "cpu": cpu, "event": "switch",
         "old": 0 if at % 2 else 100 + cpu, "new": 100 + cpu if at % 2 else 0}
        for at in range(switches) for cpu in range(2)
    ]  # fmt: skip
    whole = tmp_path / "whole.perf.data"
    recording_writer.write({"machine": machine}, lines, perf=whole)
    return whole


@pytest.mark.parametrize("late", [True, False])
def test_damaged_end_of_perf_stream_does_not_lengthen_recording(
    *, late: bool, tmp_path: Path
) -> None:
    # Two CPUs, a switch every 100 us each; the last or the first record of CPU 1 is damaged.
    whole = _two_cpus(tmp_path, 50, 100_000)
    tables = decoded(whole)
    start = tables["trace"]["start_clock"][0].as_py()
    times = _switches(tables)[1]
    at = -1 if late else 0
    shift = HOUR_NS if late else -start // 2
    assert abs(shift) > 10_000_000_000
    changed = _damaged(whole.read_bytes(), start + times[at], start + times[at] + shift)
    assert changed is not None
    trace = tmp_path / "damaged.perf.data"
    trace.write_bytes(changed)
    damaged = decoded(trace)
    first, last = _window(damaged)
    assert last - first <= 50 * 100_000
    assert _left_out(damaged) == 1
    [(cpu, _, _)] = _gaps(damaged)
    assert cpu == 1
    assert damaged["context_switch"].num_rows == 99


def _drawn(tmp_path: Path) -> PerfFile:
    """Two CPUs that switch every 2 ms, 200 switches each, in chunks of 8 records."""
    whole = _two_cpus(tmp_path, 200, 2_000_000)
    return PerfFile(whole.read_bytes(), 0, records_per_chunk=(8, 8))


def _with(file: PerfFile, plan: Plan, tmp_path: Path) -> dict[str, pa.Table]:
    """The tables of a file with a plan applied."""
    trace = tmp_path / "damaged.perf.data"
    trace.write_bytes(file.damaged(plan, 3))
    return decoded(trace)


def _problems(tables: dict[str, pa.Table]) -> set[str]:
    return {row["what"] for row in _rows(tables, "problem")}


@pytest.mark.parametrize(
    ("plan", "problem"),
    [
        (Plan(reordered=True), None),
        (Plan(repeated={5}), "records that are in the file twice: left out once"),
        (Plan(repeated=set(range(3, 40))), None),
    ],
    ids=["reordered", "one chunk twice", "most chunks twice"],
)
def test_unordered_records_are_sorted_and_duplicates_dropped(
    plan: Plan, problem: str | None, tmp_path: Path
) -> None:
    file = _drawn(tmp_path)
    whole, tables = decoded(tmp_path / "whole.perf.data"), _with(file, plan, tmp_path)
    for table in ("context_switch", "sched_slice", "thread_state_other", "cpu_state_other"):
        mine, other = (sorted(map(str, _rows(found, table))) for found in (tables, whole))
        assert mine == other, table
    assert _gaps(tables) == []
    assert problem is None or problem in _problems(tables)


def test_clock_that_jumps_back_is_a_gap_to_the_end(tmp_path: Path) -> None:
    file = _drawn(tmp_path)
    whole = _switches(decoded(tmp_path / "whole.perf.data"))
    chunk = next(chunk for chunk in file.chunks if chunk.cpu == 1 and chunk.sequence == 10)
    tables = _with(file, Plan(steps=[(chunk.number, -21_300_000)]), tmp_path)
    before = 9 * 8
    assert _switches(tables) == {0: whole[0], 1: whole[1][:before]}
    assert _gaps(tables) == [(1, whole[1][before - 1], None)]
    assert "the clock went back and stayed there: its later records are left out" in _problems(
        tables
    )


@pytest.mark.parametrize("step_ns", [HOUR_NS, 21_300_000, -21_300_000])
def test_step_of_all_clocks_leaves_records_before_it_unchanged(
    step_ns: int, tmp_path: Path
) -> None:
    file = _drawn(tmp_path)
    whole = _switches(decoded(tmp_path / "whole.perf.data"))
    first = [
        next(chunk for chunk in file.chunks if chunk.cpu == cpu and chunk.sequence == 10)
        for cpu in range(2)
    ]
    tables = _with(file, Plan(steps=[(chunk.number, step_ns) for chunk in first]), tmp_path)
    before = 9 * 8
    after = (
        {} if step_ns < 0 else {cpu: [ts + step_ns for ts in whole[cpu][before:]] for cpu in whole}
    )
    expected = {cpu: whole[cpu][:before] + after.get(cpu, []) for cpu in whole}
    assert _switches(tables) == expected
    # What was recorded twice by the clock is unknown; a step forward is a time without records.
    ends = [(cpu, whole[cpu][before - 1], None) for cpu in whole]
    assert _gaps(tables) == (ends if step_ns < 0 else [])


def test_time_in_the_past_makes_that_moment_unknown_too(tmp_path: Path) -> None:
    # Either the time is wrong or the record belongs there: both stretches are unknown.
    file = _drawn(tmp_path)
    times = _switches(decoded(tmp_path / "whole.perf.data"))[1]
    chunk = next(chunk for chunk in file.chunks if chunk.cpu == 1 and chunk.sequence == 10)
    own = chunk.records[4].ticks or 0
    tables = _with(file, Plan(stamps=[(chunk.number, 4, own - 30_000_000)]), tmp_path)
    at = 9 * 8 + 4
    assert sorted(_gaps(tables), key=str) == sorted(
        [(1, times[at - 15], times[at - 15]), (1, times[at - 1], times[at + 1])], key=str
    )
    assert _left_out(tables) == 1


def test_undamaged_recordings_have_no_damaged_time(
    tmp_path_factory: pytest.TempPathFactory,
) -> None:
    for name in ("host_plain", "switch_only", "counters", "zstd", "pipe", "plain"):
        assert _left_out(decoded(fixture(name, tmp_path_factory))) == 0, name
