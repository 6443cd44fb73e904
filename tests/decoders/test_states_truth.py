"""Thread states and slices against two readers that share nothing with the decoders.

The QEMU recordings break no chain, so `perf sched timehist` is an oracle for them; the second
oracle computes every state from the text of `perf script`.
"""

from __future__ import annotations

import re
import shutil
import subprocess
from collections import defaultdict
from pathlib import Path

import duckdb
import pytest
import states_oracle
from conftest import command
from fixture_files import copied_session

pytestmark = pytest.mark.slow

MICROSECOND = 1_000


@pytest.fixture(scope="module")
def qemu(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, duckdb.DuckDBPyConnection]:
    """The session of the 10-core/20-thread machine, analyzed."""
    folder = copied_session(tmp_path_factory)
    command("analyze", str(folder), "--no-report")
    return folder, duckdb.connect(str(folder / "analysis.duckdb"), read_only=True)


def needs_perf() -> None:
    if shutil.which("perf") is None:
        pytest.skip("perf is not installed, and its text is the oracle")


def whole(con: duckdb.DuckDBPyConnection, trace_id: int) -> tuple[int, int]:
    """The window in which all tracepoints of all CPUs were on.

    perf enables them CPU by CPU and migrates with them: the switch by which it leaves a CPU is the
    first tracepoint record there. Then it disables them in the same way, and the first switch that
    only PERF_RECORD_SWITCH shows is the end.
    """
    return con.execute(
        f"""
        WITH enabled AS (
          SELECT max(first) AS begins FROM (
            SELECT min(ts) AS first FROM context_switch
            WHERE trace_id = {trace_id} AND source = 'switch' GROUP BY cpu)
        )
        SELECT any_value(begins), min(ts) - 1 FROM context_switch, enabled
        WHERE trace_id = {trace_id} AND source = 'switch_event' AND ts > begins
        """
    ).fetchall()[0]


def within(found: list[states_oracle.State], begin: int, end: int) -> list[states_oracle.State]:
    """The states that are entirely in the window."""
    return [state for state in found if state[0] >= begin and state[1] <= end]


def traces(con: duckdb.DuckDBPyConnection) -> list[tuple[int, str, int]]:
    return con.execute("SELECT trace_id, label, start_clock FROM trace ORDER BY 1").fetchall()


def test_guest_recording_has_no_chain_breaks(
    qemu: tuple[Path, duckdb.DuckDBPyConnection],
) -> None:
    """perf stops CPU by CPU, so only the ends are incomplete."""
    _, con = qemu
    lost = con.execute("SELECT DISTINCT signalled_by FROM loss ORDER BY 1").fetchall()
    assert lost == [("stream_end",)]
    inside = con.execute(
        """
        SELECT (SELECT count(*) FROM loss JOIN analysis_window AS run USING (trace_id)
                WHERE loss.end_ns > run.start_ns AND loss.start_ns < run.end_ns),
               (SELECT count(*) FROM context_switch JOIN analysis_window AS run USING (trace_id)
                WHERE source = 'switch_event' AND ts BETWEEN run.start_ns AND run.end_ns)
        """
    ).fetchall()
    assert inside == [(0, 0)]


def test_every_thread_state_matches_the_oracle(
    qemu: tuple[Path, duckdb.DuckDBPyConnection],
) -> None:
    needs_perf()
    folder, con = qemu
    compared = 0
    for trace_id, label, start in traces(con):
        oracle = states_oracle.read(folder / label / "perf.data")
        first, last = con.execute(
            f"SELECT first_ns, duration_ns FROM trace WHERE trace_id = {trace_id}"
        ).fetchall()[0]
        native: dict[int, list[states_oracle.State]] = defaultdict(list)
        lives: dict[int, set[int]] = defaultdict(set)
        for tid, utid, ts, dur, state in con.execute(
            "SELECT tid, utid, ts, dur, state FROM thread_state JOIN thread USING (utid) "
            f"WHERE thread.trace_id = {trace_id} AND dur > 0 ORDER BY utid, ts"
        ).fetchall():
            native[tid].append((ts, ts + dur, state))
            lives[tid].add(utid)
        begin, end = whole(con, trace_id)
        for tid in oracle.by_tid:
            known = [r.ns - start for r in oracle.by_tid[tid] if r.kind in {"in", "out"}]
            if tid == 0 or not known or len(lives[tid]) > 1:
                continue  # idle, never switched, or an id that two threads used
            # Before its first switch in the step the text alone does not show its state.
            since = next((ns for ns in known if ns > begin), end)
            expected = [
                (a - start, b - start, state)
                for a, b, state in states_oracle.states(oracle, tid, first + start, last + start)
            ]
            found = states_oracle.joined(native[tid])
            assert within(found, since, end) == within(expected, since, end), (label, tid)
            compared += len(within(found, since, end))
    assert compared >= 2000


_TIMEHIST = re.compile(
    r"^\s*(?P<s>\d+)\.(?P<us>\d{6})\s+\[(?P<cpu>\d+)\]\s+(?P<task>.*?)\s+"
    r"(?P<wait>\d+\.\d{3})\s+(?P<delay>\d+\.\d{3})\s+(?P<run>\d+\.\d{3})"
)
_TID = re.compile(r"\[(?P<tid>-?\d+)(?:/-?\d+)?\]$")


def test_slices_match_timehist(
    qemu: tuple[Path, duckdb.DuckDBPyConnection],
) -> None:
    """Run, wait, and delay to the microsecond, except where the data model differs from timehist.

    Its wait contains the delay. It shows no delay after a switch-out in state R, nor if the
    waking preceded the switch-out (wait 0 here: ready at once). Both sides round to 1 us.
    """
    needs_perf()
    folder, con = qemu
    compared = 0
    for trace_id, label, start in traces(con):
        text = subprocess.run(
            ["perf", "sched", "timehist", "-i", str(folder / label / "perf.data")],
            check=True, capture_output=True, text=True,
        ).stdout  # fmt: skip
        theirs = {}
        for line in text.splitlines():
            match = _TIMEHIST.match(line)
            tid = _TID.search(match["task"]) if match else None
            if match and tid:
                end = int(match["s"]) * 1_000_000 + int(match["us"])
                theirs[(int(match["cpu"]), end, int(tid["tid"]))] = tuple(
                    round(float(match[key]) * 1000) for key in ("wait", "delay", "run")
                )
        begin, ends = whole(con, trace_id)
        rows = con.execute(
            f"""
            SELECT cpu, (ts + dur + {start}) // 1000 AS ends_us, tid, dur, wait_ns, ready_ns,
                   lag(end_reason) OVER (PARTITION BY utid ORDER BY ts, dur) AS left_before
            FROM sched_slice JOIN thread USING (utid)
            WHERE thread.trace_id = {trace_id} AND NOT sched_slice.is_idle
              AND NOT left_censored AND NOT right_censored
              AND ts > {begin} AND ts + dur <= {ends}
            QUALIFY left_before IS NOT NULL
            """
        ).fetchall()
        for cpu, ended, tid, dur, wait, ready, left_before in rows:
            their_wait, their_delay, their_run = theirs[(cpu, ended, tid)]
            assert abs(their_run - dur / MICROSECOND) <= 1, (label, tid, ended)
            if wait is None or ready is None:
                continue
            assert abs(their_wait - (wait + ready) / MICROSECOND) <= 1, (label, tid, ended)
            if left_before == "blocked" and wait:
                assert abs(their_delay - ready / MICROSECOND) <= 1, (label, tid, ended)
            else:
                assert their_delay == 0, (label, tid, ended)
            compared += 1
    assert compared >= 600
