"""trace.dat of trace-cmd: decoded rows match what trace-cmd itself prints."""

from __future__ import annotations

import json
import lzma
import re
import shutil
import subprocess
from collections import Counter
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

import dat_bytes
import pyarrow as pa
import pytest
from dat_bytes import Buffer, Event, idle, page, pages, switch, waking
from decoded import decoded, record_counts
from shared_files import need

from schedlens import _decoders
from schedlens.errors import SchedlensError
from schedlens.load import recording

needs_trace_cmd = pytest.mark.skipif(
    shutil.which("trace-cmd") is None, reason="trace-cmd is not installed, and it is the oracle"
)
REAL = ("tutorial_example_rtapp_trace.dat", "sched_load_trace.dat")
MS = 1_000_000
# buffer: comm-tid [cpu] seconds.nanoseconds: event: fields
LINE = re.compile(
    r"^\s*(?:[\w.-]+: )?\s*.*-(?P<tid>\d+)\s+\[(?P<cpu>\d+)\]\s+(?P<s>\d+)\.(?P<ns>\d{9}): "
    r"(?P<event>\w+):\s*(?P<fields>.*)$"
)
FIELD = re.compile(r"(\w+)=(.*?)(?= \w+=|$)")
DROPPED = re.compile(r"CPU:(\d+) \[(\d+) EVENTS DROPPED\]")


@dataclass(frozen=True)
class Printed:
    """A record as trace-cmd prints it."""

    ns: int
    cpu: int
    tid: int
    event: str
    fields: dict[str, str]

    def number(self, name: str) -> int:
        return int(self.fields[name])


@cache
def report(trace: Path) -> tuple[list[Printed], Counter[tuple[int, int]]]:
    """The records as trace-cmd prints them, and its lost events by CPU and number."""
    text = subprocess.run(
        ["trace-cmd", "report", "-t", "-R", str(trace)],
        check=True, capture_output=True, timeout=300,
    ).stdout.decode("utf-8", "replace")  # fmt: skip
    found, lost = [], Counter[tuple[int, int]]()
    for line in text.splitlines():
        if match := LINE.match(line):
            ns = int(match["s"]) * 1_000_000_000 + int(match["ns"])
            fields = dict(FIELD.findall(match["fields"]))
            found.append(Printed(ns, int(match["cpu"]), int(match["tid"]), match["event"], fields))
        elif match := DROPPED.search(line):
            lost[int(match[1]), int(match[2])] += 1
    return found, lost


def rows(tables: dict[str, pa.Table], table: str) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = tables[table].to_pylist() if table in tables else []
    return found


def assert_as_printed(trace: Path) -> dict[str, int]:
    """Each record that schedlens reads is as trace-cmd prints it; returns their numbers."""
    printed, lost = report(trace)
    tables = decoded(trace)
    start = tables["trace"].to_pylist()[0]["start_clock"]
    tids = {row["utid"]: row["tid"] for row in rows(tables, "thread")}
    by_event: dict[str, list[Printed]] = {}
    for one in printed:
        by_event.setdefault(one.event, []).append(one)
    counts = {name.split(":")[1]: count for name, count in record_counts(tables).items()}
    assert counts == {name: len(found) for name, found in by_event.items()}

    def of(*events: str) -> list[Printed]:
        return [one for event in events for one in by_event.get(event, [])]

    expected: dict[str, Counter[Any]] = {
        "context_switch": Counter(
            (p.ns, p.cpu, *map(p.number, ("prev_pid", "next_pid", "prev_state", "prev_prio")))
            for p in of("sched_switch")
        ),
        "wakeup": Counter(
            (p.ns, p.cpu, p.number("pid"), p.tid, p.event.removeprefix("sched_"),
             p.number("target_cpu"))
            for p in of("sched_waking", "sched_wakeup", "sched_wakeup_new")
        ),
        "migration": Counter(
            (p.ns, p.cpu, *map(p.number, ("pid", "orig_cpu", "dest_cpu")))
            for p in of("sched_migrate_task")
        ),
        "cpu_idle": Counter(
            (p.ns, p.number("cpu_id"), p.number("state"))
            for p in of("cpu_idle") if p.number("state") != dat_bytes.IDLE_EXIT
        ),
        "cpu_frequency": Counter(
            (p.ns, p.number("cpu_id"), p.number("state")) for p in of("cpu_frequency")
        ),
        "sched_yield": Counter((p.ns, p.cpu, p.tid) for p in of("sys_enter_sched_yield")),
    }  # fmt: skip
    switches = [row for row in rows(tables, "context_switch") if row["source"] == "switch"]
    found: dict[str, Counter[Any]] = {
        "context_switch": Counter(
            (r["ts"] + start, r["cpu"], tids[r["prev_utid"]], tids[r["next_utid"]],
             r["prev_state"], r["prev_priority"])
            for r in switches
        ),
        # A waking's own CPU is prev_cpu: a migration after it changes target_cpu.
        "wakeup": Counter(
            (r["ts"] + start, r["cpu"], tids[r["utid"]], tids[r["waker_utid"]], r["kind"],
             r["prev_cpu"] if r["kind"] == "waking" else r["target_cpu"])
            for r in rows(tables, "wakeup")
        ),
        "migration": Counter(
            (r["ts"] + start, r["cpu"], tids[r["utid"]], r["orig_cpu"], r["dest_cpu"])
            for r in rows(tables, "migration")
        ),
        "cpu_idle": Counter(
            (r["ts"] + start, r["cpu"], r["state"]) for r in rows(tables, "cpu_idle")
        ),
        "cpu_frequency": Counter(
            (r["ts"] + start, r["cpu"], r["khz"]) for r in rows(tables, "cpu_frequency")
        ),
        "sched_yield": Counter(
            (r["ts"] + start, r["cpu"], tids[r["utid"]]) for r in rows(tables, "sched_yield")
        ),
    }  # fmt: skip
    for table, want in expected.items():
        assert found[table] == want, table
    flagged = [r for r in rows(tables, "loss") if r["signalled_by"] == "RB_MISSED_EVENTS"]
    assert Counter((r["cpu"], r["events"]) for r in flagged) == lost
    return {table: sum(want.values()) for table, want in expected.items()}


@pytest.fixture(scope="session")
def real(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    """Recordings of arm64 boards, unpacked."""
    folder = need(*(f"traces/trace_cmd/{name}.xz" for name in REAL)) / "traces" / "trace_cmd"
    place = tmp_path_factory.mktemp("trace_dat")
    unpacked = {name: lzma.decompress((folder / f"{name}.xz").read_bytes()) for name in REAL}
    return {name: dat_bytes.write(place / name, data) for name, data in unpacked.items()}


@needs_trace_cmd
@pytest.mark.parametrize(
    ("name", "switches", "idles", "frequencies", "migrations"),
    [(REAL[0], 1552, 0, 12, 0), (REAL[1], 399, 237, 16, 28)],
)
def test_real_recordings_are_read_as_trace_cmd_prints_them(
    real: dict[str, Path], name: str, switches: int, idles: int, frequencies: int, migrations: int
) -> None:
    counts = assert_as_printed(real[name])
    assert (counts["context_switch"], counts["cpu_idle"]) == (switches, idles)
    assert (counts["cpu_frequency"], counts["migration"]) == (frequencies, migrations)


@needs_trace_cmd
@pytest.mark.parametrize("compression", ["none", "zstd"])
def test_version_7_of_a_real_recording_has_the_same_rows(
    real: dict[str, Path], compression: str, tmp_path: Path
) -> None:
    converted = tmp_path / "converted.dat"
    subprocess.run(
        ["trace-cmd", "convert", "-i", str(real[REAL[1]]), "-o", str(converted),
         "--file-version", "7", "--compression", compression],
        check=True, capture_output=True, timeout=300,
    )  # fmt: skip
    assert_as_printed(converted)
    known, found = decoded(real[REAL[1]]), decoded(converted)
    for table in ("context_switch", "cpu_idle", "migration", "sched_slice", "thread"):
        assert found[table] == known[table]


# cpu 0  . 7 7 . . . 9     7 wakes 8; 12 records lost; idle for a second
# cpu 1  . 8 .
FIRST = [switch(1_000, 0, 7), waking(2_000, 7, 8, 1), switch(1_000 * MS, 7, 0)]
REST = [idle(1_000 * MS + 5, 0, 2), idle(2_000 * MS, 0), switch(2_000 * MS + 1, 0, 9)]
OTHER = [switch(3_000, 0, 8), switch(5_000, 8, 0)]
DRAWN = [Buffer({0: page(FIRST) + page(REST, lost=12), 1: pages(OTHER)})]
FORMS = ("6", "7 none", "7 zstd", "7 zlib")


def written(form: str, buffers: list[Buffer], options: bytes = b"") -> bytes:
    names = {7: "seven", 8: "never shown"}
    if form == "6":
        return dat_bytes.version_6(buffers, options, names)
    return dat_bytes.version_7(buffers, options, names, form.split()[1])


@needs_trace_cmd
@pytest.mark.parametrize("form", [form for form in FORMS if form != "7 zlib"])
def test_drawn_files_are_what_trace_cmd_reads(form: str, tmp_path: Path) -> None:
    assert_as_printed(dat_bytes.write(tmp_path / "drawn.dat", written(form, DRAWN)))


@pytest.mark.parametrize("form", FORMS)
def test_each_version_and_compression_has_the_same_rows(form: str, tmp_path: Path) -> None:
    tables = decoded(dat_bytes.write(tmp_path / "drawn.dat", written(form, DRAWN)))
    (trace,) = rows(tables, "trace")
    assert (trace["source"], trace["clock_name"]) == ("trace_cmd", "monotonic")
    assert (trace["start_clock"], trace["duration_ns"]) == (1_000, 2_000 * MS - 999)
    assert trace["events_lost"] == 12
    tids = {row["utid"]: row["tid"] for row in rows(tables, "thread")}
    found = [
        (r["ts"], r["cpu"], r["seq"], tids[r["prev_utid"]], tids[r["next_utid"]])
        for r in rows(tables, "context_switch")
    ]
    assert found == [
        (0, 0, 0, 0, 7),
        (2_000, 1, 0, 0, 8),
        (4_000, 1, 1, 8, 0),
        (1_000 * MS - 1_000, 0, 2, 7, 0),
        (2_000 * MS - 999, 0, 5, 0, 9),
    ]
    (woken,) = rows(tables, "wakeup")
    assert (tids[woken["utid"]], tids[woken["waker_utid"]]) == (8, 7)
    assert (woken["prev_cpu"], woken["kind"], woken["in_interrupt"]) == (1, "waking", False)
    (idled,) = rows(tables, "cpu_idle")
    assert (idled["ts"], idled["dur"], idled["state"]) == (1_000 * MS - 995, 1_000 * MS - 5, 2)
    (gap,) = (row for row in rows(tables, "loss") if row["signalled_by"] == "RB_MISSED_EVENTS")
    assert (gap["cpu"], gap["start_ns"], gap["end_ns"], gap["events"]) == (
        0, 1_000 * MS - 1_000, 1_000 * MS - 995, 12,
    )  # fmt: skip


def test_names_at_the_end_are_those_of_threads_that_no_record_names(tmp_path: Path) -> None:
    data = [Buffer({0: page([Event(5, "sched:sched_waking", 7, {"pid": 8, "target_cpu": 0})])})]
    tables = decoded(dat_bytes.write(tmp_path / "drawn.dat", dat_bytes.version_6(data, names={
        7: "waker", 8: "woken one", 9: "elsewhere"})))  # fmt: skip
    names = {row["tid"]: row["name"] for row in rows(tables, "thread")}
    assert names == {0: "swapper/0", 7: "waker", 8: "woken one"}


def test_new_threads_belong_to_the_process_of_their_creator(tmp_path: Path) -> None:
    flags = 0x10000
    events = [
        switch(0, 0, 50),
        Event(1, "task:task_newtask", 50, {"pid": 60, "comm": "t50"}),
        Event(2, "sched:sched_process_exec", 60, {"pid": 60, "old_pid": 60}),
        Event(3, "task:task_rename", 60, {"pid": 60, "oldcomm": "t50", "newcomm": "program"}),
        Event(4, "task:task_newtask", 60, {"pid": 61, "comm": "program", "clone_flags": flags}),
        Event(5, "sched:sched_process_exit", 61, {"comm": "program", "pid": 61}),
    ]
    tables = decoded(
        dat_bytes.write(tmp_path / "drawn.dat", written("6", [Buffer({0: page(events)})]))
    )
    processes = {row["upid"]: (row["pid"], row["name"]) for row in rows(tables, "process")}
    found = {
        row["tid"]: (processes.get(row["upid"]), row["name"], row["start_ns"], row["end_ns"])
        for row in rows(tables, "thread")
        if not row["is_idle"]
    }
    # Which process thread 50 belongs to is not recorded.
    assert found == {
        50: (None, "t50", None, None),
        60: ((60, "program"), "program", 1, None),
        61: ((60, "program"), "program", 4, 5),
    }


def test_moves_between_cgroups_are_read_for_the_threads_that_they_concern(tmp_path: Path) -> None:
    def move(ts: int, tid: int, path: str, hierarchy: int = 0) -> Event:
        fields: dict[str, int | str] = {"dst_root": hierarchy, "pid": tid, "dst_path": path}
        return Event(ts, "cgroup:cgroup_attach_task", 1, fields)

    events = [
        switch(0, 0, 50),
        Event(1, "task:task_newtask", 50, {"pid": 60, "comm": "t50"}),
        Event(2, "task:task_newtask", 60, {"pid": 61, "comm": "t60", "clone_flags": 0x10000}),
        move(3, 60, "/game"),
        Event(4, "task:task_newtask", 61, {"pid": 62, "comm": "t61", "clone_flags": 0x10000}),
        move(5, 61, "/game/io"),
        move(6, 62, "/cpu", hierarchy=2),
    ]
    tables = decoded(
        dat_bytes.write(tmp_path / "drawn.dat", written("6", [Buffer({0: page(events)})]))
    )
    tids = {row["utid"]: row["tid"] for row in rows(tables, "thread")}
    found = [
        (row["ts"], tids[row["utid"]], row["tid"], row["cgroup"], row["source"])
        for row in rows(tables, "thread_cgroup")
    ]
    # The leader moves with its threads; version 1 hierarchies are left out and counted.
    assert found == [
        (3, 60, 60, "/game", "move"), (3, 61, 61, "/game", "move"),
        (4, 62, 62, "/game", "birth"), (5, 61, 61, "/game/io", "move"),
    ]  # fmt: skip
    (problem,) = (row for row in rows(tables, "problem") if row["place"] == "cgroup_attach_task")
    assert problem["count"] == 1
    assert "version 1" in problem["what"]


def test_lost_events_that_no_page_marks_may_be_between_any_pages(tmp_path: Path) -> None:
    data = [Buffer({0: page(FIRST) + page(REST), 1: pages(OTHER)})]
    options = dat_bytes.stats(0, overrun=0, dropped_events=3)
    tables = decoded(dat_bytes.write(tmp_path / "drawn.dat", written("6", data, options)))
    found = [
        (r["cpu"], r["start_ns"], r["end_ns"])
        for r in rows(tables, "loss")
        if r["signalled_by"] == "cpu_stats"
    ]
    assert found == [
        (0, None, 0),
        (0, 1_000 * MS - 1_000, 1_000 * MS - 995),
        (0, 2_000 * MS - 999, None),
    ]
    assert rows(tables, "trace")[0]["events_lost"] == 3


def test_overwritten_events_that_a_page_marks_are_one_gap(tmp_path: Path) -> None:
    options = dat_bytes.stats(0, overrun=12)
    tables = decoded(dat_bytes.write(tmp_path / "drawn.dat", written("7 zlib", DRAWN, options)))
    assert [r["signalled_by"] for r in rows(tables, "loss")] == ["RB_MISSED_EVENTS"]


# top      A B . . . .     the same switches in both, but the instance has more of them
# instance . B C D         and a frequency
def test_an_event_in_several_buffers_is_read_once_at_each_time(tmp_path: Path) -> None:
    top = page([switch(10, 0, 5), switch(20, 5, 6)])
    frequency = Event(45, "power:cpu_frequency", 0, {"state": 100, "cpu_id": 0})
    other = page([switch(21, 5, 6), switch(30, 6, 7), switch(40, 7, 0), frequency])
    for form in FORMS:
        buffers = [Buffer({0: top}), Buffer({0: other}, name="instance")]
        tables = decoded(dat_bytes.write(tmp_path / "drawn.dat", written(form, buffers)))
        # The instance covers from 21 on.
        assert [r["ts"] + 10 for r in rows(tables, "context_switch")] == [10, 20, 21, 30, 40]
        assert [r["ts"] + 10 for r in rows(tables, "cpu_frequency")] == [45]
        (problem,) = (r for r in rows(tables, "problem") if "several buffers" in r["what"])
        assert problem["place"] == "sched:sched_switch"


def test_nothing_is_known_between_buffers_that_follow_each_other(tmp_path: Path) -> None:
    first, second = page([switch(10, 0, 5), switch(20, 5, 6)]), page([switch(90, 6, 7)])
    buffers = [Buffer({0: first}), Buffer({0: second}, name="later")]
    tables = decoded(dat_bytes.write(tmp_path / "drawn.dat", written("7 none", buffers)))
    assert [(r["start_ns"], r["end_ns"], r["signalled_by"]) for r in rows(tables, "loss")] == [
        (10, 80, "buffer_change")
    ]


def test_buffers_with_another_clock_are_left_out(tmp_path: Path) -> None:
    other = Buffer({0: page([Event(7, "power:cpu_frequency")])}, name="odd", clock="boot")
    tables = decoded(dat_bytes.write(tmp_path / "drawn.dat", written("7 none", [*DRAWN, other])))
    assert "cpu_frequency" not in tables
    assert ("buffer odd", "has another clock than the rest: left out") in [
        (r["place"], r["what"]) for r in rows(tables, "problem")
    ]


def test_larger_pages_are_read_by_their_size(tmp_path: Path) -> None:
    events = [switch(n * 100, n % 7 + 1, (n + 1) % 7 + 1) for n in range(500)]
    for size in (8192, 65536):
        data = [Buffer({0: pages(events, size)}, page_size=size)]
        for form in FORMS:
            tables = decoded(dat_bytes.write(tmp_path / "drawn.dat", written(form, data)))
            assert tables["context_switch"].num_rows == 500


@pytest.mark.parametrize(
    ("data", "line"),
    [
        (dat_bytes.MAGIC + b"5\0\0\x08\0\x10\0\0", "version 5 of trace.dat is not supported"),
        (dat_bytes.MAGIC + b"6\0\1\x08\0\x10\0\0", "big-endian"),
        (dat_bytes.MAGIC + b"7\0\0\x08\0\x10\0\0lzo\0x\0", "compressed with lzo: not supported"),
        (written("6", [Buffer({0: page(FIRST)}, clock="counter")]), "the clock counter does not"),
        (dat_bytes.MAGIC + b"7\0\0\x08\0\x10\0\0none\0x\0" + bytes(8), "not where the file says"),
    ],
)
def test_what_cannot_be_read_is_refused_in_one_line(data: bytes, line: str, tmp_path: Path) -> None:
    with pytest.raises(SchedlensError) as refused:
        decoded(dat_bytes.write(tmp_path / "odd.dat", data))
    assert line in str(refused.value)
    assert "\n" not in str(refused.value)


def test_a_folder_is_searched_for_files_that_begin_like_a_recording(tmp_path: Path) -> None:
    trace = dat_bytes.write(tmp_path / "one.dat", written("6", DRAWN))
    dat_bytes.write(tmp_path / "other.dat", b"of another program")
    (tmp_path / "folder.dat").mkdir()
    assert [found.trace for found in recording.gather([tmp_path])] == [trace]


def test_every_event_is_listed_with_its_fields(tmp_path: Path) -> None:
    trace = dat_bytes.write(tmp_path / "drawn.dat", written("7 zstd", DRAWN))
    batches = _decoders.events([str(trace)], providers=["sched"], names=["sched_wak*"])
    (line,) = "".join(batches).splitlines()
    event = json.loads(line)
    assert (event["ts_ns"], event["cpu"], event["tid"], event["provider"]) == (1_000, 0, 7, "sched")
    assert event["fields"] == {"comm": "t8", "pid": 8, "prio": 0, "target_cpu": 1}
