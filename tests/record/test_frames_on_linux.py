"""A real game on this machine: its own stamps against the recording, and why frames were late."""

from __future__ import annotations

import csv
import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import duckdb
import pytest
from collect_command import collect
from conftest import command, needs_tracing

pytestmark = pytest.mark.records

MS = 1_000_000
PROGRAM = Path(__file__).parents[1] / "support" / "linux_faults.py"
# The kernel `game`, variant `stutter`: one job every so many frames has this much work.
EVERY, LONG_NS = 30, 40 * MS

Rows = list[tuple[Any, ...]]


class Played:
    """A recorded session of one step, and its database."""

    def __init__(self, session: Path) -> None:
        words = ("--only", "frame_time", "--no-report", "--json")
        done = command("analyze", str(session), *words, check=False)
        assert done.returncode in (0, 1), done.stderr
        self.findings = json.loads(done.stdout)["findings"]
        (self.step,) = (path.parent for path in session.glob("*/step.json"))
        self.con = duckdb.connect(str(session / "analysis.duckdb"), read_only=True)

    def rows(self, sql: str) -> Rows:
        return self.con.execute(sql).fetchall()

    def stamps(self) -> list[dict[str, int | None]]:
        """The lines of frames.csv."""
        with (self.step / "frames.csv").open(newline="") as file:
            return [
                {name: int(text) if text else None for name, text in row.items()}
                for row in csv.DictReader(file)
            ]


@pytest.fixture(scope="module")
def played(tmp_path_factory: pytest.TempPathFactory, workload: str) -> Played:
    needs_tracing()
    session = tmp_path_factory.mktemp("game") / "session"
    done = collect(
        "--workload", "game", "--variant", "stutter", "--placement", "default",
        "--seconds", "2.5", "-o", str(session),
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    return Played(session)


def test_each_stamp_is_a_frame_of_its_thread(played: Played) -> None:
    stamps = played.stamps()
    found = played.rows(
        "SELECT f.start_ns + trace.start_clock, f.dur_ns, f.cpu_busy_ns, f.dialect, "
        "f.clock_residual_ns, thread.tid, thread.name, f.gpu_busy_ns, f.dropped FROM frame AS f "
        "JOIN trace USING (trace_id) JOIN thread USING (utid) ORDER BY f.frame"
    )
    # 60 per second, each 6 ms of work: even a machine where half of them are late is good enough.
    assert len(stamps) >= 60
    following = [*[stamp["start_mono_ns"] for stamp in stamps[1:]], None]
    assert found == [
        (
            stamp["start_mono_ns"],
            _less(after, stamp["start_mono_ns"]),
            _less(stamp["present_mono_ns"], stamp["start_mono_ns"]),
            "mark", 0, stamp["tid"], "render-00", None, None,
        )
        for stamp, after in zip(stamps, following, strict=True)
    ]  # fmt: skip


def _less(end: int | None, begin: int | None) -> int | None:
    return None if end is None or begin is None else end - begin


@pytest.mark.parametrize("path", ["false", "true"])
def test_parts_of_each_frame_sum_to_its_length(played: Played, path: str) -> None:
    frames = played.rows("SELECT frame, dur_ns FROM frame_time WHERE dur_ns > 0 ORDER BY frame")
    summed = played.rows(
        f"SELECT frame, sum(dur)::BIGINT FROM frame_ledger(p_path := {path}) "
        "GROUP BY frame ORDER BY frame"
    )
    assert summed == frames
    if path == "true":
        tiled = played.rows(
            "SELECT frame, sum(dur)::BIGINT, max(ts + dur) - min(ts) FROM frame_path "
            "SEMI JOIN (FROM frame_time WHERE dur_ns > 0) USING (upid, frame) "
            "GROUP BY frame ORDER BY frame"
        )
        assert tiled == [(frame, dur, dur) for frame, dur in frames]


def test_long_job_is_found_in_its_frame_and_thread(played: Played) -> None:
    late = played.rows(
        f"SELECT frame, stutter FROM frame_time WHERE frame % {EVERY} = 0 AND dur_ns IS NOT NULL "
        f"AND 1.5 * usual_ns < {LONG_NS} ORDER BY frame"
    )
    planted = [frame for frame, _ in late]
    # Frame 30 comes after half a second, however many later ones are late.
    assert EVERY in planted
    assert late == [(frame, True) for frame in planted]
    for frame in planted:
        on_path: dict[str, int] = dict(
            played.rows(
                "SELECT thread.name, sum(dur)::BIGINT FROM frame_ledger(p_path := true) "
                f"JOIN thread USING (utid) WHERE frame = {frame} AND part IN "
                "('run_p_alone', 'run_p_shared', 'run_e', 'run_other', 'interrupt') GROUP BY ALL"
            )
        )
        ((name, run_ns),) = played.rows(
            "SELECT thread.name, sum(least(s.ts + s.dur, f.start_ns + f.dur_ns) "
            "- greatest(s.ts, f.start_ns))::BIGINT AS run_ns FROM thread_state AS s "
            "JOIN frame_time AS f ON s.ts < f.start_ns + f.dur_ns AND s.ts + s.dur > f.start_ns "
            f"JOIN thread ON thread.utid = s.utid WHERE f.frame = {frame} AND state = 'running' "
            "AND (thread.name LIKE 'game-%' OR thread.name LIKE 'job-%') "
            "GROUP BY ALL ORDER BY run_ns DESC LIMIT 1"
        )
        # At least nine tenths of the work, whatever the clock is then, in one thread.
        assert run_ns >= 0.9 * LONG_NS, (frame, name, run_ns, on_path)
        # The path is on that thread, except while the render thread is busy itself:
        # about 2 ms, or more if the host takes its CPU away meanwhile.
        busy_ns = on_path.get("render-00", 0)
        assert on_path.get(name, 0) >= 0.9 * LONG_NS - max(0, busy_ns - 2 * MS), (frame, on_path)
    (finding,) = played.findings
    assert finding["severity"] in ("warning", "critical")
    assert finding["kind"] == "stutter"
    assert "frames of schedlens-workl cost" in finding["detail"]
    # The extra length of the planted frames is part of what the finding reports.
    over = played.rows(
        f"SELECT sum(over_ns)::BIGINT FROM frame_time WHERE frame IN ({str(planted)[1:-1]})"
    )
    assert finding["cost_ns"] >= over[0][0] >= 20 * MS * len(planted)


def test_fixed_rate_workload_has_no_scaling_curve(played: Played) -> None:
    assert played.rows("SELECT count(*) FROM run_throughput") == [(1,)]
    assert played.rows("FROM scaling_curve") == []


# CPU c    render render HOG HOG HOG render ...     the hog: real-time, 40 ms of each 400 ms
def test_frames_delayed_by_a_hog_are_attributed_to_it(workload: str, tmp_path: Path) -> None:
    needs_tracing()
    cpu = max(os.sched_getaffinity(0))
    words = [sys.executable, str(PROGRAM), "bursts", str(cpu)]
    with subprocess.Popen(words, stdout=subprocess.PIPE, text=True) as hog:
        assert hog.stdout is not None
        try:
            if hog.stdout.readline() != "ready\n":
                pytest.skip("no thread here may be real-time: nothing can delay the frames")
            done = collect(
                "--workload", "game", "--threads", "1", "--cpus", str(cpu), "--seconds", "2",
                "-o", str(tmp_path / "s"),
            )  # fmt: skip
        finally:
            hog.kill()
    assert done.returncode == 0, done.stderr
    played = Played(tmp_path / "s")
    held = played.rows(
        "SELECT frame, sum(dur)::BIGINT FROM frame_ledger WHERE stutter "
        "AND part = 'ready_all_busy' GROUP BY frame HAVING sum(dur) >= 30000000"
    )
    (finding,) = played.findings
    assert "render-00" in finding["detail"]
    assert "ready while all allowed CPUs were busy" in finding["detail"]
    # Five bursts in two seconds; one may hit the pause between two frames.
    instead = played.rows(
        "SELECT f.frame, sum(least(s.ts + s.dur, f.start_ns + f.dur_ns) "
        "- greatest(s.ts, f.start_ns))::BIGINT AS ns FROM frame AS f "
        "JOIN sched_slice AS s ON s.ts < f.start_ns + f.dur_ns AND s.ts + s.dur > f.start_ns "
        f"JOIN thread ON thread.utid = s.utid WHERE thread.name = 'frame-hog' AND s.cpu = {cpu} "
        "GROUP BY f.frame HAVING ns >= 30000000"
    )
    assert len({frame for frame, _ in held} & {frame for frame, _ in instead}) >= 3
