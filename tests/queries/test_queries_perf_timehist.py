"""A drawn timeline as `perf sched timehist` prints it, quirk by quirk; and real ones row by row."""

from __future__ import annotations

import re
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path

import duckdb
import pytest
from drawn_trace import Cpu, DrawnTrace, drawn_database

pytestmark = pytest.mark.records

US = 1000
ROW = re.compile(
    r"\s*(\d+\.\d+) \[(\d+)\]\s+(.*?)\s+(\d+\.\d{3})\s+(\d+\.\d{3})\s+(\d+\.\d{3})\s*$"
)


class Machine:
    """Two CPUs; the threads A and B of process 500 + n, rows added in time order."""

    def __init__(self, con: duckdb.DuckDBPyConnection) -> None:
        self.trace = DrawnTrace(con, [], [Cpu(0, 0), Cpu(1, 1)], 0)
        self.seq = 0
        self.known: dict[str, int] = {"idle0": self.trace.utid("swapper/0"),
                                      "idle1": self.trace.utid("swapper/1")}  # fmt: skip
        for table in ("sched_slice", "cpu_state_other", "context_switch"):
            con.execute(f"DELETE FROM {table}")

    def thread(self, name: str, tid: int, pid: int) -> None:
        utid = self.known[name] = self.trace.utid(name)
        self.trace.add("thread", utid=utid, tid=tid, upid=pid, name=name, is_idle=False)
        if tid == pid:
            self.trace.add("process", upid=pid, pid=pid, name=name)

    def switch(self, ts: int, cpu: int, leaves: str, enters: str, state: int = 1) -> None:
        self.seq += 1
        self.trace.add("context_switch", ts=ts, cpu=cpu, seq=self.seq, source="switch",
                       prev_utid=self.known[leaves], next_utid=self.known[enters],
                       prev_state=state)  # fmt: skip

    def waking(self, ts: int, name: str, kind: str = "waking") -> None:
        self.seq += 1
        self.trace.add("wakeup", ts=ts, cpu=0, seq=self.seq, utid=self.known[name], kind=kind)


@pytest.fixture
def con() -> Iterator[duckdb.DuckDBPyConnection]:
    with drawn_database() as database:
        yield database


@pytest.fixture
def machine(con: duckdb.DuckDBPyConnection) -> Machine:
    built = Machine(con)
    built.thread("A", 10, 10)
    built.thread("B", 11, 10)
    return built


def _rows(con: duckdb.DuckDBPyConnection) -> list[tuple[object, ...]]:
    rows = con.execute(
        'SELECT cpu, "task name", wait_time, sch_delay, run_time FROM perf.timehist'
    ).fetchall()
    return [(*row[:2], *(float(value) for value in row[2:])) for row in rows]


def test_wait_includes_delay_and_times_are_truncated(
    machine: Machine, con: duckdb.DuckDBPyConnection
) -> None:
    machine.switch(0, 0, "A", "idle0")
    machine.waking(2000 * US, "A")
    machine.switch(2500 * US, 0, "idle0", "A", state=0)
    machine.switch(3000 * US + 999, 0, "A", "idle0")
    assert _rows(con) == [
        (0, "A[10]", 0.0, 0.0, 0.0),
        (0, "<idle>", 0.0, 0.0, 2.5),
        (0, "A[10]", 2.5, 0.5, 0.5),
    ]
    assert con.execute('SELECT time::VARCHAR, tid, pid FROM perf.timehist').fetchall() == [
        ("1.000000", 10, 10), ("1.002500", 0, 0), ("1.003000", 10, 10),
    ]  # fmt: skip


def test_after_a_preemption_the_delay_is_zero(
    machine: Machine, con: duckdb.DuckDBPyConnection
) -> None:
    machine.switch(0, 0, "A", "B", state=256)
    machine.switch(4000 * US, 0, "B", "A", state=0)
    machine.switch(5000 * US, 0, "A", "B")
    assert _rows(con)[2] == (0, "A[10]", 4.0, 0.0, 1.0)


def test_idle_time_of_missed_switch_is_added_to_the_thread(
    machine: Machine, con: duckdb.DuckDBPyConnection
) -> None:
    """A left at 1 ms and returned at 9 ms; only PERF_RECORD_SWITCH shows that."""
    machine.switch(0, 0, "idle0", "A", state=0)
    machine.seq += 1
    machine.trace.add("context_switch", ts=1000 * US, cpu=0, seq=machine.seq, prev_utid=1,
                      next_utid=2, source="switch_event")  # fmt: skip
    machine.switch(10_000 * US, 0, "A", "idle0")
    assert _rows(con)[1] == (0, "A[10]", 0.0, 0.0, 10.0)


def test_first_wakeup_counts_even_while_running(
    machine: Machine, con: duckdb.DuckDBPyConnection
) -> None:
    machine.switch(0, 0, "idle0", "A", state=0)
    machine.waking(100 * US, "A")
    machine.switch(200 * US, 0, "A", "B")
    machine.waking(300 * US, "A")
    machine.waking(350 * US, "A")
    machine.switch(400 * US, 0, "B", "A")
    machine.switch(500 * US, 0, "A", "idle0")
    # Woken while running: the time is after the last switch, so there is no delay.
    assert _rows(con)[1] == (0, "A[10]", 0.0, 0.0, 0.2)
    assert _rows(con)[3] == (0, "A[10]", 0.2, 0.1, 0.1)


def test_later_switch_out_on_another_cpu_gives_no_wait(
    machine: Machine, con: duckdb.DuckDBPyConnection
) -> None:
    machine.switch(0, 1, "idle1", "B", state=0)
    machine.switch(100 * US, 0, "A", "idle0")
    machine.switch(300 * US, 1, "A", "idle1")
    assert _rows(con)[2] == (1, "A[10]", 0.0, 0.0, 0.3)


def test_wakeup_is_used_only_without_waking(
    machine: Machine, con: duckdb.DuckDBPyConnection
) -> None:
    machine.switch(0, 0, "A", "idle0")
    machine.waking(100 * US, "A", kind="wakeup")
    machine.switch(300 * US, 0, "idle0", "A", state=0)
    machine.switch(400 * US, 0, "A", "idle0")
    assert _rows(con)[2] == (0, "A[10]", 0.3, 0.2, 0.1)
    machine.waking(500 * US, "B")
    assert _rows(con)[2] == (0, "A[10]", 0.3, 0.0, 0.1)


def test_released_threads_are_one_thread_minus_one(
    machine: Machine, con: duckdb.DuckDBPyConnection
) -> None:
    machine.thread("C", 12, 10)
    machine.switch(0, 0, "idle0", "A", state=0)
    machine.switch(1000 * US, 0, "A", "B", state=16)
    machine.switch(3000 * US, 0, "B", "C", state=16)
    machine.switch(7000 * US, 0, "C", "idle0", state=16)
    assert _rows(con)[1:] == [
        (0, ":-1[-1]", 0.0, 0.0, 1.0),
        (0, ":-1[-1/10]", 0.0, 0.0, 2.0),
        (0, ":-1[-1/10]", 0.0, 0.0, 4.0),
    ]


def test_name_is_the_one_at_that_moment(machine: Machine, con: duckdb.DuckDBPyConnection) -> None:
    machine.trace.add("thread_name", utid=machine.known["A"], name="sh")
    machine.trace.add("thread_name", utid=machine.known["A"], ts=500, name="ls")
    machine.switch(400, 0, "A", "idle0")
    machine.switch(600, 1, "A", "idle1")
    assert [row[1] for row in _rows(con)] == ["sh[10]", "ls[10]"]


def perf_rows(path: Path) -> list[tuple[object, ...]]:
    """The rows of timehist's own text."""
    perf = shutil.which("perf")
    if perf is None:
        pytest.skip("perf is not installed: there is no text to compare with")
    done = subprocess.run(
        [perf, "sched", "timehist", "-i", str(path)], capture_output=True, text=True, check=True
    )
    matches = [ROW.match(line) for line in done.stdout.splitlines()]
    return [(m[1], int(m[2]), m[3].strip(), m[4], m[5], m[6]) for m in matches if m]


def view_rows(con: duckdb.DuckDBPyConnection, trace_id: int) -> list[tuple[object, ...]]:
    """The rows of the view, as perf prints them."""
    rows = con.execute(
        'SELECT time, cpu, "task name", wait_time, sch_delay, run_time '
        f"FROM perf.timehist(p_trace_id := {trace_id})"
    ).fetchall()
    return [(f"{row[0]:.6f}", row[1], row[2], *(f"{v:.3f}" for v in row[3:])) for row in rows]


# A thread preempted between its exit record and its release keeps its id; perf has no id for one
# preempted after the release. No record shows which of the two happened. A main thread is released
# as it exits if nothing waits for its process, as for kernel threads.
UNDECIDED = """
SELECT c.ts + trace.start_clock, c.cpu
FROM context_switch AS c
JOIN trace USING (trace_id)
JOIN thread AS leaver ON leaver.utid = c.prev_utid
WHERE c.trace_id = ? AND c.source = 'switch' AND c.prev_state & 16 = 0 AND c.ts > leaver.end_ns
"""


# A parent marks its child as dead (EXIT_DEAD) just before it releases it. On busy CPUs it may be
# preempted in between, while the child leaves its CPU with its id.
DEAD = """
SELECT c.ts + trace.start_clock, c.cpu
FROM context_switch AS c
JOIN trace USING (trace_id)
WHERE c.trace_id = ? AND c.prev_state & 16 <> 0
"""


def without(rows: list[tuple[object, ...]], undecided: set[tuple[str, object]]) -> list[object]:
    """The other rows, without those of threads without id, which perf takes for one thread."""
    if not undecided:
        return list(rows)
    return [row for row in rows if row[:2] not in undecided and not str(row[2]).startswith(":-1")]


def test_view_matches_timehist_on_every_step_of_a_real_sweep(
    session: Path, analysis: duckdb.DuckDBPyConnection
) -> None:
    steps = analysis.execute("SELECT trace_id, label FROM trace ORDER BY trace_id").fetchall()
    assert len(steps) >= 3
    compared = left_out = 0
    for trace_id, label in steps:
        undecided, dead = (
            {
                (f"{ns // 1000 / 1e6:.6f}", cpu)
                for ns, cpu in analysis.execute(sql, [trace_id]).fetchall()
            }
            for sql in (UNDECIDED, DEAD)
        )
        text = perf_rows(session / label / "perf.data")
        undecided |= {
            (str(row[0]), row[1])
            for row in text
            if row[:2] in dead and not str(row[2]).startswith(":-1")
        }
        # perf forgets the id of a process that ended, and then prints its name alone. A new kernel
        # thread names itself without a record of it: perf keeps its parent's name, and the view
        # takes the one in the switches.
        undecided |= {
            (str(row[0]), row[1])
            for row in text
            if not re.search(r"[\]>]$", str(row[2])) or re.match(r"kthreadd\[(?!2\])", str(row[2]))
        }
        ours, theirs = (without(rows, undecided) for rows in (view_rows(analysis, trace_id), text))
        assert ours == theirs, label
        compared += len(ours)
        left_out += len(view_rows(analysis, trace_id)) - len(ours)
    assert compared > 100
    assert left_out < compared
