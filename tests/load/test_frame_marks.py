"""Frames that a program marked: the file, and how it joins a recording."""

from __future__ import annotations

import tempfile
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import duckdb
import pytest
from conftest import command
from decoded import decoded
from drawn_trace import Cpu, DrawnTrace, Slice, drawn_database
from fixture_files import fixture
from hypothesis import given, settings
from hypothesis import strategies as st

from schedlens.errors import DamagedTraceError, NotATraceError, UnsupportedTraceError
from schedlens.load import recording
from schedlens.load.frames import capture, program_stamps
from schedlens.load.frames.program_stamps import FrameMark

pytestmark = pytest.mark.slow

ZERO = 5_000_000_000
MS = 1_000_000


def write(path: Path, *lines: str) -> Path:
    path.write_text("\n".join(lines) + "\n", encoding="utf-8")
    return path


def test_frame_lasts_to_its_end_or_the_next_frame(tmp_path: Path) -> None:
    path = write(
        tmp_path / "frames.csv",
        "Start_Mono_ns, name,pid,end_mono_ns,tid,present_mono_ns",
        "300,menu,7,,8,",
        "100,menu,7,,8,140",
        "",
        "200,menu,7,260,8,",
        "150,menu,7,,9,",
        "120,menu,5,,,",
        "130,menu,5,,,",
    )
    assert program_stamps.is_one(path)
    assert program_stamps.read(path).frames == (
        FrameMark(5, None, 120, None, 130),
        FrameMark(5, None, 130, None, None),
        FrameMark(7, 8, 100, 140, 200),
        FrameMark(7, 9, 150, None, None),
        FrameMark(7, 8, 200, None, 260),
        FrameMark(7, 8, 300, None, None),
    )


def test_lines_without_frame_are_counted(tmp_path: Path) -> None:
    path = write(
        tmp_path / "frames.csv",
        "pid,start_mono_ns,present_mono_ns,end_mono_ns",
        "7,100,90,",  # presented before it started
        "7,100,,90",  # ended before it started
        "7,100,soon,",
        "7,-1,,",
        "7,1e9,,",
        "7,²,,",
        "7,99999999999999999999,,",
        "seven,100,,",
        "7",
        "7,100,100,100",
    )
    read = program_stamps.read(path)
    assert read.frames == (FrameMark(7, None, 100, 100, 100),)
    assert read.skipped == 9


def test_invalid_files_are_explained(tmp_path: Path) -> None:
    none = write(tmp_path / "none.csv", "pid,begin", "7,100")
    assert not program_stamps.is_one(none)
    with pytest.raises(NotATraceError, match="does not name pid and start_mono_ns"):
        program_stamps.read(none)
    empty = write(tmp_path / "empty.csv", "pid,start_mono_ns", "7,")
    with pytest.raises(DamagedTraceError, match=r"no readable frame \(1 bad lines\)"):
        program_stamps.read(empty)
    with pytest.raises(NotATraceError, match="cannot read"):
        program_stamps.read(tmp_path)
    assert not program_stamps.is_one(tmp_path / "absent.csv")


@settings(deadline=None)
@given(st.binary(max_size=300))
def test_any_bytes_give_frames_or_one_of_two_errors(data: bytes) -> None:
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "frames.csv"
        path.write_bytes(b"pid,start_mono_ns,tid\n7,5,5\n" + data)
        try:
            found = program_stamps.read(path).frames
        except (DamagedTraceError, NotATraceError):
            return
        assert FrameMark(7, 5, 5, None, None) in [replace(one, end_ns=None) for one in found]


# ns      0    1000   2000   3000   4000   5000     ns 0 is 5 s of CLOCK_MONOTONIC
# main    running, CPU 0 -----------------------
# frames  |1----|2-----------|3-----...              of main (3 has no end)
#           |1'...                                   of a thread that is not in the recording
@pytest.fixture
def drawn() -> Iterator[DrawnTrace]:
    with drawn_database() as con:
        trace = DrawnTrace(
            con, [Slice("game/main", 0, 0, 5000, end="trace_end")], [Cpu(0, 0)], 5000
        )
        con.execute(
            "UPDATE trace SET clock_name = 'monotonic', start_clock = ?, clock_hz = 1000000000",
            [ZERO],
        )
        yield trace


def _lines(trace: DrawnTrace) -> list[str]:
    pid = trace.con.execute("SELECT pid FROM process WHERE name = 'game'").fetchall()[0][0]
    tid = trace.tid("game/main")
    return [
        "pid,tid,start_mono_ns,present_mono_ns",
        f"{pid},{tid},{ZERO + 1000},{ZERO + 1400}",
        f"{pid},{tid},{ZERO + 2000},",
        f"{pid},{tid},{ZERO + 4000},",
        f"{pid},77,{ZERO + 1500},",
        f"{pid},{tid},{ZERO + 90_000},",  # after the recording
        "x,,,",
    ]


def test_frames_join_exactly_and_unmatched_are_counted(drawn: DrawnTrace, tmp_path: Path) -> None:
    path = write(tmp_path / "frames.csv", *_lines(drawn))
    capture.load(drawn.con, 1, path)
    main = drawn.utid("game/main")
    assert drawn.con.execute(
        "SELECT frame, process, utid, start_ns, dur_ns, cpu_busy_ns, gpu_busy_ns, displayed_ns, "
        "dropped, dialect, clock_residual_ns FROM frame ORDER BY start_ns"
    ).fetchall() == [
        (1, "game", main, 1000, 1000, 400, None, None, None, "mark", 0),
        (2, "game", None, 1500, None, None, None, None, None, "mark", 0),
        (3, "game", main, 2000, 2000, None, None, None, None, "mark", 0),
        (4, "game", main, 4000, 86_000, None, None, None, None, "mark", 0),
    ]
    assert drawn.con.execute("SELECT what, count FROM problem ORDER BY what").fetchall() == [
        ("frames outside the recording", 1),
        ("frames whose thread is not in the recording", 1),
        ("lines without a frame", 1),
    ]
    assert drawn.con.execute("SELECT DISTINCT bound_by FROM frame_time").fetchall() == [(None,)]


def test_other_clock_and_other_time_are_refused(drawn: DrawnTrace, tmp_path: Path) -> None:
    late = write(tmp_path / "late.csv", "pid,start_mono_ns", f"7,{ZERO + 6_000_000_000}")
    with pytest.raises(UnsupportedTraceError, match=r"11\.000 s and 11\.000 s of CLOCK_MONOTONIC"):
        capture.load(drawn.con, 1, late)
    drawn.con.execute("UPDATE trace SET clock_name = 'perf'")
    path = write(tmp_path / "frames.csv", *_lines(drawn))
    with pytest.raises(UnsupportedTraceError, match="perf record -k CLOCK_MONOTONIC"):
        capture.load(drawn.con, 1, path)
    assert drawn.con.execute("SELECT count(*) FROM frame").fetchall() == [(0,)]


def test_frame_file_belongs_to_the_recording_before_it(tmp_path: Path) -> None:
    path = write(tmp_path / "frames.csv", "pid,start_mono_ns", "7,100")
    one, two = tmp_path / "one.perf.data", tmp_path / "two.perf.data"
    for trace in (one, two):
        trace.write_bytes(b"PERFILE2")
    found = recording.gather([one, path, two])
    assert [known.frames for known in found] == [path, None]
    done = command("analyze", str(path), check=False)
    assert done.returncode == 2
    assert "contains only frames: also name a trace of the same time" in done.stderr


def test_gate_fails_if_frames_stutter(
    tmp_path: Path, tmp_path_factory: pytest.TempPathFactory
) -> None:
    trace = fixture("own_tree", tmp_path_factory)
    tables = decoded(trace)
    (facts,) = tables["trace"].select(["start_clock", "duration_ns"]).to_pylist()
    start, last = facts["start_clock"], facts["duration_ns"]
    assert last >= 220 * MS
    pids = {row["upid"]: row["pid"] for row in tables["process"].to_pylist()}
    tid, pid = next(
        (row["tid"], pids[row["upid"]])
        for row in tables["thread"].to_pylist()
        if not row["is_idle"] and row["upid"] in pids
    )
    # Ten frames of 10 ms, the sixth with 70 ms.
    begins = [10 * n + (60 if n > 5 else 0) for n in range(11)]
    path = write(
        tmp_path / "frames.csv",
        "pid,tid,start_mono_ns",
        *(f"{pid},{tid},{start + ms * MS}" for ms in begins),
    )

    def gated(severity: str, *recorded: str) -> tuple[int, str]:
        done = command(
            "analyze", *recorded, "-o", str(tmp_path / "out"), "--only", "frame_time",
            "--no-report", "--fail-on", severity, check=False,
        )  # fmt: skip
        return done.returncode, done.stderr

    said = "analyze: --fail-on critical: 1 finding\n"
    assert gated("critical", str(trace), str(path)) == (1, said)
    code, _ = gated("critical", str(trace))
    assert code == 0
    with duckdb.connect(str(tmp_path / "out" / "analysis.duckdb"), read_only=True) as con:
        assert con.execute("FROM finding").fetchall() == []
        assert con.execute("SELECT outcome FROM analyzer_outcome").fetchall() == [("not_recorded",)]
