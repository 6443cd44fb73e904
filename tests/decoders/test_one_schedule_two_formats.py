"""One schedule as .etl and as perf.data gives the same correct answers."""

from __future__ import annotations

import shutil
import subprocess
import tempfile
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import duckdb
import pytest
import switch_text
from hypothesis import Phase, assume, example, given, settings
from hypothesis import strategies as st
from random_schedule import RandomSchedule, Slice, machine_cpus
from recording_writer import write

from schedlens.ask import analysis, blank_database
from schedlens.load import store
from schedlens.load.recording import Recording

pytestmark = pytest.mark.slow

PERF, ETL = 1, 2
# What one system names differently or does not record.
MATCHED = {"throttled_or_moved": "runnable_other", "quantum_end_or_yield": "quantum_end"}
COUNTERS = {"cycles": "TotalCycles", "instructions": "InstructionRetired"}

Rows = list[tuple[Any, ...]]


def load(folder: Path, schedule: RandomSchedule, **layouts: Any) -> duckdb.DuckDBPyConnection:
    """Both recordings of a schedule in one database: 1 is the perf.data, 2 the .etl."""
    perf, etl = folder / "drawn.perf.data", folder / "drawn.etl"
    write(schedule.head(**layouts), schedule.lines, etl, perf)
    target = folder / "drawn.duckdb"
    with store.create(target, place=blank_database.place) as con:
        failures = analysis.load(
            con, [Recording("perf", perf), Recording("etl", etl)], (None, None), lambda *_: None
        )
        assert failures == []
    return duckdb.connect(str(target), read_only=True)


def rows(con: duckdb.DuckDBPyConnection, trace_id: int, sql: str) -> Rows:
    """Rows of one recording: `w(utid)` names a thread by its tid, 0 for the idle ones."""
    con.execute("CREATE OR REPLACE TEMP VIEW who AS SELECT utid AS number, tid AS name FROM thread")
    con.execute("CREATE OR REPLACE TEMP MACRO w(u) AS (SELECT name FROM who WHERE number = u)")
    return con.execute(sql, {"trace_id": trace_id}).fetchall()


SLICES = """
SELECT w(utid), cpu, ts, dur, priority, end_reason, ready_ns, wait_ns, w(waker_utid), prev_cpu,
  left_censored, right_censored
FROM sched_slice WHERE trace_id = $trace_id AND NOT is_idle ORDER BY ts, cpu
"""


def slices(con: duckdb.DuckDBPyConnection, trace_id: int) -> Rows:
    """All slices, with end reasons in common terms."""
    found = rows(con, trace_id, SLICES)
    return [(*row[:5], MATCHED.get(row[5], row[5]), *row[6:]) for row in found]


def waker(slice_: Slice) -> int | None:
    """The waker as `w()` names it."""
    return 0 if isinstance(slice_.waker, tuple) else slice_.waker


def truth(schedule: RandomSchedule) -> Rows:
    """The slices of the schedule."""
    slices = sorted(schedule.slices, key=lambda slice_: (slice_.ts, slice_.cpu))
    return [
        (s.tid, s.cpu, s.ts, s.dur, s.priority, s.end_reason, s.ready_ns, s.wait_ns, waker(s),
         s.prev_cpu, s.left_censored, s.right_censored)
        for s in slices
    ]  # fmt: skip


# Further columns that both formats share.
EQUAL = {
    "thread_state": """
        SELECT w(utid), ts, dur, state, CASE WHEN state = 'running' THEN cpu END, w(waker_utid),
          left_censored, right_censored
        FROM thread_state WHERE trace_id = $trace_id ORDER BY 1, 2, 3""",
    "cpu_state": """
        SELECT cpu, ts, dur, state, w(utid) FROM cpu_state
        WHERE trace_id = $trace_id ORDER BY ts, cpu, dur""",
    "idle slices": """
        SELECT cpu, ts, dur, left_censored, right_censored FROM sched_slice
        WHERE trace_id = $trace_id AND is_idle ORDER BY ts, cpu""",
    "cpu_idle": """
        SELECT cpu, ts, dur, state FROM cpu_idle WHERE trace_id = $trace_id ORDER BY 2, 1""",
    "cpu_frequency": """
        SELECT cpu, ts, khz FROM cpu_frequency WHERE trace_id = $trace_id AND ts > 0
        ORDER BY 2, 1""",
    "interrupt_slice": """
        SELECT cpu, ts, dur FROM interrupt_slice WHERE trace_id = $trace_id ORDER BY 2, 1""",
    "topology": """
        SELECT cpu, core, smt_index, core_type, l2, llc, package, numa_node FROM cpu
        WHERE trace_id = $trace_id ORDER BY cpu, valid_from_ns""",
    "sibling_overlap": "SELECT * EXCLUDE trace_id FROM sibling_overlap(p_trace_id := $trace_id)",
    "sibling_overlap_total": """
        SELECT * EXCLUDE trace_id FROM sibling_overlap_total(p_trace_id := $trace_id)""",
    "concurrency": "SELECT * EXCLUDE trace_id FROM concurrency(p_trace_id := $trace_id)",
    "core_type_residency": """
        SELECT thread, tid, core_type, run_ns, of_thread_pct, switches_in
        FROM core_type_residency(p_trace_id := $trace_id) ORDER BY ALL""",
    "quantum_chain": """
        SELECT cpu, ts, dur, hand_offs, slice_ns, skipped,
          (SELECT list(name ORDER BY name) FROM who WHERE list_contains(utids, number))
        FROM quantum_chain WHERE trace_id = $trace_id ORDER BY ts""",
    "process of each thread": """
        SELECT tid, pid, is_idle FROM thread LEFT JOIN process USING (upid)
        WHERE thread.trace_id = $trace_id ORDER BY ALL""",
}


@pytest.fixture(scope="module")
def schedule() -> RandomSchedule:
    """60 ms of 48 threads on 8 P cores with two siblings and 8 E cores."""
    return RandomSchedule(2021, length_ns=60_000_000, threads=48)


@pytest.fixture(scope="module")
def both(
    schedule: RandomSchedule, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[duckdb.DuckDBPyConnection]:
    """Its two recordings."""
    layouts = {
        "etl": {"merged": True, "compression": "xpress", "shuffle": 7, "buffer_size": 16384},
        "perf": {"shuffle": 5},
    }
    con = load(tmp_path_factory.mktemp("hybrid"), schedule, **layouts)
    yield con
    con.close()


def test_schedule_has_every_end_reason(schedule: RandomSchedule) -> None:
    ends = Counter(slice_.end_reason for slice_ in schedule.slices)
    assert set(ends) == {
        "blocked", "exit", "quantum_end", "preempted", "yield", "runnable_other", "trace_end",
    }  # fmt: skip


@pytest.mark.parametrize("trace_id", [PERF, ETL])
def test_slices_match_schedule(
    both: duckdb.DuckDBPyConnection, schedule: RandomSchedule, trace_id: int
) -> None:
    assert slices(both, trace_id) == truth(schedule)


@pytest.mark.parametrize("what", EQUAL)
def test_both_formats_give_the_same_answer(both: duckdb.DuckDBPyConnection, what: str) -> None:
    found = rows(both, PERF, EQUAL[what])
    assert len(found) >= 1
    assert rows(both, ETL, EQUAL[what]) == found


def edges(
    schedule: RandomSchedule, cpus: set[int], busy: list[tuple[int, int, int]]
) -> dict[int, int]:
    """Time in ns by the number of these CPUs that are busy at once."""
    steps = sorted(
        [(begin, 1) for cpu, begin, _ in busy if cpu in cpus]
        + [(end, -1) for cpu, _, end in busy if cpu in cpus]
    )
    spent: Counter[int] = Counter()
    now, count = 0, 0
    for at, step in [*steps, (schedule.length_ns, 0)]:
        spent[count] += at - now
        now, count = at, count + step
    return dict(spent)


def busy_intervals(schedule: RandomSchedule) -> list[tuple[int, int, int]]:
    """(cpu, start, end) of slices and of interrupts in the idle thread, separately."""
    slices = [(s.cpu, s.ts, s.ts + s.dur) for s in schedule.slices]
    return slices + [
        (cpu, begin, end)
        for cpu, begin, end, _ in schedule.interrupts
        if not any(c == cpu and b <= begin and end <= e for c, b, e in slices)
    ]


@pytest.mark.parametrize("trace_id", [PERF, ETL])
def test_overlap_and_residency_match_schedule(
    both: duckdb.DuckDBPyConnection, schedule: RandomSchedule, trace_id: int
) -> None:
    busy = busy_intervals(schedule)
    cores: dict[int, set[int]] = {}
    for cpu in schedule.cpus:
        if cpu["pmu"] == "cpu_core":
            cores.setdefault(2 * cpu["core"], set()).add(cpu["cpu"])
    truth = {core: edges(schedule, cpus, busy) for core, cpus in cores.items()}
    found = both.execute(
        "SELECT core, sum(dur) FILTER (WHERE busy = 0)::BIGINT, "
        "sum(dur) FILTER (WHERE busy = 1)::BIGINT, sum(dur) FILTER (WHERE busy = 2)::BIGINT "
        "FROM core_state WHERE trace_id = ? AND online = 2 GROUP BY core",
        [trace_id],
    ).fetchall()
    assert {core: {0: none, 1: one, 2: two} for core, none, one, two in found} == truth
    kinds = {cpu["cpu"]: "P" if cpu["efficiency_class"] else "E" for cpu in schedule.cpus}
    spent: Counter[tuple[int, str]] = Counter()
    for slice_ in schedule.slices:
        spent[slice_.tid, kinds[slice_.cpu]] += slice_.dur
    residency = both.execute(
        "SELECT tid, core_type, sum(run_ns)::BIGINT FROM core_type_residency(p_trace_id := ?) "
        "GROUP BY ALL HAVING sum(run_ns) <> 0",
        [trace_id],
    ).fetchall()
    assert {(tid, kind): ns for tid, kind, ns in residency} == dict(spent)


def test_threads_crowded_on_one_core_are_a_chain(
    both: duckdb.DuckDBPyConnection, schedule: RandomSchedule
) -> None:
    hogs = {thread.tid for thread in schedule.threads.values() if thread.home is not None}
    chains = rows(
        both, ETL,
        "SELECT cpu, hand_offs, (SELECT list(name) FROM who WHERE list_contains(utids, number)) "
        "FROM quantum_chain WHERE trace_id = $trace_id",
    )  # fmt: skip
    longest = max(chains, key=lambda chain: chain[1])
    assert longest[0] == schedule.crowded
    assert longest[1] >= 6
    assert hogs <= set(longest[2])


def test_perf_reads_the_same_slices(schedule: RandomSchedule, tmp_path: Path) -> None:
    if shutil.which("perf") is None:
        pytest.skip("perf is not installed, and it is the oracle")
    trace = tmp_path / "drawn.perf.data"
    zero = 5_000_000_000
    write(schedule.head(perf={"shuffle": 9, "start_ns": zero}), schedule.lines, perf=trace)
    switches = switch_text.switches(trace)
    found = switch_text.slices(switches, zero, zero + schedule.length_ns)
    truth = {(s.cpu, s.tid, s.ts, s.ts + s.dur) for s in schedule.slices if s.dur}
    assert {(s.cpu, s.tid, s.begin - zero, s.end - zero) for s in found if s.tid} == truth
    listed = subprocess.run(
        ["perf", "sched", "timehist", "--state", "-i", str(trace)],
        check=True, capture_output=True, text=True,
    ).stdout  # fmt: skip
    lines = [line for line in listed.splitlines() if "[" in line and "<idle>" not in line]
    ended = [s for s in schedule.slices if not s.right_censored]
    assert len(lines) == len(ended) + 1  # and the head


# The seed identifies a failure: shrinking it would take minutes.
@settings(max_examples=5, deadline=None, phases=(Phase.explicit, Phase.reuse, Phase.generate))
@given(
    seed=st.integers(0, 2**32),
    threads=st.integers(15, 40),
    cores=st.tuples(st.integers(1, 4), st.integers(1, 4)),
    layout=st.fixed_dictionaries(
        {
            "pointer": st.sampled_from([4, 8]),
            "shuffle": st.sampled_from([None, 1, 2]),
            "compression": st.sampled_from(["none", "xpress", "lznt1"]),
            "merged": st.just(True),
            "switch_version": st.integers(2, 5),
            "buffer_size": st.sampled_from([4096, 65536]),
        }
    ),
)
# A thread is preempted on its way to yield.
@example(
    seed=125_931,
    threads=39,
    cores=(1, 4),
    layout={"pointer": 4, "shuffle": 2, "compression": "xpress", "merged": True,
            "switch_version": 5, "buffer_size": 4096},
)  # fmt: skip
def test_random_schedules_read_back_unchanged(
    seed: int, threads: int, cores: tuple[int, int], layout: dict[str, Any]
) -> None:
    schedule = RandomSchedule(seed, 8_000_000, threads, machine_cpus(*cores))
    # Windows does not record who is on a CPU that never switches, nor who woke a thread there.
    assume(
        {s["cpu"] for s in schedule.lines if s["event"] == "switch"}
        == set(range(len(schedule.cpus)))
    )
    with (
        tempfile.TemporaryDirectory() as folder,
        load(Path(folder), schedule, etl=layout, perf={"shuffle": seed}) as con,
    ):
        truth_rows = truth(schedule)
        assert slices(con, PERF) == truth_rows
        assert slices(con, ETL) == truth_rows
        for what in ("thread_state", "cpu_state", "sibling_overlap", "quantum_chain"):
            assert rows(con, ETL, EQUAL[what]) == rows(con, PERF, EQUAL[what]), what
