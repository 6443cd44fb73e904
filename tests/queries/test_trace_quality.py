"""Gaps, breaks, and missing events: how reliable a recording is, and what it can answer."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from drawn_trace import Cpu, DrawnTrace, Slice, drawn_database
from judged import judged
from stored_states import store

from schedlens.ask import catalog, judging

# ns      0    100  200  300  400  500
# cpu 0   A A A A A  . . ? ? ? ? .     unknown from 350 to 450
SLICES = [Slice("game/A", 0, 0, 250)]


@pytest.fixture
def trace() -> Iterator[DrawnTrace]:
    with drawn_database() as database:
        drawn = DrawnTrace(database, SLICES, [Cpu(0, 0, 0), Cpu(1, 0, 1)], 500)
        yield drawn


def test_complete_recording_has_no_gaps(trace: DrawnTrace) -> None:
    rows = trace.con.execute(
        "SELECT switches, repaired_switches, wakings, events_lost, gaps, chain_breaks, gap_events, "
        "gap_ns, problems, unknown_cpu_ns, unknown_cpu_pct, threads_ran, threads_unknown "
        "FROM trace_quality"
    ).fetchall()
    assert rows == [(2, 0, 0, 0, 0, 0, None, 0, 0, 0, 0.0, 1, 0)]


def test_gaps_and_breaks_state_the_unknown_time(trace: DrawnTrace) -> None:
    trace.add("loss", cpu=0, start_ns=350, end_ns=450, events=12, signalled_by="PERF_RECORD_LOST")
    trace.add("loss", cpu=1, start_ns=490, end_ns=600, signalled_by="chain_break")
    trace.add("loss", cpu=None, start_ns=None, end_ns=None, events=3, signalled_by="buffer_lost")
    trace.add("problem", place="states", what="tick unknown", count=1)
    trace.add("problem", place="offset 17", what="a record too short", count=4)
    trace.con.execute(
        "UPDATE cpu_state_other SET dur = 100 WHERE cpu = 0 AND ts = 250;"
        "INSERT INTO cpu_state_other VALUES (1, 0, 350, 100, 'unknown');"
        "INSERT INTO cpu_state_other VALUES (1, 0, 450, 50, 'idle')"
    )
    rows = trace.con.execute(
        "SELECT gaps, chain_breaks, gap_events, gap_ns, problems, problem_count, unknown_cpu_ns, "
        "unknown_cpu_pct FROM trace_quality"
    ).fetchall()
    assert rows == [(3, 1, 15, 110, 2, 5, 100, 10.0)]
    narrow = trace.con.execute(
        "SELECT gap_ns, unknown_cpu_ns FROM trace_quality(p_from_ns := 400, p_to_ns := 500)"
    ).fetchall()
    assert narrow == [(60, 50)]


def test_edges_are_counted_separately(trace: DrawnTrace) -> None:
    trace.add("loss", cpu=0, start_ns=10, end_ns=90, signalled_by="chain_break")
    trace.add("loss", cpu=0, start_ns=90, end_ns=130, signalled_by="chain_break")
    trace.add("loss", cpu=1, start_ns=480, end_ns=500, signalled_by="stream_end")
    trace.con.execute("UPDATE context_switch SET source = 'switch_event' WHERE ts IN (0, 250)")
    asked = "gaps, chain_breaks, gap_ns, edge_gaps, edge_ns, repaired_switches, " \
            "edge_repaired_switches"  # fmt: skip
    rows = trace.con.execute(
        f"SELECT {asked} FROM trace_quality(p_from_ns := 100, p_to_ns := 400)"
    ).fetchall()
    assert rows == [(1, 1, 30, 2, 0, 1, 1)]
    # The end of a stream is an edge wherever it is; the switch at 0 is in this window.
    rows = trace.con.execute(f"SELECT {asked} FROM trace_quality").fetchall()
    assert rows == [(2, 2, 120, 1, 20, 2, 0)]


def _answer(trace: DrawnTrace, question: str) -> tuple[object, ...]:
    rows = trace.con.execute(
        "SELECT answer, why, record_with FROM answerable WHERE question = ?", [question]
    ).fetchall()
    assert len(rows) == 1
    return tuple(rows[0])


def test_recorded_kinds_are_answered(trace: DrawnTrace) -> None:
    assert _answer(trace, "concurrency") == ("yes", None, None)


def test_unrecorded_kinds_name_the_capture_command(trace: DrawnTrace) -> None:
    assert _answer(trace, "idle_state") == (
        "no", "no idle states", "perf record -a -e power:cpu_idle"
    )  # fmt: skip
    trace.add("cpu_idle", ts=0, cpu=0, dur=1, state=0)
    assert _answer(trace, "idle_state") == ("yes", None, None)


def test_limited_kind_is_reported_as_partial(trace: DrawnTrace) -> None:
    assert _answer(trace, "quantum_end_chain") == (
        "partly", "yields are not recorded: a quantum end may be one",
        "perf record -a -e syscalls:sys_enter_sched_yield",
    )  # fmt: skip
    trace.con.execute("UPDATE trace SET source = 'etw'")
    assert _answer(trace, "quantum_end_chain") == ("yes", None, None)


def test_unanswerable_question_names_no_capture_command(trace: DrawnTrace) -> None:
    trace.con.execute("UPDATE cpu SET smt_index = 0, core = cpu")
    assert _answer(trace, "smt_yield")[0:2] == (
        "no", "no core has siblings; no workload that counts its work"
    )  # fmt: skip
    trace.add("interrupt_slice", ts=0, cpu=0, seq=0, dur=1, kind="irq")
    assert _answer(trace, "sibling_overlap") == ("no", "no core has siblings", None)


def test_recording_without_switches_answers_little(trace: DrawnTrace) -> None:
    trace.con.execute("DELETE FROM context_switch")
    answer, why, means = _answer(trace, "thread_summary")
    assert (answer, means) == (
        "no",
        "perf record -a -e sched:sched_switch; perf record -a -e "
        "sched:sched_switch,sched:sched_waking,sched:sched_wakeup_new",
    )
    assert why == "no context switches; no wakeups: ready time after a wait is unknown"


def test_every_named_question_exists(trace: DrawnTrace) -> None:
    # An answer that combines several queries has the analyzer's name.
    known = {query.full_name for query in catalog.load_all()} | set(judging.analyzers())
    known.add("counter_delta")
    named = {row[0] for row in trace.con.execute("SELECT question FROM answerable").fetchall()}
    assert named <= known


def test_breaks_without_switch_records_advise_recording_them() -> None:
    advised = {}
    for name in ("no_switch_events", "with_switch_events"):
        with drawn_database() as con:
            slices = [Slice("game/A", 1, 0, 10_000_000)]
            trace = DrawnTrace(con, slices, [Cpu(0, 0), Cpu(1, 1)], 10_000_000)
            trace.add(
                "loss", cpu=0, start_ns=2_000_000, end_ns=4_000_000, signalled_by="chain_break"
            )
            store(con)
            con.execute("UPDATE cpu_state SET state = 'unknown', utid = NULL WHERE cpu = 0")
            if name == "with_switch_events":
                trace.add("record_count", record="PERF_RECORD_SWITCH_CPU_WIDE", count=10)
            found = judged(con, "trace_quality")
            advised[name] = [f.advice for f in found if f.kind == "loss"]
    (without,), (having,) = advised["no_switch_events"], advised["with_switch_events"]
    assert "--switch-events" in without
    assert "--switch-events" not in having


def test_cpus_without_any_record_are_to_be_recorded() -> None:
    with drawn_database() as con:
        slices = [Slice("game/A", 1, 0, 10_000_000)]
        trace = DrawnTrace(con, slices, [Cpu(0, 0), Cpu(1, 1)], 10_000_000)
        trace.add("loss", cpu=0, start_ns=0, end_ns=10_000_000, signalled_by="late_start")
        con.execute("UPDATE trace SET source = 'perf'")
        store(con)
        con.execute("UPDATE cpu_state SET state = 'unknown', utid = NULL WHERE cpu = 0")
        (found,) = [f for f in judged(con, "trace_quality") if f.kind == "loss"]
        assert found.advice == (
            "Record all CPUs (`perf record -a`, without -C): nothing of CPU 0 was recorded, and "
            "what ran there is unknown."
        )
        # What the recorder states about a CPU has no bounds.
        con.execute("UPDATE loss SET start_ns = NULL, end_ns = NULL, signalled_by = 'not_recorded'")
        assert [f for f in judged(con, "trace_quality") if f.kind == "loss"] == [found]
        lost = con.execute("SELECT gaps, gap_ns FROM trace_quality()").fetchall()
        assert lost == [(1, 10_000_000)]
        # Records that only begin late are another matter.
        con.execute("UPDATE loss SET start_ns = 0, end_ns = 4_000_000, signalled_by = 'late_start'")
        (found,) = [f for f in judged(con, "trace_quality") if f.kind == "loss"]
        assert "--switch-events" in found.advice


@pytest.mark.parametrize(
    ("source", "signalled_by", "collected", "advised", "not_advised"),
    [
        ("etw", "buffer_lost", False, "xperf -BufferSize 1024", "-m 32M"),
        ("etw", "buffer_lost", True, "collect --buffer-size 1Mx2048", "xperf"),
        ("perf", "PERF_RECORD_LOST", False, "perf record -m 32M", "collect -m"),
        ("perf", "PERF_RECORD_LOST", True, "collect -m 32M", "perf record"),
        ("etw", "damaged", False, "Copy the file again", "larger buffers"),
        ("etw", "chain_break", False, "reported no lost events", "--switch-events"),
    ],
)
def test_advice_about_loss_fits_the_recorder(
    source: str, signalled_by: str, collected: bool, advised: str, not_advised: str
) -> None:
    with drawn_database() as con:
        slices = [Slice("game/A", 1, 0, 10_000_000)]
        trace = DrawnTrace(con, slices, [Cpu(0, 0), Cpu(1, 1)], 10_000_000)
        trace.add("loss", cpu=0, start_ns=2_000_000, end_ns=4_000_000, signalled_by=signalled_by)
        con.execute("UPDATE trace SET source = ?, events_lost = 0, buffers_lost = 0", [source])
        store(con)
        con.execute("UPDATE cpu_state SET state = 'unknown', utid = NULL WHERE cpu = 0")
        if collected:
            trace.add("run", step="s", recorded=True)
        (loss,) = [f for f in judged(con, "trace_quality") if f.kind == "loss"]
    assert advised in loss.advice
    assert not_advised not in loss.advice
