"""Texts of xperf's dumper: rows, what they lack, and what is refused."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from conftest import command
from loaded_recording import loaded
from xperf_lines import HEAD, NOBODY, OTHER, ROWS, A, B, ready, switch

from schedlens import _decoders
from schedlens.errors import NothingToReadError


def text(folder: Path, content: str, encoding: str = "utf-8") -> Path:
    path = folder / "drawn"
    path.write_bytes(content.encode(encoding))
    return path


def rows(path: Path, folder: Path, sql: str) -> list[tuple[Any, ...]]:
    with loaded(path, folder) as con:
        return con.execute(sql).fetchall()


SLICES = (
    "SELECT s.cpu, t.tid, s.ts, s.dur, s.ready_ns, s.wait_ns, s.end_reason, w.tid "
    "FROM sched_slice AS s JOIN thread AS t USING (utid) "
    "LEFT JOIN thread AS w ON w.utid = s.waker_utid WHERE NOT s.is_idle ORDER BY s.cpu, s.ts"
)
WANTED = [
    (0, 8, 0, 50_000, None, None, "blocked", None),
    (0, 8, 100_000, 50_000, 20_000, 30_000, "preempted", 9),
    (1, 9, 0, 160_000, None, None, "blocked", None),
]


@pytest.mark.parametrize("encoding", ["utf-8", "utf-8-sig", "utf-16", "cp1252"])
def test_slices_and_wakers_in_every_encoding(encoding: str, tmp_path: Path) -> None:
    path = text(tmp_path, HEAD + ROWS, encoding)
    assert rows(path, tmp_path, SLICES) == WANTED


def test_windows_line_ends_are_read(tmp_path: Path) -> None:
    path = text(tmp_path, (HEAD + ROWS).replace("\n", "\r\n"))
    assert rows(path, tmp_path, SLICES) == WANTED


def test_columns_of_wpa_and_facts_of_the_recording(tmp_path: Path) -> None:
    path = text(tmp_path, HEAD + ROWS)
    with loaded(path, tmp_path) as con:
        assert con.execute(
            "SELECT source, os, clock_name, start_clock, events_lost, path, "
            "epoch_ns(start_time_utc) FROM trace"
        ).fetchall() == [
            ("xperf", "Windows 10.0.26100", "trace start", 1_000_000, 0, str(path),
             (133_000_000_000_000_000 - 116_444_736_000_000_000) * 100 + 1_000_000)
        ]  # fmt: skip
        precise = con.execute(
            'SELECT "New Process", "New Thread Id", "Ready (µs)", "Waits (µs)", '
            '"Readying Thread Id", "New In Pri", "Old Thread Id", "CPU" '
            'FROM wpa.cpu_usage_precise WHERE "Ready (µs)" IS NOT NULL'
        ).fetchall()
        assert precise == [("game.exe (100)", 8, 20.0, 30.0, 9, 9, 0, 0)]
        kept = con.execute(
            "SELECT prev_wait_reason, prev_wait_mode, prev_remaining_quantum, prev_cstate "
            "FROM context_switch WHERE cpu = 0 ORDER BY ts"
        ).fetchall()
        assert kept == [(0, 1, 0, 1), (6, 1, 84_017_152, None), (0, 1, 0, 1), (32, 1, 0, None)]


def test_a_reused_thread_id_is_another_thread(tmp_path: Path) -> None:
    more = (
        "                  T-End,       1200, game.exe ( 100),          9, 0x0\n"
        "                T-Start,       1300, game.exe ( 100),          9, 0x0\n"
        + switch(1310, 1, B, NOBODY, "Running", "Executive")
        + switch(1320, 1, (OTHER, 8), B)
    )
    path = text(tmp_path, HEAD + ROWS + more)
    found = rows(
        path, tmp_path,
        "SELECT t.tid, p.pid, p.name, t.start_ns, t.end_ns FROM thread AS t "
        "JOIN process AS p USING (upid) WHERE NOT t.is_idle ORDER BY t.tid, t.utid",
    )  # fmt: skip
    assert found == [
        (8, 100, "game.exe", None, None),
        (8, 77, "a, b.exe", None, None),
        (9, 100, "game.exe", None, 200_000),
        (9, 100, "game.exe", 300_000, None),
    ]


def test_ready_records_of_idle_cpus_have_no_waker(tmp_path: Path) -> None:
    path = text(tmp_path, HEAD + ROWS.replace(ready(1080, B, A), ready(1080, NOBODY, A, 1)))
    with loaded(path, tmp_path) as con:
        assert con.execute("SELECT ts, cpu, waker_utid, in_interrupt FROM wakeup").fetchall() == [
            (80_000, 0, None, True)
        ]
        ((what, count),) = con.execute(
            "SELECT what, count FROM problem WHERE place = 'ready records'"
        ).fetchall()
        assert (what.partition(",")[0], count) == ("the text does not name their CPU", 1)


def test_lost_and_overwritten_records_are_losses(tmp_path: Path) -> None:
    head = HEAD.replace("Events Lost: 0", "Events Lost: 7").replace(
        "FirstReliableCSwitchEventTimeStamp, 0", "FirstReliableCSwitchEventTimeStamp, 1040"
    )
    found = rows(
        text(tmp_path, head + ROWS), tmp_path,
        "SELECT cpu, start_ns, end_ns, events, signalled_by FROM loss ORDER BY ALL",
    )  # fmt: skip
    assert (None, None, None, 7, "EventsLost") in found
    assert {(cpu, begin, end) for cpu, begin, end, _, kind in found if kind == "overwritten"} == {
        (0, 0, 40_000), (1, 0, 40_000)
    }  # fmt: skip


def test_a_recording_without_ready_records_says_so(tmp_path: Path) -> None:
    lines = (HEAD + ROWS).splitlines(keepends=True)
    path = text(tmp_path, "".join(line for line in lines if "ReadyThread" not in line))
    with loaded(path, tmp_path) as con:
        found = con.execute("SELECT recorded FROM recorded_kind WHERE kind = 'wakeups'").fetchall()
    assert found == [(False,)]


def test_a_line_that_is_cut_is_left_out_and_reported(tmp_path: Path) -> None:
    path = text(tmp_path, HEAD + ROWS[:-4])
    with loaded(path, tmp_path) as con:
        ((place, what),) = con.execute("SELECT place, what FROM problem").fetchall()
        switches = con.execute("SELECT count(*) FROM context_switch").fetchall()
    assert place == "line 16"
    assert what.startswith("the last line has no end: the file is cut off there")
    assert switches == [(5,)]


def test_a_text_without_switches_is_refused_in_one_line(tmp_path: Path) -> None:
    path = text(tmp_path, HEAD)
    assert _decoders.text_kind(str(path)) == "xperf"
    with pytest.raises(NothingToReadError, match="contains no context switches"):
        rows(path, tmp_path, SLICES)


def test_inspect_and_events_name_the_text(tmp_path: Path) -> None:
    path = text(tmp_path, HEAD + ROWS)
    shown = command("schedlens", "inspect", str(path), check=False)
    assert (shown.returncode, "xperf" in shown.stdout) == (0, True)
    events = command("schedlens", "events", str(path), check=False)
    assert (events.returncode, "is a text" in events.stderr) == (2, True)
