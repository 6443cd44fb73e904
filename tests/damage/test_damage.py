"""The damage harness accepts whole recordings and finds false claims."""

from __future__ import annotations

import random
import re
from collections import defaultdict
from collections.abc import Iterator
from pathlib import Path

import pytest

from damage import judge, marks, runs, score, sources, stream
from damage.bench import Answers, Bench, Row
from damage.etl_file import EtlFile
from damage.identity import Names
from damage.kinds import KINDS, TEXTS
from damage.perf_file import PerfFile
from damage.runs import Player
from damage.sources import FORMATS
from damage.stream import Plan
from schedlens.ask import judging, loss
from schedlens.ask.catalog import Query
from schedlens.ask.findings import Scope
from schedlens.load.recording import Recording

pytestmark = pytest.mark.slow

# A random schedule in both formats.
SEED = 1


@pytest.fixture(scope="module")
def player() -> Iterator[Player]:
    """Sources and databases of this module."""
    played = Player(None)
    yield played
    played.close()


@pytest.fixture(scope="module")
def bench() -> Iterator[Bench]:
    """A database that keeps no source."""
    made = Bench()
    yield made
    made.close()


def loaded(bench: Bench, recording: Recording) -> Answers:
    answers = bench.load(recording)
    assert isinstance(answers, Answers)
    bench.read_states(answers)
    return answers


def count_of(bench: Bench, sql: str) -> int:
    row = bench.con.execute(sql).fetchone()
    assert row is not None
    return int(row[0] or 0)


@pytest.mark.parametrize("format_", FORMATS)
def test_undamaged_copy_has_the_same_rows(format_: str, bench: Bench, tmp_path: Path) -> None:
    source = sources.draw(SEED, format_, tmp_path)
    before = loaded(bench, source.recording)
    copy = tmp_path / "copy.perf.data" if format_ != "etl" else tmp_path / "copy.etl"
    copy.write_bytes(source.file.damaged(Plan(), 0))
    after = loaded(bench, sources.with_trace(source, copy, True))
    assert len(before.states["thread_state"]) > 30
    assert after.states == before.states
    assert after.names.threads == before.names.threads
    counts = judge.judge([], after, before).values()
    assert [(count.wrong, count.rows > 30) for count in counts] == [([], True)] * 2


# A whole perf.data of a drawn schedule is read like the real one.
@pytest.mark.parametrize("format_", ["etl", "real"])
def test_undamaged_recording_has_no_false_claim(format_: str, player: Player) -> None:
    run = player.play(SEED * runs.PER_SOURCE, format_, "none")
    assert run.failure is None
    assert run.columns["thread_state", "state"].rows > 30
    assert {key: column.wrong for key, column in run.columns.items() if column.wrong} == {}
    assert run.false_findings == []
    assert (run.lost_ns, run.lost_sum_ns) == (0, 0)


def test_times_of_whole_recording_match_schedule(bench: Bench, tmp_path: Path) -> None:
    source = sources.draw(SEED, "etl", tmp_path)
    whole = loaded(bench, source.recording)
    assert source.schedule is not None
    # What ran before the first record of a CPU and after its last is unknown.
    low, high = 3_000_000, 27_000_000
    ran: dict[int, int] = defaultdict(int)
    ready: dict[int, int] = defaultdict(int)
    for slice_ in source.schedule.slices:
        ran[slice_.tid] += max(0, min(high, slice_.ts + slice_.dur) - max(low, slice_.ts))
        if slice_.ready_ns is not None:
            ready[slice_.tid] += max(
                0, min(high, slice_.ts) - max(low, slice_.ts - slice_.ready_ns)
            )
    lives: dict[int, dict[str, int]] = defaultdict(lambda: defaultdict(int))
    open_ended = set()
    for row in whole.states["thread_state"]:
        tid = whole.names.threads[row["utid"]][1]
        start, end = max(low, row["ts"]), min(high, row["ts"] + row["dur"])
        lives[tid][row["state"]] += max(0, end - start)
        # The ready time before a switch-in beyond the recording is in no slice.
        if row["state"] == "ready" and row["ts"] + row["dur"] == whole.duration_ns:
            open_ended.add(tid)
    assert len(lives) > 20
    assert {tid: spent["running"] for tid, spent in lives.items()} == {
        tid: ran[tid] for tid in lives
    }
    closed = lives.keys() - open_ended
    assert {tid: lives[tid]["ready"] for tid in closed} == {tid: ready[tid] for tid in closed}


@pytest.mark.parametrize("format_", ["etl", "perf"])
def test_lost_chunks_are_missing_and_signaled(format_: str, bench: Bench, tmp_path: Path) -> None:
    source = sources.draw(SEED, format_, tmp_path)
    switches = "SELECT count(*) FROM context_switch"
    bench.load(source.recording)
    before = count_of(bench, switches)
    lost = {chunk.number for chunk in source.file.chunks[30:33]}
    gone = [r for c in source.file.chunks if c.number in lost for r in c.records]
    path = tmp_path / source.recording.label
    path.write_bytes(source.file.damaged(Plan(lost), 0))
    bench.load(sources.with_trace(source, path, True))
    assert count_of(bench, switches) == before - sum(r.kind == "switch" for r in gone)
    if format_ == "perf":
        signaled = "SELECT sum(events) FROM loss WHERE signalled_by = 'PERF_RECORD_LOST'"
        assert count_of(bench, signaled) == len(gone)
    else:
        assert count_of(bench, "SELECT buffers_lost FROM trace") == 3
        flagged = "SELECT count(*) FROM loss WHERE signalled_by = 'buffer_lost'"
        assert count_of(bench, flagged) == len({source.file.chunks[n - 1].cpu for n in lost})


def test_files_split_into_chunks_of_one_cpu(tmp_path: Path) -> None:
    source = sources.draw(SEED, "etl", tmp_path)
    assert isinstance(source.file, EtlFile)
    again = EtlFile(source.file.damaged(Plan(), 0), 7)
    assert _kinds(again) == _kinds(source.file)
    perf = sources.draw(SEED, "perf", tmp_path).file
    assert isinstance(perf, PerfFile)
    other = PerfFile(perf.damaged(Plan(), 0), 7)
    assert _kinds(other) == _kinds(perf)
    assert {"switch", "wakeup", "migration", "idle", "thread"} <= _kinds(perf)[0].keys()


def _kinds(file: stream.File) -> dict[int, dict[str, int]]:
    found: dict[int, dict[str, int]] = defaultdict(lambda: defaultdict(int))
    for chunk in file.chunks:
        for record in chunk.records:
            found[chunk.cpu][record.kind] += 1
            found[0][record.kind] += 0
    return {cpu: dict(sorted(kinds.items())) for cpu, kinds in found.items()}


@pytest.mark.parametrize("kind", [kind for kind in KINDS if kind != "none"])
def test_each_kind_of_damage_changes_the_bytes(kind: str, tmp_path: Path) -> None:
    formats = ["etl"] if kind in ("sequence_gap", "no_priorities") else ["perf"]
    for format_ in formats:
        file = sources.draw(SEED, format_, tmp_path).file
        # Every second run of this kind loses nothing else.
        seed = next(s for s in range(9) if kind != "reused_ids" or random.Random(s).random() < 0.5)
        plan = KINDS[kind](file.chunks, random.Random(seed), file.hz)
        if kind != "no_priorities":  # does not change the schedule
            assert file.damaged(plan, seed) != file.damaged(Plan(), seed)


def test_each_kind_of_damage_is_described() -> None:
    assert TEXTS.keys() == KINDS.keys()


# CPU 0: records at 0, 10 | 20, 30 | 40, 50 (lost) | 60, 70; CPU 1: 5 to 75, whole.
def test_lost_time_spans_record_before_to_record_after() -> None:
    chunks = [
        stream.Chunk(number, 0, [record(20 * number - 20), record(20 * number - 10)], number)
        for number in (1, 2, 3, 4)
    ] + [stream.Chunk(5, 1, [record(5), record(75)], 1)]
    spans = stream.spans(chunks, Plan({3}), (0, 75))
    assert spans == [(0, 30, 60)]
    assert stream.union_ns(spans, (0, 75), 1_000_000_000) == (30, 30)
    assert stream.union_ns([*spans, (1, 50, 70)], (0, 65), 1_000_000_000) == (35, 45)
    assert stream.spans(chunks, Plan({4}), (0, 75)) == [(0, 50, 75)]


def record(ticks: int) -> stream.Record:
    return stream.Record(b"", ticks, "switch")


@pytest.mark.parametrize(
    ("comment", "interval"),
    [
        ("Time it ran, ns (at least; unknown_ns more at most)", (50, 80)),
        ("Time it ran, ns (at least)", (50, float("inf"))),
        ("Time it ran, ns (at most)", (float("-inf"), 50)),
        ("Time it ran, ns (from low_ns to high_ns)", (40, float("inf"))),
        ("Time it ran, ns (exact)", (50, 50)),
    ],
)
def test_mark_of_a_comment_is_an_interval(comment: str, interval: tuple[float, float]) -> None:
    mark = marks.parse(comment)
    assert mark is not None
    row = {"run_ns": 50, "unknown_ns": 30, "low_ns": 40, "high_ns": None}
    assert mark.interval(row, "run_ns") == interval


def test_comment_without_a_mark_claims_nothing() -> None:
    assert marks.parse("Time it ran, ns") is None
    time = marks.parse("Begin, ns (time)")
    assert time is not None
    assert not time.claims


SUMMARY = Query(
    "thread_summary", "main", "", (),
    (
        ("utid", "The thread."),
        ("run_ns", "Time it ran, ns (at least; unknown_ns more at most)"),
        ("unknown_ns", "Unknown, ns (bound)"),
    ),
    "",
)  # fmt: skip


@pytest.mark.parametrize(
    ("run_ns", "unknown_ns", "wrong"), [(60, 40, 0), (100, 0, 0), (60, 39, 1), (101, 0, 1)]
)
def test_bounds_that_exclude_the_truth_are_found(
    bench: Bench, tmp_path: Path, run_ns: int, unknown_ns: int, wrong: int
) -> None:
    real = loaded(bench, sources.draw(SEED, "etl", tmp_path).recording)
    utid = next(utid for utid, name in real.names.threads.items() if name[0] == "thread")
    whole, damaged = (
        answers(real.names, {"utid": utid, "run_ns": ran, "unknown_ns": unknown})
        for ran, unknown in ((100, 0), (run_ns, unknown_ns))
    )
    found = judge.judge([SUMMARY], damaged, whole)["thread_summary", "run_ns"]
    assert (found.rows, len(found.wrong)) == (1, wrong)
    assert found.widths == [unknown_ns]


def answers(names: Names, row: Row) -> Answers:
    states: dict[str, list[Row]] = {"thread_state": [], "cpu_state": []}
    all_time = (0, 1000)
    rows = {"thread_summary": [row]}
    return Answers(names, 0, 10_000_000, 0, 1000, 0, all_time, all_time, rows, states)


def test_truth_is_the_part_of_a_source_without_loss(bench: Bench, tmp_path: Path) -> None:
    source = sources.draw(SEED, "etl", tmp_path)
    plan = KINDS["one_lost"](source.file.chunks, random.Random(1), source.file.hz)
    path = tmp_path / "lost.etl"
    path.write_bytes(source.file.damaged(plan, 1))
    whole = loaded(bench, sources.with_trace(source, path, True))
    inside = "SELECT count(*) FROM loss WHERE start_ns < ? AND coalesce(end_ns, start_ns + 1) > ?"
    start, end = whole.complete
    assert bench.con.execute(inside, [whole.duration_ns, whole.first_ns]).fetchall() != [(0,)]
    assert bench.con.execute(inside, [end, start]).fetchall() == [(0,)]
    assert 0 < end - start < whole.duration_ns - whole.first_ns


def test_wrong_state_is_found(bench: Bench, tmp_path: Path) -> None:
    whole = loaded(bench, sources.draw(SEED, "etl", tmp_path).recording)
    rows = [dict(row) for row in whole.states["cpu_state"]]
    inner = next(
        row for row in rows if row["state"] == "idle" and row["ts"] > whole.window[0]
        and row["ts"] + row["dur"] < whole.window[1]
    )  # fmt: skip
    inner["state"] = "thread"
    changed = judge.replace_states(whole, "cpu_state", rows)
    found = judge.judge([], changed, whole)["cpu_state", "state"]
    assert [wrong.claimed[0] for wrong in found.wrong] == [inner["dur"]]
    assert found.wrong[0].true[0] == 0


def test_sample_of_damaged_recordings_meets_targets() -> None:
    kinds = ["one_lost", "burst_lost", "sequence_gap"]
    given = [
        *runs.tasks(0, 3, ["etl"], kinds),
        *runs.tasks(8, 3, ["perf"], ["one_lost", "burst_lost", "random_lost"]),
    ]
    assert score.verdict(list(runs.play_all(given, 1, None))) == []


def test_findings_of_a_damaged_recording_leave_no_amount_exact(player: Player) -> None:
    run = player.play(SEED, "etl", "most_lost")
    assert run.failure is None
    scope = Scope(player.bench.con)
    (missed,) = loss.missed(scope).values()
    assert 10 < missed < 90
    found = judging.judge_all(scope).findings
    analyzers = judging.analyzers()
    judged = [one for one in found if analyzers[one.analyzer].metric != "measured"]
    assert judged
    plain = [one.detail for one in judged if "amounts are of what was recorded" not in one.detail]
    # What the others state is bounded.
    amounts = re.findall(r"(.{0,9})\b\d[\d.,]*\u00a0(?:ns|us|ms|s|%)", "\n".join(plain))
    assert [one for one in amounts if not one.endswith(("at least ", "at most ", "up to "))] == []


# Each once led to a false claim.
ONCE_WRONG = [
    (30_144, "etl", "clock_back"),  # a step back between the first two buffers of a CPU
    (30_060, "perf", "reordered"),  # a wakeup at the time of the switch-in, in another place
    (30_062, "perf", "one_stamp"),  # a slice that began in the gap
    (30_004, "etl", "burst_lost"),  # a thread whose start is lost
    (30_000, "etl", "no_thread_events"),  # threads whose process is not recorded
    (30_085, "perf", "burst_lost"),  # a pool without a section of its own
    (30_006, "etl", "sequence_gap"),  # a wait that began before the window
    (10_592, "perf", "events_lost"),  # a wakeup in a slice that began in the gap
    (10_714, "perf", "reordered"),  # slices of zero length at a gap
    (10_072, "real", "random_lost"),  # an interrupt whose entry is lost
    (11_909, "etl", "clock_back"),  # either one late buffer or a step back behind it
    (11_244, "perf", "clock_back"),  # a wakeup in a slice before a gap, and another one behind it
    (11_464, "real", "no_switches"),  # only switch-outs of a recorded process
    (11_630, "perf", "events_lost"),  # a new thread that first ran in the gap
    (11_729, "real", "most_lost"),  # a thread that exits where a gap begins
    (10_254, "etl", "one_stamp"),  # parked CPUs only, but the state of another is unknown
    (700_013, "etl", "no_switches"),  # wakeups around a gap, and no switches
    (700_096, "real", "offline"),  # an interrupt during which the records of its CPU end
    (700_016, "perf", "ring"),  # buffers that overwrote their oldest records
    (900_035, "perf", "ring"),  # records with the same time, the newest first
    (2_000_047, "etl", "no_wakeups"),  # what waits may be ready, also in blocks
    (2_000_086, "real", "repeated"),  # two repeated buffers of a CPU, one within a millisecond
    (3_000_157, "perf", "events_lost"),  # a ready thread whose switch-out is lost: throttled?
    (3_000_199, "etl", "reused_ids"),  # a wait whose end is lost separates two runs
    (3_000_539, "perf", "burst_lost"),  # a ready thread whose switch-in is lost: on which CPU?
    (3_000_602, "etl", "random_lost"),  # a priority that changed since a gap
    (3_001_035, "etl", "one_stamp"),  # a switch-in whose record alone is damaged
    (3_001_651, "real", "one_stamp"),  # the only damaged record is the exit of an interrupt
    (3_001_568, "perf", "reordered"),  # switches to and fro at one time, in disorder
    (3_001_175, "real", "no_switches"),  # an exit of an interrupt long after the first record
    (5_000_000, "perf", "some_wakeups"),  # a wait that ends without a wakeup may be ready time
    (5_000_017, "etl", "some_wakeups"),  # and so may the last wait of such a thread
    (2_000_297, "real", "ring"),  # an interrupt that began before the CPU's first record
]


@pytest.mark.parametrize(("seed", "format_", "kind"), ONCE_WRONG)
def test_earlier_false_claims_do_not_return(
    seed: int, format_: str, kind: str, player: Player
) -> None:
    run = player.play(seed, format_, kind)
    assert run.failure is None
    assert {key: column.wrong for key, column in run.columns.items() if column.wrong} == {}
    assert run.false_findings == []
