"""What only Windows records, against the schedule that was written: planned switch-ins, counters,
parking, classes, loss, frames; and the same schedule in every layout of the file."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from decoded import decoded
from random_schedule import Line, RandomSchedule, machine_cpus
from recording_writer import write

US = 1_000
Rows = list[tuple[Any, ...]]


def read(folder: Path, head: Line, lines: list[Line]) -> dict[str, pa.Table]:
    """The tables of a schedule written as .etl."""
    path = folder / "drawn.etl"
    write(head, lines, path)
    return decoded(path)


def columns(table: pa.Table, names: str) -> Rows:
    """Rows of these columns."""
    picked = names.replace(",", " ").split()
    return [tuple(row[name] for name in picked) for row in table.to_pylist()]


def names(tables: dict[str, pa.Table]) -> dict[int | None, int | None]:
    """Each thread's tid by utid; the idle threads are 0."""
    return {None: None, **dict(columns(tables["thread"], "utid tid"))}


def slices(tables: dict[str, pa.Table]) -> Rows:
    """Slices by time: tid, cpu, start, length, priority, end, ready, wait, waker."""
    who = names(tables)
    wanted = "utid cpu ts dur priority end_reason ready_ns wait_ns waker_utid is_idle"
    found = [
        (who[utid], *rest[:7], who[rest[7]])
        for utid, *rest, is_idle in columns(tables["sched_slice"], wanted)
        if not is_idle
    ]
    return sorted(found, key=lambda row: (row[2], row[1]))


def expected(schedule: RandomSchedule) -> Rows:
    """The same of the schedule."""
    found = [
        (s.tid, s.cpu, s.ts, s.dur, s.priority, s.end_reason, s.ready_ns, s.wait_ns,
         0 if isinstance(s.waker, tuple) else s.waker)
        for s in schedule.slices
    ]  # fmt: skip
    return sorted(found, key=lambda row: (row[2], row[1]))


LAYOUTS: dict[str, Line] = {
    "plain": {},
    "32 bit": {"pointer": 4},
    "system time": {"clock": "system_time", "start_ticks": 133_900_000_000_000_000},
    "cycles": {"clock": "cycle"},
    "14.3 MHz is no multiple, 20 MHz is": {"clock_hz": 20_000_000},
    "shuffled, small buffers": {"shuffle": 3, "buffer_size": 4096},
    "LZNT1": {"compression": "lznt1", "merged": True},
    "XPRESS, 32 bit": {"compression": "xpress", "merged": True, "pointer": 4},
    "merged without schemas": {"merged": True, "metadata": False},
    "processor number in 8 bits": {"wide_index": False},
    "circular, nothing overwritten": {"circular": 400, "buffer_size": 4096},
    "CSwitch 2": {"switch_version": 2},
    "CSwitch 3": {"switch_version": 3},
    "CSwitch 5": {"switch_version": 5},
}


@pytest.fixture(scope="module")
def short() -> RandomSchedule:
    """5 ms on two P cores and two E cores."""
    return RandomSchedule(5, length_ns=5_000 * US, threads=14, cpus=machine_cpus(2, 2))


@pytest.mark.parametrize("layout", LAYOUTS)
def test_every_layout_gives_the_same_slices(
    short: RandomSchedule, layout: str, tmp_path: Path
) -> None:
    tables = read(tmp_path, short.head(etl=LAYOUTS[layout]), short.lines)
    assert slices(tables) == expected(short)


def test_unclosed_file_ends_with_its_last_records(short: RandomSchedule, tmp_path: Path) -> None:
    tables = read(tmp_path, short.head(etl={"closed": False}), short.lines)
    # What each CPU did after its last record was not flushed or did not happen: unknown.
    truth = [(*row[:3], *row[4:]) for row in expected(short) if row[5] != "trace_end"]
    assert [(*row[:3], *row[4:]) for row in slices(tables) if row[5] != "unknown"] == truth


@pytest.fixture(scope="module")
def replanned() -> RandomSchedule:
    """20 ms in which another thread than planned runs whenever one is queued."""
    return RandomSchedule(11, cpus=machine_cpus(1, 2), threads=30, replanned=1.0)


def test_thread_that_ran_is_the_one_switched_out(replanned: RandomSchedule, tmp_path: Path) -> None:
    tables = read(tmp_path, replanned.head(), replanned.lines)
    changed = {
        (line["cpu"], line["ts"]) for line in replanned.lines if line.get("planned") is not None
    }
    assert len(changed) >= 30
    # The priority of the unplanned thread is unknown; the waker is whichever thread ran.
    truth = [
        (*row[:4], None if (row[1], row[2]) in changed else row[4], *row[5:])
        for row in expected(replanned)
    ]
    assert slices(tables) == truth
    problems = {row["what"]: row["count"] for row in tables["problem"].to_pylist()}
    planned = [count for what, count in problems.items() if "planned" in what]
    assert planned == [len(changed)]


def test_running_thread_is_known_many_batches_later(tmp_path: Path) -> None:
    # CPU 0: 8 is planned, 9 runs |2 wakes 7                                 |70,000 leaves
    # CPU 1: 5 and 6 alternate every us: four batches of switches meanwhile
    turns = (
        (us, 1, "switch", {"old": 5 + us % 2, "new": 6 - us % 2, "leaves": "preempted"})
        for us in range(3, 70_000)
    )
    lines = drawn(
        *threads(5, 6, 7, 8, 9),
        (1, 0, "switch", {"old": 0, "new": 9, "planned": 8}),
        (2, 0, "ready", {"tid": 7}),
        *turns,
        (70_000, 0, "switch", {"old": 9, "new": 0}),
    )
    tables = read(tmp_path, HEAD, lines)
    who = names(tables)
    woken = [
        (who[woken], who[waker]) for woken, waker in columns(tables["wakeup"], "utid waker_utid")
    ]
    assert woken == [(7, 9)]
    times = tables["context_switch"]["ts"].to_pylist()
    assert times == sorted(times)
    assert len(times) == 69_999


def test_counters_belong_to_the_thread_switched_out(tmp_path: Path) -> None:
    schedule = RandomSchedule(3, cpus=machine_cpus(2, 2), threads=14)
    tables = read(tmp_path, schedule.head(etl={"shuffle": 1, "buffer_size": 8192}), schedule.lines)
    who = names(tables)
    found = sorted(
        (cpu, ts, dur, who[utid], counter, delta)
        for cpu, ts, dur, utid, counter, delta in columns(
            tables["counter_delta"], "cpu ts dur utid counter delta"
        )
    )
    truth = sorted(
        (cpu, ts, dur, tid, name, value)
        for cpu, tid, ts, dur, cycles, instructions in schedule.counted
        for name, value in (("TotalCycles", cycles), ("InstructionRetired", instructions))
    )
    assert found == truth


def parking(tables: dict[str, pa.Table]) -> Rows:
    """Changes of parking by time; a rundown applies from the beginning, which is 0."""
    found = columns(tables["cpu_parking"], "ts cpu parked soft_parked")
    return sorted((ts or 0, *rest) for ts, *rest in found)


def test_parking_matches_schedule(tmp_path: Path) -> None:
    schedule = RandomSchedule(8, threads=30)
    tables = read(tmp_path, schedule.head(etl={"merged": True}), schedule.lines)
    truth = [(ts, cpu, parked, False) for cpu, ts, parked in schedule.parkings]
    assert parking(tables) == sorted(truth)


def drawn(*events: tuple[int, int, str, Line]) -> list[Line]:
    """Lines drawn by hand: time in us, CPU, event, fields."""
    return [
        {"ts": round(ts * US), "cpu": cpu, "event": event, **fields}
        for ts, cpu, event, fields in events
    ]


def threads(*tids: int) -> Iterator[tuple[int, int, str, Line]]:
    """A process with these threads, as the rundown at the start lists them."""
    yield (0, 0, "process", {"phase": "rundown_start", "pid": 100, "name": "drawn.exe"})
    for tid in tids:
        yield (0, 0, "thread", {"phase": "rundown_start", "pid": 100, "tid": tid})


HEAD: Line = {"machine": {"cpus": machine_cpus(1, 2)}}


def test_soft_parking_is_separate_from_parking(tmp_path: Path) -> None:
    # CPU 2: parked by the rundown |100 unparked |200 soft parked |300 free |400 parked softly
    # CPU 3: no record up to 250, then parked
    lines = drawn(
        *threads(8),
        (0, 0, "power_rundown", {"about": 2, "parked": True, "soft": False}),
        (100, 0, "unpark", {"about": 2}),
        (200, 0, "soft_park", {"about": 2, "soft": True}),
        (250, 0, "park", {"about": 3}),
        (300, 0, "soft_park", {"about": 2, "soft": False}),
        (400, 0, "park", {"about": 2, "soft": True}),
        (500, 0, "switch", {"old": 8, "new": 0}),
    )
    tables = read(tmp_path, HEAD, lines)
    assert parking(tables) == [
        (0, 2, True, False),
        (100 * US, 2, False, False),
        (200 * US, 2, False, True),
        (250 * US, 3, True, None),
        (300 * US, 2, False, False),
        (400 * US, 2, True, True),
    ]


def test_changed_efficiency_class_applies_from_then_on(tmp_path: Path) -> None:
    # CPUs 0 and 1 are class 1, 2 and 3 class 0; at 300 us CPU 3 becomes class 1 too.
    classes = [
        (0, 0, "power_rundown", {"about": cpu, "parked": False, "efficiency_class": kind})
        for cpu, kind in enumerate((1, 1, 0, 0))
    ]
    lines = drawn(
        *threads(8),
        *classes,
        (300, 0, "class_update", {"about": 3, "efficiency_class": 1}),
        (500, 0, "switch", {"old": 8, "new": 0}),
    )
    tables = read(tmp_path, HEAD, lines)
    found = columns(tables["cpu"], "cpu valid_from_ns core_type efficiency_class")
    assert sorted(found, key=lambda row: (row[0], row[1] or 0)) == [
        (0, None, "P", 1),
        (1, None, "P", 1),
        (2, None, "E", 0),
        (3, None, "E", 0),
        (3, 300 * US, "P", 1),
    ]


@pytest.mark.parametrize("kind", ["buffer", "events"])
def test_loss_ends_open_intervals_and_starts_new_ones(kind: str, tmp_path: Path) -> None:
    # us       0      100    200    300    400    500    600    700
    # CPU 0    8      9      |  lost: 8 300..400  |      8      0
    # CPU 1    idle   7                    0             7      0
    lines = drawn(
        *threads(7, 8, 9),
        (50, 1, "ready", {"tid": 9}),
        (60, 1, "ready", {"tid": 7}),
        (100, 0, "switch", {"old": 8, "new": 9, "leaves": "preempted"}),
        (100, 1, "switch", {"old": 0, "new": 7}),
        (200, 0, "ready", {"tid": 8}),
        (201, 0, "lost", {"until": 450 * US, "kind": kind}),
        (300, 0, "switch", {"old": 9, "new": 8}),
        (400, 0, "switch", {"old": 8, "new": 9}),
        (400, 1, "switch", {"old": 7, "new": 0}),
        (500, 0, "ready", {"tid": 7}),
        (510, 1, "switch", {"old": 0, "new": 7}),
        (600, 0, "switch", {"old": 9, "new": 0}),
        (700, 1, "switch", {"old": 7, "new": 0}),
    )
    tables = read(tmp_path, HEAD, lines)
    who = names(tables)
    wanted = "utid cpu ts dur end_reason left_censored right_censored is_idle"
    found = [
        (who[utid], *rest)
        for utid, *rest, is_idle in columns(tables["sched_slice"], wanted)
        if not is_idle
    ]
    assert sorted(found, key=lambda row: (row[1], row[2])) == [
        (8, 0, 0, 100 * US, "preempted", True, False),
        (9, 0, 100 * US, 100 * US, "unknown", False, True),
        (9, 0, 500 * US, 100 * US, "blocked", True, False),
        (7, 1, 100 * US, 300 * US, "blocked", False, False),
        (7, 1, 510 * US, 190 * US, "blocked", False, False),
    ]
    unknown = [
        (cpu, ts, dur)
        for cpu, ts, dur, state in columns(tables["cpu_state_other"], "cpu ts dur state")
        if state == "unknown" and cpu == 0
    ]
    assert unknown == [(0, 200 * US, 300 * US)]
    losses = columns(tables["loss"], "cpu start_ns end_ns")
    assert (0, 200 * US, 500 * US) in losses
    (row,) = tables["trace"].to_pylist()
    assert (row["events_lost"], row["buffers_lost"]) == (2, 1 if kind == "buffer" else 0)


def test_presents_are_frames(tmp_path: Path) -> None:
    # Presents of thread 8 at 100, 260, and 410 us; between them a test present and another chain.
    present = {"pid": 100, "tid": 8, "swap_chain": 0x1000}
    lines = drawn(
        *threads(8),
        (100, 0, "present", present),
        (110, 0, "present", present | {"stop": True}),
        (150, 0, "present", present | {"flags": 1}),
        (260, 0, "present", present),
        (300, 0, "present", present | {"swap_chain": 0x2000}),
        (410, 0, "present", present),
        (500, 0, "switch", {"old": 8, "new": 0}),
    )
    tables = read(tmp_path, HEAD, lines)
    found = columns(tables["frame"], "process start_ns dur_ns")
    assert sorted(found)[:2] == [
        ("drawn.exe", 100 * US, 160 * US),
        ("drawn.exe", 260 * US, 150 * US),
    ]
