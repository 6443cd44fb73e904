"""Perfetto traces and ftrace texts load through trace_processor, or are refused in one line."""

from __future__ import annotations

import gzip
import sys
from pathlib import Path
from typing import Any

import duckdb
import fixture_files
import pytest
import shared_files
import trace_engine
from conftest import command
from loaded_recording import loaded

from schedlens.ask import findings, judging
from schedlens.errors import NothingToReadError, RecorderError, SchedlensError
from schedlens.export import perfetto_trace
from schedlens.export.proto_message import Message, varint
from schedlens.load.perfetto import content, processor

pytestmark = pytest.mark.slow

MS = 1_000_000
PUBLIC = ("test_trace.perfetto-trace", "android12_cpu_sched.pftrace")

# The waker on CPU 1 wakes A, which runs on CPU 0 from 1.0003 to 1.00085 s; then B from 1.00095 s.
TEXT = """# tracer: nop
#
          <idle>-0     (-----) [000] d..2     1.000000: sched_switch: prev_comm=swapper/0 prev_pid=0 prev_prio=120 prev_state=R ==> next_comm=B next_pid=12 next_prio=120
               B-12    (   12) [000] d..2     1.000100: sched_switch: prev_comm=B prev_pid=12 prev_prio=120 prev_state=S ==> next_comm=swapper/0 next_pid=0 next_prio=120
           waker-13    (   13) [001] d..2     1.000000: sched_switch: prev_comm=swapper/1 prev_pid=0 prev_prio=120 prev_state=R ==> next_comm=waker next_pid=13 next_prio=120
           waker-13    (   13) [001] d..3     1.000200: sched_waking: comm=A pid=11 prio=110 target_cpu=000
          <idle>-0     (-----) [000] d..2     1.000300: sched_switch: prev_comm=swapper/0 prev_pid=0 prev_prio=120 prev_state=R ==> next_comm=A next_pid=11 next_prio=110
               A-11    (   11) [000] d..2     1.000850: sched_switch: prev_comm=A prev_pid=11 prev_prio=110 prev_state=D ==> next_comm=swapper/0 next_pid=0 next_prio=120
          <idle>-0     (-----) [000] d..2     1.000950: sched_switch: prev_comm=swapper/0 prev_pid=0 prev_prio=120 prev_state=R ==> next_comm=B next_pid=12 next_prio=120
               B-12    (   12) [000] d..2     1.001200: sched_switch: prev_comm=B prev_pid=12 prev_prio=120 prev_state=R ==> next_comm=swapper/0 next_pid=0 next_prio=120
"""  # noqa: E501


@pytest.fixture(autouse=True)
def engine(monkeypatch: pytest.MonkeyPatch) -> None:
    """The engine of the tests."""
    monkeypatch.setenv(processor.VARIABLE, trace_engine.program())


def rows(con: duckdb.DuckDBPyConnection, sql: str) -> list[tuple[Any, ...]]:
    return con.execute(sql).fetchall()


SLICES = (
    "SELECT s.cpu, s.ts, s.dur, t.tid, s.priority FROM sched_slice AS s JOIN thread AS t "
    "USING (utid) ORDER BY s.cpu, s.ts"
)


@pytest.fixture(scope="module")
def text(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The drawn text; its name says nothing."""
    path = tmp_path_factory.mktemp("text") / "drawn"
    path.write_text(TEXT)
    return path


def test_text_has_slices_states_and_wakers(text: Path, tmp_path: Path) -> None:
    with loaded(text, tmp_path) as con:
        assert rows(con, SLICES.replace("ORDER", "WHERE NOT t.is_idle ORDER")) == [
            (0, 0, 100_000, 12, 120), (0, 300_000, 550_000, 11, 110),
            (0, 950_000, 250_000, 12, 120), (1, 0, 1_200_000, 13, 120),
        ]  # fmt: skip
        states = (
            "SELECT s.ts, s.dur, s.state, s.reason, w.tid FROM thread_state AS s JOIN thread AS t "
            "USING (utid) LEFT JOIN thread AS w ON w.utid = s.waker_utid WHERE t.name = 'A' "
            "ORDER BY ts"
        )
        assert rows(con, states) == [
            (0, 200_000, "waiting", None, None),
            (200_000, 100_000, "ready", None, 13),
            (300_000, 550_000, "running", None, None),
            (850_000, 350_000, "waiting", "D", None),
        ]
        assert rows(con, "SELECT source, path, duration_ns, clock_name FROM trace") == [
            ("perfetto", str(text), 1_200_000, "boottime")
        ]
        # Frequencies and idle states were not recorded, which is not the same as no changes.
        assert rows(con, "SELECT count(*) FROM loss WHERE signalled_by <> 'stream_end'") == [(0,)]


@pytest.mark.parametrize("name", PUBLIC)
def test_public_trace_has_the_slices_of_the_engine(name: str, tmp_path: Path) -> None:
    path = shared_files.need(f"traces/perfetto/{name}") / "traces" / "perfetto" / name
    with trace_engine.loaded(path) as engine:
        theirs = engine.rows(
            "SELECT s.ts, s.dur, s.cpu, iif(s.utid = 0, 0, t.tid) AS tid, s.priority "
            "FROM sched AS s JOIN thread AS t USING (utid) WHERE s.dur > 0"
        )
        wakeups = engine.rows(
            "SELECT count(*) AS n FROM ftrace_event "
            "WHERE name IN ('sched_waking', 'sched_wakeup', 'sched_wakeup_new')"
        )
    with loaded(path, tmp_path) as con:
        ((base,),) = rows(con, "SELECT start_clock FROM trace")
        found = {(ts, dur, cpu, tid, prio) for cpu, ts, dur, tid, prio in rows(con, SLICES)}
        missing = {(ts - base, *rest) for ts, *rest in theirs} - found
        assert missing == set()
        assert rows(con, "SELECT count(*) FROM wakeup") == wakeups
        # All analyzers run.
        judgement = judging.judge_all(findings.Scope(con))
        assert len(judgement.outcomes) >= len(judging.analyzers()) - len(judgement.findings)


def test_public_trace_has_frames_idle_states_and_frequencies(tmp_path: Path) -> None:
    place = shared_files.need(*(f"traces/perfetto/{name}" for name in PUBLIC)) / "traces/perfetto"
    counts = (
        "SELECT (SELECT count(*) FROM frame), (SELECT count(*) FROM cpu_idle), "
        "(SELECT count(*) FROM cpu_frequency), (SELECT count(*) FROM mark)"
    )
    found = []
    for name in PUBLIC:
        with loaded(place / name, tmp_path) as con:
            found += rows(con, counts)
    assert found == [(0, 5843, 168, 1), (175, 6427, 0, 342)]


def test_exported_recording_loads_with_the_same_schedule(
    tmp_path: Path, tmp_path_factory: pytest.TempPathFactory
) -> None:
    path = fixture_files.fixture("plain", tmp_path_factory)
    # The trace ends at its last event, and so do the slices that are open there.
    closed = "WHERE s.dur > 0 AND NOT s.right_censored AND t.name <> 'lost events' ORDER"
    own = SLICES.replace("ORDER", closed)
    trace = tmp_path / "again"
    ready = (
        "SELECT s.ts, s.dur, t.tid, w.tid FROM thread_state AS s JOIN thread AS t USING (utid) "
        "JOIN thread AS w ON w.utid = s.waker_utid WHERE s.state = 'ready' ORDER BY ALL"
    )
    with loaded(path, tmp_path) as con:
        perfetto_trace.save(con, 1, trace)
        before = [rows(con, sql) for sql in (own, ready)]
    with loaded(trace, tmp_path) as con:
        after = [rows(con, sql) for sql in (own, ready)]
    without = [(cpu, ts, dur, tid) for cpu, ts, dur, tid, _ in before[0]]
    assert [(cpu, ts, dur, tid) for cpu, ts, dur, tid, _ in after[0]] == without
    assert after[1] == before[1]


def packet(field: int, message: Message, ts: int = 1) -> bytes:
    whole = bytes(Message().number(8, ts).number(10, 1).message(field, message))
    return b"\x0a" + varint(len(whole)) + whole


def switch(ts: int, prev: int, state: int, entered: int) -> Message:
    fields = Message().text(1, f"t{prev}").number(2, prev).number(3, 120).number(4, state)
    fields.text(5, f"t{entered}").number(6, entered).number(7, 120)
    return Message().number(1, ts).number(2, prev).message(4, fields)


def test_missing_switch_is_a_gap(tmp_path: Path) -> None:
    # cpu 0  t5 from 1 to 2 ms; then t7 leaves at 4 ms, which nobody saw enter.
    bundle = Message().number(1, 0)
    for event in (switch(MS, 0, 0, 5), switch(2 * MS, 5, 1, 6), switch(4 * MS, 7, 1, 0),
                  switch(5 * MS, 0, 0, 6), switch(6 * MS, 6, 1, 0)):  # fmt: skip
        bundle.message(2, event)
    path = tmp_path / "broken"
    path.write_bytes(packet(1, bundle))
    with loaded(path, tmp_path) as con:
        assert rows(con, "SELECT cpu, ts, dur, state FROM cpu_state ORDER BY ts") == [
            (0, 0, MS, "thread"), (0, MS, 2 * MS, "unknown"), (0, 3 * MS, MS, "idle"),
            (0, 4 * MS, MS, "thread"),
        ]  # fmt: skip
        ((what, count),) = rows(con, "SELECT what, count FROM problem WHERE place LIKE 'trace_%'")
        assert (what.partition(":")[0], count) == ("mismatched_sched_switch_tids", 1)


def track(uuid: int, name: str, parent: int = 0) -> Message:
    """A counter track in bytes; `parent` is the track of its thread."""
    fields = Message().number(1, uuid).text(2, name).message(8, Message().number(3, 3))
    return fields.number(5, parent) if parent else fields


def test_counters_are_read_with_what_they_are_about(tmp_path: Path) -> None:
    bundle = Message().number(1, 0)
    for event in (switch(MS, 0, 0, 5), switch(9 * MS, 5, 1, 0)):
        bundle.message(2, event)

    def value(ts: int, uuid: int, number: int) -> bytes:
        return packet(11, Message().number(9, 4).number(11, uuid).number(30, number), ts)

    path = tmp_path / "counters"
    path.write_bytes(
        packet(1, bundle) + packet(60, track(77, "heap"))
        + packet(60, Message().number(1, 80).message(4, Message().number(1, 5).number(2, 5)))
            + packet(60, track(78, "queue", parent=80))
            + packet(60, Message().number(1, 81).message(3, Message().number(1, 5).text(6, "game")))
        + value(2 * MS, 77, 100) + value(4 * MS, 77, 300) + value(5 * MS, 78, 7)
        # Before the first event of the scheduler, and after the last one.
        + value(MS // 2, 77, 1) + value(10 * MS, 77, 2)
    )  # fmt: skip
    with loaded(path, tmp_path) as con:
        assert rows(
            con,
            "SELECT c.ts, c.name, c.unit, t.tid, c.value FROM track_counter AS c "
            "LEFT JOIN thread AS t USING (utid) ORDER BY c.ts",
        ) == [
            (MS, "heap", "bytes", None, 100.0), (3 * MS, "heap", "bytes", None, 300.0),
            (4 * MS, "queue", "bytes", 5, 7.0),
        ]  # fmt: skip
        assert rows(
            con,
            "SELECT name, unit, readings, first_value, least, mean, most, last_value "
            "FROM track_counter_summary WHERE utid IS NULL",
        ) == [("heap", "bytes", 2, 100.0, 100.0, 200.0, 300.0, 300.0)]
        # Counters of a process are also those of its threads.
        assert rows(con, "SELECT name FROM track_counter_summary(p_process := 'game')") == [
            ("queue",)
        ]


def test_counters_of_a_public_trace_are_those_of_the_engine(tmp_path: Path) -> None:
    path = shared_files.need(f"traces/perfetto/{PUBLIC[1]}") / "traces" / "perfetto" / PUBLIC[1]
    with trace_engine.loaded(path) as engine:
        wanted = engine.rows(
            "SELECT t.name, t.unit, c.ts, c.value, p.pid FROM counter AS c "
            "JOIN counter_track AS t ON t.id = c.track_id "
            "LEFT JOIN process_counter_track AS k ON k.id = t.id "
            "LEFT JOIN process AS p USING (upid) WHERE t.name NOT IN ('cpuidle', 'cpufreq')"
        )
    with loaded(path, tmp_path) as con:
        ((base, last),) = rows(con, "SELECT start_clock, duration_ns FROM trace")
        inside = [
            (name, unit or None, ts - base, value, pid)
            for name, unit, ts, value, pid in wanted
            if 0 <= ts - base <= last
        ]
        assert len(inside) > 10_000
        found = rows(
            con,
            "SELECT c.name, c.unit, c.ts, c.value, p.pid FROM track_counter AS c "
            "LEFT JOIN process AS p USING (upid)",
        )
        assert sorted(found, key=str) == sorted(inside, key=str)
        ((processes,),) = rows(
            con, "SELECT count(DISTINCT upid) FROM track_counter_summary WHERE name = 'mem.rss'"
        )
        assert processes > 50


def moved(ts: int, tid: int, path: str, hierarchy: int) -> Message:
    fields = Message().number(1, hierarchy).number(3, tid).text(7, path)
    return Message().number(1, ts).number(2, 5).message(67, fields)


def test_moves_between_cgroups_are_read(tmp_path: Path) -> None:
    bundle = Message().number(1, 0)
    for event in (
        switch(MS, 0, 0, 5),
        moved(2 * MS, 5, "/system.slice/game.service", 0),
        moved(3 * MS, 5, "/cpu", 4),
        switch(4 * MS, 5, 1, 0),
    ):
        bundle.message(2, event)
    path = tmp_path / "moved"
    path.write_bytes(packet(1, bundle))
    with loaded(path, tmp_path) as con:
        asked = "SELECT from_ns, service FROM thread_group WHERE service IS NOT NULL"
        assert rows(con, asked) == [(MS, "game.service")]


def test_lost_events_without_a_time_are_stated(tmp_path: Path) -> None:
    bundle = Message().number(1, 0).number(3, 1)
    for event in (switch(MS, 0, 0, 5), switch(2 * MS, 5, 1, 0)):
        bundle.message(2, event)
    path = tmp_path / "lost"
    path.write_bytes(packet(1, bundle))
    with loaded(path, tmp_path) as con:
        stated = rows(con, "SELECT cpu, start_ns, events, signalled_by FROM loss")
        assert stated == [(None, None, None, "ftrace_cpu_has_data_loss")]
        assert "ftrace_cpu_has_data_loss" in rows(con, "SELECT what FROM problem LIMIT 1")[0][0]


def test_capacities_are_core_types(tmp_path: Path) -> None:
    bundles = b"".join(
        packet(1, Message().number(1, cpu).message(2, switch(MS, 0, 0, 5 + cpu))
               .message(2, switch(2 * MS, 5 + cpu, 1, 0)))
        for cpu in (0, 1)
    )  # fmt: skip
    cpus = Message().message(1, Message().number(3, 400)).message(1, Message().number(3, 1024))
    path = tmp_path / "capacities"
    path.write_bytes(bundles + packet(67, cpus))
    with loaded(path, tmp_path) as con:
        asked = "SELECT cpu, capacity, efficiency_class, core_type, core FROM cpu ORDER BY cpu"
        assert rows(con, asked) == [(0, 400, 0, "E", None), (1, 1024, 1, "P", None)]


@pytest.mark.parametrize(
    ("begin", "expected"),
    [
        (TEXT.encode(), True),
        (TEXT.partition("#\n")[2].encode(), True),
        (gzip.compress(TEXT.encode(), mtime=0), True),
        (packet(1, Message().number(1, 0)) * 2, True),
        (b"\n\x05hello world", False),
        (b"\nPERFILE2", False),
        (b"PERFILE2" + bytes(100), False),
        (b"", False),
        (b"\x0a", False),
        (b"\x0a\xff\xff\xff\xff\xff\xff", False),
        (b"Application,ProcessID\n", False),
        (gzip.compress(b"nothing", mtime=0)[:9], False),
    ],
    ids=[
        "text",
        "text without head",
        "compressed text",
        "packets",
        "text that looks like a packet",
        "another packet",
        "perf.data",
        "empty",
        "one byte",
        "number without end",
        "csv",
        "cut compression",
    ],
)
def test_content_decides(begin: bytes, expected: bool, tmp_path: Path) -> None:
    path = tmp_path / "any.name"
    path.write_bytes(begin)
    assert content.is_one(path) == expected


def test_trace_without_a_schedule_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "empty"
    path.write_bytes(packet(45, Message().text(4, "x")) * 2)
    with (
        pytest.raises(NothingToReadError, match=r"empty: contains no scheduling events: record"),
        loaded(path, tmp_path),
    ):
        pass


def test_damaged_trace_is_one_line(tmp_path: Path) -> None:
    path = tmp_path / "damaged"
    path.write_bytes(packet(1, Message().number(1, 0))[:-1] + b"\x0a\x05\xff\xff\xff\xff\xff")
    with pytest.raises(SchedlensError) as caught, loaded(path, tmp_path):
        pass
    assert len(str(caught.value).splitlines()) == 1


def test_events_of_a_trace_are_refused(text: Path) -> None:
    done = command("schedlens", "events", str(text), check=False)
    assert done.returncode == 2
    assert "is a Perfetto trace: " in done.stderr
    assert done.stderr.count("\n") == 1


def test_inspect_shows_what_a_text_contains(text: Path) -> None:
    done = command("schedlens", "inspect", str(text), "--json")
    assert '"context_switch": 7' in done.stdout


def test_named_program_that_is_missing_is_reported(
    text: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(processor.VARIABLE, "/nowhere/shell")
    with (
        pytest.raises(RecorderError, match=r"names /nowhere/shell, which does not exist"),
        processor.opened(text),
    ):
        pass


def test_failed_download_is_one_line(
    text: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    offline = (
        "import sys; print('Downloading'); print('curl: (6) no host', file=sys.stderr); "
        "raise OSError('command failed')"
    )
    monkeypatch.delenv(processor.VARIABLE)
    monkeypatch.setenv("PATH", "")
    monkeypatch.setattr(processor, "_DOWNLOAD", offline)
    with pytest.raises(RecorderError) as caught, processor.opened(text):
        pass
    assert str(caught.value).startswith(
        f"{text}: needs Perfetto's trace_processor_shell, which is not installed and could not be "
        "downloaded (curl: (6) no host): install trace_processor_shell"
    )
    assert "\n" not in str(caught.value)
    assert capfd.readouterr() == ("", "")


def test_missing_package_names_the_extra(text: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "perfetto.trace_processor", None)
    with (
        pytest.raises(SchedlensError, match=r"pip install schedlens\[perfetto\]"),
        processor.opened(text),
    ):
        pass


@pytest.mark.parametrize(
    ("script", "reason"),
    [
        ("#!/bin/sh\nexit 1\n", "it ended with code 1"),
        ("#!/bin/sh\necho no libc++.so.1 >&2; exit 127\n", "no libc++.so.1"),
        ("\0", "Exec format error"),
    ],
)
def test_program_that_does_not_start_is_no_fault_of_the_file(
    script: str, reason: str, text: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    program = tmp_path / "shell"
    program.write_text(script)
    program.chmod(0o755)
    monkeypatch.setenv(processor.VARIABLE, str(program))
    with pytest.raises(RecorderError) as caught, processor.opened(text):
        pass
    assert str(caught.value).startswith(
        f"{program} does not start ({reason}): install trace_processor_shell"
    )
    assert "\n" not in str(caught.value)
