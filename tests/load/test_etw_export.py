"""The Windows exporter compiles, writes the declared schemas, and writes correct rows."""

from __future__ import annotations

import json
import random
import re
import subprocess
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import duckdb
import pyarrow as pa
import pyarrow.ipc
import pytest
from etw_exporter import (
    EXPORTER,
    STAND_INS,
    TRACEPROCESSOR,
    Line,
    compiled,
    rows_of,
    run,
    table_side,
)
from tables_export import TABLES, read_manifest

from schedlens import _decoders
from schedlens.load import recording_rows, schema
from schedlens.load.recording import Recording

# No source in TraceProcessor, or nothing of it belongs to a Windows recording.
NOT_WRITTEN = {
    "migration", "priority_change", "affinity_change", "ideal_cpu_change", "qos_change",
    "sched_yield", "record_count", "wait_event",
}  # fmt: skip

START_CLOCK, HZ = 5_000_000, 10_000_000
IDLE, READY, RUNNING, WAITING, TERMINATED = 0, 1, 2, 5, 4
QUANTUM_END, USER_REQUEST = 30, 6


def facts(lost: int = 0) -> Line:
    """trace: 2 CPUs, a performance counter of 10 MHz."""
    return (
        "facts", "C:\\t.etl", "host", "Windows 10.0", "CPU model", "qpc", START_CLOCK, HZ,
        1_700_000_000_000_000_000, 20_000, lost, 0, 2,
    )  # fmt: skip


def switch(ns: int, cpu: int, old: int, new: int, state: int = WAITING, reason: int = 6) -> Line:
    """A switch-out of `old`; `new` is the planned thread."""
    return ("switch", ns, cpu, old, new, state, reason, 1, 8, 9, 1, 2 if old == IDLE else None)


# Time in us:      1      2      3      4      5      6      7      8      9
# CPU 0  idle      | 10          | (11) 20 ran | idle                | 10
#                                   ready 10                   ready 10
# CPU 1  12 (first life) | idle           | 12 (second life)  | idle
# At 3 us thread 11 was planned on CPU 0, and 20 ran; a thread that starts at 4.5 us reuses id 12.
SWITCHES_0 = [
    switch(1_000, 0, IDLE, 10, RUNNING, 0),
    switch(3_000, 0, 10, 11, READY, QUANTUM_END),
    switch(5_000, 0, 20, IDLE),
    switch(9_000, 0, IDLE, 10, RUNNING, 0),
]
READIES_0 = [("ready", 3_500, 0, 10, 0), ("ready", 8_000, 0, 10, 1)]
SWITCHES_1 = [
    switch(2_500, 1, 12, IDLE, TERMINATED),
    switch(5_000, 1, IDLE, 12, RUNNING, 0),
    switch(7_500, 1, 12, IDLE),
]
CPU_0 = [SWITCHES_0[0], SWITCHES_0[1], READIES_0[0], SWITCHES_0[2], READIES_0[1], SWITCHES_0[3]]
LIVES: list[Line] = [
    ("process", 0, "Idle", None, None, None, None, None),
    ("process", 4, "System", None, None, 0, None, None),
    ("process", 100, "game.exe", 500, None, 4, 1, "game.exe -full"),
    ("thread", 0, 0, None, None, None, 0, 3),
    ("thread", 10, 100, "render", 500, None, 8, 3),
    ("thread", 11, 100, None, 600, None, 8, 1),
    ("thread", 12, 4, "first", None, 2_400, 12, 2),
    ("thread", 12, 100, "second", 4_500, None, 13, 3),
    ("thread", 20, 4, None, None, None, 10, 0),
]
REST: list[Line] = [
    ("cpu", 0, 1, 3_000_000), ("cpu", 1, 0, None), ("setting", "smt_control", "off"),
    ("parking", 1, 4_000, 9_000, 1), ("parking", 1, 0, 2_000, 0),
    ("frequency", 0, 0, 5_000, 3_100_000),
    ("idle", 1, 2_500, 5_000, 2),
    ("interrupt", 0, 6_000, 6_200, "dpc"), ("interrupt", 0, 1_500, 1_600, "isr"),
    ("counter", 0, 3_000, 5_000, 20, "TotalCycles", 40),
    ("counter", 0, 1_000, 3_000, 10, "TotalCycles", (1 << 64) - 10),
    ("mark", 7_000, "level \"2\""),
    # Two swap chains of one thread; the first call on chain 7 returns at 1.3 us, the last never.
    ("present", 1_200, 100, 10, 0, 7, "dxgi"), ("present", 1_300, 100, 10, 1, 0, "dxgi"),
    ("present", 1_700, 100, 10, 0, 8, "dxgi"), ("present", 1_800, 100, 10, 1, 0, "dxgi"),
    ("present", 2_200, 100, 10, 0, 7, "dxgi"), ("present", 4_200, 100, 11, 0, 7, "dxgi"),
    ("problem", "TraceProcessor", "frequency unknown", 3),
]  # fmt: skip


@pytest.fixture(scope="module")
def program(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The table side, compiled."""
    return table_side(tmp_path_factory.mktemp("mono") / "table_side.exe")


@pytest.fixture(scope="module")
def folder(program: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The drawn trace, exported."""
    lines = [facts(), *LIVES, *REST, *SWITCHES_1, *CPU_0]
    return run(program, lines, tmp_path_factory.mktemp("exported") / "tables")


def test_exporter_compiles_against_traceprocessor_declarations(
    tmp_path: Path,
) -> None:
    if not TRACEPROCESSOR.exists():
        pytest.skip("the declarations of TraceProcessor are not next to this checkout")
    stand_in = STAND_INS / "ArrowStandIn.cs"
    compiled([*sorted(EXPORTER.glob("*.cs")), stand_in, TRACEPROCESSOR], tmp_path / "whole.exe")


def test_only_one_file_uses_traceprocessor_and_one_arrow() -> None:
    def users(namespace: str) -> list[str]:
        return sorted(
            file.name
            for file in EXPORTER.glob("*.cs")
            if f"using {namespace}" in file.read_text("utf-8")
        )

    assert users("Microsoft.Windows.EventTracing") == ["TraceProcessorReader.cs"]
    assert users("Apache.Arrow") == ["ArrowTable.cs"]


def test_project_pins_its_packages() -> None:
    project = ElementTree.parse(EXPORTER / "etw_export.csproj").getroot()
    found = {
        element.get("Include"): element.get("Version")
        for element in project.iter("PackageReference")
    }
    assert found == {
        "Microsoft.Windows.EventTracing.Processing.All": "[1.12.10]",
        "Apache.Arrow": "[23.0.0]",
    }
    properties = {element.tag: element.text for element in project.iter()}
    assert properties["TargetFramework"] == "net8.0-windows"
    assert properties["RuntimeIdentifier"] == "win-x64"
    assert properties["OutputType"] == "Exe"
    reader = (EXPORTER / "TraceProcessorReader.cs").read_text("utf-8")
    assert 'PackageName = "TraceProcessor 1.12.10"' in reader


def test_readme_says_untested_on_windows() -> None:
    text = (EXPORTER / "README.md").read_text("utf-8")
    assert "has not been run on Windows" in text


def test_every_table_has_its_declared_schema(folder: Path) -> None:
    written = {file.stem for file in folder.glob("*.arrow")}
    assert written == set(TABLES) - NOT_WRITTEN
    for table in sorted(written):
        found = pa.ipc.open_file(folder / f"{table}.arrow").schema
        wanted = [
            # A few repeated texts arrive as a dictionary; the file stores them plain.
            field.with_type(pa.string()) if pa.types.is_dictionary(field.type) else field
            for field in _decoders.schemas()[table]
        ]
        assert list(found) == wanted, table


def test_tables_declared_in_csharp_are_written(folder: Path) -> None:
    text = (EXPORTER / "TableSchemas.cs").read_text("utf-8")
    assert set(re.findall(r'\{ "(\w+)", Table\(', text)) == {f.stem for f in folder.glob("*.arrow")}


def test_manifest_matches_trace(folder: Path) -> None:
    manifest = read_manifest(folder)
    assert manifest["source"] == "etw"
    assert manifest["trace"] == {
        "path": "C:\\t.etl", "host": "host", "os": "Windows 10.0", "cpu_model": "CPU model",
        "clock_name": "qpc", "start_clock": START_CLOCK, "clock_hz": HZ,
        "start_time_utc_ns": 1_700_000_000_000_000_000, "first_ns": 0, "duration_ns": 20_000,
        "events_lost": 0, "buffers_lost": 0,
    }  # fmt: skip
    assert manifest["tables"]["context_switch"] == 7
    assert manifest["tables"]["wakeup"] == 2


def utid(folder: Path, tid: int, start: int | None = None, place: int = 0) -> int:
    """The utid of one thread that had this id."""
    rows = rows_of(folder, "thread", "utid", "tid", "start_ns")
    found = [utid for utid, its_tid, its_start in rows if (its_tid, its_start) == (tid, start)]
    return int(found[place])


def test_switches_are_ordered_and_name_the_thread_alive_then(folder: Path) -> None:
    idle_0, idle_1 = utid(folder, 0), utid(folder, 0, place=1)
    t10, t11, t20 = utid(folder, 10, 500), utid(folder, 11, 600), utid(folder, 20)
    first, second = utid(folder, 12), utid(folder, 12, 4_500)
    assert rows_of(folder, "context_switch", "ts", "cpu", "seq", "prev_utid", "next_utid") == [
        (1_000, 0, 0, idle_0, t10),
        # Created later by its times, it leaves after its end is logged: still the first thread.
        (2_500, 1, 0, first, idle_1),
        (3_000, 0, 1, t10, t11),
        (5_000, 0, 3, t20, idle_0),
        (5_000, 1, 1, idle_1, second),
        (7_500, 1, 2, second, idle_1),
        (9_000, 0, 5, idle_0, t10),
    ]
    assert rows_of(
        folder, "context_switch", "prev_state", "prev_wait_reason", "prev_wait_mode",
        "prev_priority", "next_priority", "prev_preempted", "prev_ideal_cpu", "prev_cstate",
        "source",
    )[:3] == [
        (RUNNING, 0, 1, 8, 9, None, 1, 2, "switch"),
        (TERMINATED, USER_REQUEST, 1, 8, 9, None, 1, None, "switch"),
        (READY, QUANTUM_END, 1, 8, 9, None, 1, None, "switch"),
    ]  # fmt: skip


def test_waker_is_the_running_thread_not_the_planned_one(folder: Path) -> None:
    columns = ("ts", "cpu", "seq", "utid", "waker_utid", "kind", "in_interrupt", "effective")
    assert rows_of(folder, "wakeup", *columns) == [
        (3_500, 0, 2, utid(folder, 10, 500), utid(folder, 20), "ready", False, None),
        (8_000, 0, 4, utid(folder, 10, 500), utid(folder, 0), "ready", True, None),
    ]


def test_threads_keep_process_name_and_affinity(folder: Path) -> None:
    base = 1 << 32
    process = ("upid", "pid", "name", "start_ns", "end_ns", "parent_pid", "session_id",
               "command_line")  # fmt: skip
    assert rows_of(folder, "process", *process) == [
        (base, 0, "Idle", None, None, None, None, None),
        (base + 1, 4, "System", None, None, 0, None, None),
        (base + 2, 100, "game.exe", 500, None, 4, 1, "game.exe -full"),
    ]
    columns = ("tid", "upid", "name", "start_ns", "end_ns", "base_priority", "is_idle")
    assert rows_of(folder, "thread", *columns) == [
        (0, base, "Idle", None, None, None, True),
        (0, base, "Idle", None, None, None, True),
        (10, base + 2, "render", 500, None, 8, False),
        (11, base + 2, None, 600, None, 8, False),
        (12, base + 1, "first", None, 2_400, 12, False),
        (12, base + 2, "second", 4_500, None, 13, False),
        (20, base + 1, None, None, None, 10, False),
    ]
    assert rows_of(folder, "thread_name", "utid", "ts", "name") == [
        (utid(folder, 10, 500), 500, "render"),
        (utid(folder, 12), None, "first"),
        (utid(folder, 12, 4_500), 4_500, "second"),
    ]
    assert rows_of(folder, "affinity", "utid", "valid_from_ns", "cpus", "source") == [
        (utid(folder, 10, 500), None, [0, 1], "rundown"),
        (utid(folder, 11, 600), None, [0], "rundown"),
        (utid(folder, 12), None, [1], "rundown"),
        (utid(folder, 12, 4_500), None, [0, 1], "rundown"),
    ]


def test_intervals_are_sorted_and_gaps_are_unknown(folder: Path) -> None:
    assert rows_of(folder, "cpu_parking", "ts", "cpu", "parked", "soft_parked", "reason") == [
        (0, 1, False, None, None),
        (2_000, 1, None, None, None),
        (4_000, 1, True, None, None),
        (9_000, 1, None, None, None),
    ]
    assert rows_of(folder, "cpu_frequency", "ts", "cpu", "khz") == [(0, 0, 3_100_000)]
    assert rows_of(folder, "cpu_idle", "ts", "cpu", "dur", "state") == [(2_500, 1, 2_500, 2)]
    assert rows_of(folder, "interrupt_slice", "ts", "cpu", "seq", "dur", "kind", "name") == [
        (1_500, 0, 0, 100, "isr", None),
        (6_000, 0, 1, 200, "dpc", None),
    ]


def test_counters_are_running_sums_that_may_wrap(folder: Path) -> None:
    columns = ("ts", "cpu", "utid", "counter", "core_type", "value")
    assert rows_of(folder, "counter_sample", *columns) == [
        (3_000, 0, utid(folder, 10, 500), "TotalCycles", "P", -10),
        (5_000, 0, utid(folder, 20), "TotalCycles", "P", 30),
    ]


def test_frame_ends_at_next_present_of_its_swap_chain(folder: Path) -> None:
    columns = (
        "frame", "upid", "utid", "process", "start_ns", "dur_ns", "cpu_busy_ns", "gpu_busy_ns",
        "dialect", "clock_residual_ns",
    )  # fmt: skip
    game = (1 << 32) + 2
    assert rows_of(folder, "frame", *columns) == [
        (0, game, utid(folder, 10, 500), "game.exe", 1_200, 1_000, 900, None, "dxgi", 0),
        (1, game, utid(folder, 11, 600), "game.exe", 2_200, 2_000, None, None, "dxgi", 0),
    ]


def test_machine_marks_and_problems_match_input(folder: Path) -> None:
    columns = ("cpu", "core", "core_type", "efficiency_class", "base_khz", "online")
    assert rows_of(folder, "cpu", *columns) == [
        (0, None, "P", 1, 3_000_000, True),
        (1, None, "E", 0, None, True),
    ]
    assert rows_of(folder, "machine_setting", "key", "value") == [("smt_control", "off")]
    assert rows_of(folder, "mark", "ts", "dur", "name", "kind") == [(7_000, 0, 'level "2"', "user")]
    assert rows_of(folder, "loss", "events") == []
    assert rows_of(folder, "problem", "place", "what", "count") == [
        ("TraceProcessor", "frequency unknown", 3)
    ]


def test_folder_becomes_slices_with_planned_switch_in_fixed(folder: Path) -> None:
    con = duckdb.connect()
    schema.create(con)
    recording_rows.load_base_and_derived(con, Recording("drawn", folder), 1)
    slices = con.sql(
        "SELECT tid, sched_slice.cpu, ts, dur, end_reason FROM sched_slice JOIN thread "
        "USING (utid) WHERE NOT thread.is_idle ORDER BY ts, tid"
    ).fetchall()
    assert slices == [
        (12, 1, 0, 2_500, "exit"),
        (10, 0, 1_000, 2_000, "quantum_end"),
        (20, 0, 3_000, 2_000, "blocked"),
        (12, 1, 5_000, 2_500, "blocked"),
        (10, 0, 9_000, 11_000, "trace_end"),
    ]
    repaired = con.sql("SELECT count FROM problem WHERE what LIKE 'switch-in that was planned%'")
    assert repaired.fetchall() == [(1,)]
    clock = con.sql("SELECT start_clock, clock_hz, epoch_ns(start_time_utc) FROM trace").fetchall()
    assert clock == [(START_CLOCK, HZ, 1_700_000_000_000_000_000)]


def test_cpu_interleaving_does_not_change_the_folder(
    program: Path, folder: Path, tmp_path: Path
) -> None:
    order = [0] * len(CPU_0) + [1] * len(SWITCHES_1)
    random.Random(20).shuffle(order)
    streams = [iter(CPU_0), iter(SWITCHES_1)]
    lines = [facts(), *LIVES, *REST, *(next(streams[cpu]) for cpu in order)]
    again = run(program, lines, tmp_path / "tables")
    for file in sorted(folder.iterdir()):
        assert file.read_bytes() == (again / file.name).read_bytes(), file.name


def test_lost_events_are_recorded_and_make_wakers_uncertain(program: Path, tmp_path: Path) -> None:
    again = run(program, [facts(lost=7), *LIVES, *REST, *CPU_0], tmp_path / "tables")
    assert rows_of(again, "loss", "cpu", "start_ns", "events", "signalled_by") == [
        (None, None, 7, "events_lost")
    ]
    # Thread 11 switched in and 20 out: between them the waker may be either.
    assert rows_of(again, "wakeup", "ts", "waker_utid") == [
        (3_500, None), (8_000, utid(again, 0)),
    ]  # fmt: skip
    assert ("etw_export", 1) in rows_of(again, "problem", "place", "count")


def test_impossible_events_are_counted_and_do_not_end_the_export(
    program: Path, tmp_path: Path
) -> None:
    lines: list[Line] = [
        facts(),
        switch(2_000, 0, 77, IDLE),
        switch(1_000, 0, IDLE, 77, RUNNING, 0),
        switch(3_000, -1, 1, 2),
        switch(3_000, 5_000, 1, 2),
        ("ready", 3_000, 0, IDLE, 0),
    ]
    again = run(program, lines, tmp_path / "tables")
    assert rows_of(again, "context_switch", "ts", "cpu", "seq") == [(2_000, 0, 0), (2_000, 0, 1)]
    assert rows_of(again, "wakeup", "ts") == []
    assert rows_of(again, "thread", "tid", "upid") == [(0, None), (0, None), (77, None)]
    assert sorted(rows_of(again, "problem", "what", "count")) == [
        ("CPU number out of range: record skipped", 2),
        ("record earlier than the previous one on its CPU: took that one's time", 1),
        ("thread in the records that the trace does not list: its process is unknown", 1),
    ]


def test_trace_without_switches_names_capture_command(program: Path, tmp_path: Path) -> None:
    again = run(program, [facts(), *LIVES], tmp_path / "tables")
    what = "no context switches: record again with CSwitch and without CompactCSwitch"
    assert rows_of(again, "problem", "what", "count") == [(what, 1)]
    # Not requested, so absent: an empty table would mean that there was none.
    assert not (again / "cpu_parking.arrow").exists()


def test_ideal_processor_above_255_is_unknown(program: Path, tmp_path: Path) -> None:
    machine = facts()
    many = run(
        program, [(*machine[:-1], 257), switch(10, 0, 5, 6), *LIVES[4:5]], tmp_path / "tables"
    )
    assert rows_of(many, "context_switch", "prev_ideal_cpu") == [(None,)]
    assert rows_of(many, "affinity", "cpus") == []
    columns = ("what", "count")
    what = "affinity unknown: masks come without their processor group"
    assert (what, 1) in rows_of(many, "problem", *columns)


def test_ticks_become_ns_rounded_down(program: Path, tmp_path: Path) -> None:
    rng = random.Random(9)
    clocks = [(START_CLOCK, HZ), (0, 3_579_545), (-7, 2_893_202_000), (1 << 62, 1), (5, 24_000_000)]
    ticks = [
        (start, hz, start + sign * rng.randrange(min(200 * 365 * 86_400 * hz, 1 << 61)))
        for start, hz in clocks
        for sign in (1, -1)
        for _ in range(40)
    ]
    lines = [facts(), *(("tick", *tick, n) for n, tick in enumerate(ticks))]
    again = run(program, lines, tmp_path / "tables")
    found = {int(name): ns for ns, name in rows_of(again, "mark", "ts", "name")}
    assert found == {n: (raw - start) * 10**9 // hz for n, (start, hz, raw) in enumerate(ticks)}


def test_rows_beyond_batch_size_start_new_batches(program: Path, tmp_path: Path) -> None:
    count = 70_000
    lines = [facts(), *(("ready", 10 * n, n % 2, 5, 0) for n in range(count))]
    again = run(program, lines, tmp_path / "tables")
    assert [n for (n,) in rows_of(again, "wakeup", "ts")] == [10 * n for n in range(count)]
    assert pa.ipc.open_file(again / "wakeup.arrow").num_record_batches > 1


def test_more_interrupts_than_memory_holds_are_sorted_in_files(
    program: Path, tmp_path: Path
) -> None:
    # Three runs of 2^18 rows; 7919 is coprime to their number, so each start occurs once.
    count = 600_000
    rows = tmp_path / "rows"
    lines = [facts(), *LIVES, ("interrupts", count)]
    text = "\n".join("\t".join("" if v is None else str(v) for v in line) for line in lines)
    rows.write_text(text, encoding="utf-8")
    subprocess.run(["mono", str(program), str(rows), str(tmp_path / "out")], check=True)
    # The files of the runs are gone.
    assert [path.name for path in (tmp_path / "out").iterdir() if path.is_dir()] == []
    found = [
        row
        for _, *batches in [_lines(tmp_path / "out" / "interrupt_slice.arrow")]
        for batch in batches
        for row in zip(*batch, strict=True)
    ]
    expected = sorted(
        (at * 7919 % count * 1000, at % 3, at % 500, "isr" if at % 2 == 0 else "dpc")
        for at in range(count)
    )
    assert len(found) == count
    assert [(ts, cpu, dur, kind) for _, ts, cpu, _, dur, kind, _ in found] == expected
    # The position on each CPU counts up from 0.
    seen: dict[int, int] = {}
    for _, _, cpu, seq, *_ in found:
        assert seq == seen.get(cpu, 0)
        seen[cpu] = seq + 1


def _lines(file: Path) -> list[Any]:
    """The schema and the batches that the stand-in for Apache.Arrow wrote."""
    *lines, end = map(json.loads, file.read_text("utf-8").splitlines())
    assert end == "end"
    return lines
