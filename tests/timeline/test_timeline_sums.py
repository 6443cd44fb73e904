"""Every number that the timeline shows equals what SQL computes from the tables, to the ns."""

from __future__ import annotations

import base64
import math
import shutil
import zlib
from collections import defaultdict
from collections.abc import Iterator
from pathlib import Path

import duckdb
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from simulated import simulated_database
from timeline_data import timeline_session

from schedlens.errors import UnknownNameError
from schedlens.load import store
from schedlens.report import embedded
from schedlens.simulate import cases
from schedlens.timeline import inventory, keys, lanes, slices, sums
from schedlens.timeline.columns import cover, split_sql, widths_of
from schedlens.timeline.lanes import Asked
from schedlens.timeline.prepared import Timelines

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def session(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    with timeline_session(tmp_path_factory.mktemp("timeline")) as folder:
        yield folder


@pytest.fixture(scope="module", params=[1, 1 << 40], ids=["columns", "parts"])
def timelines(session: Path, request: pytest.FixtureRequest) -> Iterator[Timelines]:
    """The recordings with sums in columns, and as a small recording has them."""
    with store.open_database(session) as con:
        yield Timelines(con, least_parts=request.param, rows_per_part=math.inf)


Sums = dict[tuple[int, int], int]


def sql_sums(con: duckdb.DuckDBPyConnection, sql: str) -> Sums:
    return {(lane, key): ns for lane, key, ns in con.execute(sql).fetchall() if ns}


def shares(table: pa.Table) -> Sums:
    found: Sums = defaultdict(int)
    for row in table.to_pylist():
        found[row["lane"], row["key"]] += row["ns"]
    return dict(found)


def busy_sql(start: int, end: int) -> str:
    return (
        f"SELECT cpu, coalesce(utid, {keys.INTERRUPT}), "
        f"sum(least(ts + dur, {end}) - greatest(ts, {start})) FROM cpu_state "
        f"WHERE trace_id = 1 AND state IN ('thread', 'interrupt') AND ts < {end} "
        f"AND ts + dur > {start} GROUP BY ALL"
    )


@pytest.mark.parametrize("width", [1, 4, 7])
def test_shares_of_a_whole_recording_add_up_to_the_time_in_the_database(
    timelines: Timelines, width: int
) -> None:
    start, end = timelines.of(1)
    table = lanes.lanes(timelines, Asked(1, "cpu", start, end, width))
    assert table.schema.metadata[b"shape"] == b"shares"
    assert shares(table) == sql_sums(timelines.con, busy_sql(start, end))


def test_shares_of_columns_equal_sql_of_each_column(timelines: Timelines) -> None:
    start, end = timelines.of(1)
    table = lanes.lanes(timelines, Asked(1, "cpu", start + 1_234_567, end - 7_654_321, 6))
    begin = int(table.schema.metadata[b"start_ns"])
    width = int(table.schema.metadata[b"column_ns"])
    assert begin <= start + 1_234_567 < begin + width
    columns: dict[int, Sums] = defaultdict(dict)
    for row in table.to_pylist():
        columns[row["column"]][row["lane"], row["key"]] = row["ns"]
    assert len(columns) >= 6
    for column in sorted(columns)[::3]:
        at = begin + column * width
        # Columns of parts are cut at the range; those of a level are whole.
        stop = at + width if timelines.widths(1) else min(at + width, end - 7_654_321)
        assert columns[column] == sql_sums(timelines.con, busy_sql(at, stop)), column


@settings(max_examples=30, deadline=None)
@given(data=st.data())
def test_any_split_keeps_each_column_exact(data: st.DataObject) -> None:
    width = data.draw(st.integers(1, 40))
    cuts = data.draw(st.lists(st.integers(0, 500), min_size=2, max_size=12, unique=True))
    spans = list(zip(sorted(cuts), sorted(cuts)[1:], strict=False))
    source = " UNION ALL ".join(
        f"SELECT 0 AS lane, 1 AS key, {b} AS b, {e} AS e, 1 AS begins" for b, e in spans
    )
    expected: dict[int, int] = defaultdict(int)
    for begin, end in spans:
        for at in range(begin, end):
            expected[at // width] += 1
    found: dict[int, int] = defaultdict(int)
    with duckdb.connect() as con:
        pieces = con.execute(split_sql(source, width)).fetchall()
        assert sum(piece[-1] for piece in pieces) == len(spans)
        for _, _, first, columns, ns, _ in pieces:
            assert ns % columns == 0
            for column in range(first, first + columns):
                found[column] += ns // columns
    assert found == expected


@settings(max_examples=50, deadline=None)
@given(data=st.data())
def test_cover_fills_a_range_once_with_whole_columns(data: st.DataObject) -> None:
    widths = [data.draw(st.integers(1, 5))]
    while len(widths) < 4:
        widths.append(widths[-1] * 4)
    start = data.draw(st.integers(0, 1000))
    end = data.draw(st.integers(start, 1500))
    segments, edges = cover(start, end, widths)
    spans = [(first * width, last * width) for width, first, last in segments] + edges
    assert all(begin < stop for begin, stop in spans)
    assert sorted(ns for begin, stop in spans for ns in range(begin, stop)) == [*range(start, end)]
    # Only what is narrower than the narrowest column is left to the parts.
    assert sum(stop - begin for begin, stop in edges) < 2 * widths[0]


def test_slices_are_those_of_the_database_down_to_one_ns(timelines: Timelines) -> None:
    start, end = timelines.of(1)
    middle = (start + end) // 2
    table = lanes.lanes(timelines, Asked(1, "cpu", middle, middle + 1, 1000))
    assert table.schema.metadata[b"shape"] == b"slices"
    rows = [(row["lane"], row["start_ns"], row["dur_ns"], row["key"]) for row in table.to_pylist()]
    assert (
        rows
        == timelines.con.execute(
            f"SELECT cpu, ts, dur, coalesce(utid, {keys.INTERRUPT}) FROM cpu_state "
            f"WHERE trace_id = 1 AND state <> 'idle' AND ts <= {middle} "
            f"AND ts + dur > {middle} ORDER BY cpu"
        ).fetchall()
    )


def test_narrow_columns_that_save_few_rows_are_not_made(session: Path, tmp_path: Path) -> None:
    # A copy: connections to one file share the tables that another test has attached.
    copied = shutil.copy(session / "analysis.duckdb", tmp_path)
    made = []
    for rows_per_part in (math.inf, 1.0, 0.25, 0.01):
        with store.open_database(Path(copied)) as con:
            known = Timelines(con, least_parts=1, rows_per_part=rows_per_part)
            start, end = known.of(1)
            made.append(known.widths(1))
            assert made[-1]
            assert made[-1] == widths_of(end - start)[-len(made[-1]) :]
            since, until = start + (end - start) // 3, end - (end - start) // 5
            table = sums.totals(known, 1, since, until)
            found = {(row["utid"], row["key"]): row["ns"] for row in table.to_pylist()}
            assert {who: ns for who, ns in found.items() if ns} == sql_sums(
                con,
                f"SELECT lane, key, sum(greatest(0, overlap_ns(ts, end_ns, {since}, {until}))) "
                f"FROM ({known.all_parts_sql('thread', 1)}) GROUP BY lane, key",
            )
    assert [len(widths) for widths in made] == sorted(map(len, made), reverse=True)
    assert len(made[0]) > len(made[2])


def test_preparing_again_after_an_error_gives_the_same_rows(
    session: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def rows(known: Timelines) -> list[tuple[str, list[tuple[int]]]]:
        known.of(1)
        tables = known.con.execute(
            "SELECT table_name FROM duckdb_tables() WHERE database_name = 'tiles' ORDER BY 1"
        ).fetchall()
        assert len(tables) > 5
        return [
            (
                table,
                known.con.execute(f"SELECT hash(t) FROM tiles.{table} AS t ORDER BY 1").fetchall(),
            )
            for (table,) in tables
        ]

    copied = Path(shutil.copy(session / "analysis.duckdb", tmp_path))
    with store.open_database(copied) as con:
        known = Timelines(con, least_parts=1, rows_per_part=math.inf)
        with monkeypatch.context() as patch:
            patch.setattr("schedlens._decoders.time_columns", lambda *given: iter([1 // 0]))
            with pytest.raises(ZeroDivisionError):
                known.of(1)
        again = rows(known)
    with store.open_database(copied) as con:
        assert rows(Timelines(con, least_parts=1, rows_per_part=math.inf)) == again


def test_levels_of_one_recording_have_the_same_sums(timelines: Timelines) -> None:
    start, end = timelines.of(1)
    assert timelines.widths(1) in ([], widths_of(end - start))
    assert len(widths_of(end - start)) > 3
    for kind in ("cpu", "thread", "sibling"):
        found = timelines.con.execute(
            "SELECT count(DISTINCT total) FROM (SELECT width_ns, list((lane, key, ns) "
            "ORDER BY lane, key) AS total FROM (SELECT width_ns, lane, key, sum(ns) AS ns "
            f"FROM tiles.{kind}_tile WHERE trace_id = 1 GROUP BY ALL) GROUP BY width_ns)"
        ).fetchall()
        assert found == [(1 if timelines.widths(1) else 0,)], kind


def test_parts_of_threads_tile_their_states(timelines: Timelines) -> None:
    timelines.of(1)
    differing = timelines.con.execute(
        "SELECT utid, state, ns, part_ns FROM (SELECT utid, state, sum(dur) AS ns "
        "FROM thread_state WHERE trace_id = 1 GROUP BY ALL HAVING ns > 0) "
        "FULL JOIN (SELECT lane AS utid, CASE WHEN key < 20 THEN 'running' "
        "WHEN key < 30 THEN 'ready' WHEN key = 30 THEN 'new' WHEN key = 31 THEN 'unknown' "
        "ELSE 'waiting' END AS state, sum(end_ns - ts) AS part_ns "
        f"FROM ({timelines.all_parts_sql('thread', 1)}) GROUP BY ALL) "
        "USING (utid, state) WHERE ns IS DISTINCT FROM part_ns"
    ).fetchall()
    assert differing == []


def test_time_with_a_busy_sibling_equals_the_sharing_in_the_database(timelines: Timelines) -> None:
    start, end = timelines.of(1)
    found = {
        row["utid"]: row["ns"] for row in timelines.con.sql(
            "SELECT lane AS utid, sum(end_ns - ts) AS ns "
            f"FROM ({timelines.all_parts_sql('thread', 1)}) "
            "WHERE key BETWEEN 11 AND 15 GROUP BY ALL"
        ).to_arrow_table().to_pylist()
    }  # fmt: skip
    assert found == dict(
        timelines.con.execute(
            "SELECT utid, sum(dur) FROM sharing_slice WHERE trace_id = 1 GROUP BY ALL"
        ).fetchall()
    )
    lane = lanes.lanes(timelines, Asked(1, "sibling", start, end, 5))
    assert sum(shares(lane).values()) == sum(found.values()) > 0


def test_totals_of_a_range_equal_sql_to_the_ns(timelines: Timelines) -> None:
    start, end = timelines.of(1)
    since, until = start + (end - start) // 3 + 11, end - (end - start) // 4 - 7
    rows = sums.totals(timelines, 1, since, until).to_pylist()
    found: dict[int, int] = defaultdict(int)
    for row in rows:
        if row["state"].startswith("running"):
            found[row["utid"]] += row["ns"]
    assert dict(found) == dict(
        timelines.con.execute(
            f"SELECT utid, sum(least(ts + dur, {until}) - greatest(ts, {since})) FROM sched_slice "
            f"WHERE trace_id = 1 AND NOT is_idle AND ts < {until} AND ts + dur > {since} GROUP BY 1"
        ).fetchall()
    )
    parts = timelines.con.execute(
        "SELECT lane, key, count(*), sum(least(end_ns, $until) - greatest(ts, $since)) "
        f"FROM ({timelines.all_parts_sql('thread', 1)}) WHERE ts < $until AND end_ns > $since "
        "GROUP BY lane, key",
        {"since": since, "until": until},
    ).fetchall()
    assert sorted((row["utid"], row["key"], row["slices"], row["ns"]) for row in rows) == sorted(
        parts
    )
    assert {row["core_type"] for row in rows if row["state"].startswith("running")} <= {
        "P", "E", "U",
    }  # fmt: skip


def test_processes_are_the_sums_of_their_threads(timelines: Timelines) -> None:
    start, end = timelines.of(1)
    found = shares(lanes.lanes(timelines, Asked(1, "process", start, end, 50)))
    assert found == sql_sums(
        timelines.con,
        "SELECT coalesce(upid, -1), key, sum(part.end_ns - ts) "
        f"FROM ({timelines.all_parts_sql('thread', 1)}) AS part "
        "JOIN thread ON utid = lane WHERE thread.trace_id = 1 GROUP BY ALL",
    )


def test_every_kind_of_lane_answers(timelines: Timelines) -> None:
    start, end = timelines.of(2)
    for kind in lanes.KINDS:
        table = lanes.lanes(timelines, Asked(2, kind, start, end, 100))
        stream = lanes.as_bytes(table)
        assert pa.ipc.open_stream(stream).read_all().num_rows == table.num_rows
        assert {str(field.type) for field in table.schema} <= {
            "int32", "int64", "double", "string",
        }  # fmt: skip
    with pytest.raises(UnknownNameError, match="did you mean cpu"):
        lanes.lanes(timelines, Asked(1, "cpus", start, end))
    with pytest.raises(UnknownNameError, match="no recording named '99'"):
        lanes.lanes(timelines, Asked(99, "cpu", start, end))


def test_overview_counts_what_the_database_has(timelines: Timelines) -> None:
    found = inventory.overview(timelines, 1)
    assert [one["name"] for one in found["recordings"]] == ["faulty", "fixed"]
    running = {one["utid"]: one["running_ns"] for one in found["threads"]}
    expected = dict(
        timelines.con.execute(
            "SELECT utid, sum(dur) FROM sched_slice WHERE trace_id = 1 AND NOT is_idle GROUP BY 1"
        ).fetchall()
    )
    assert {utid: ns for utid, ns in running.items() if ns} == expected
    used = timelines.con.execute(
        f"SELECT DISTINCT key FROM ({timelines.all_parts_sql('thread', 1)})"
    ).fetchall()
    assert {row[0] for row in used} <= {state["key"] for state in found["states"]}


def test_neighbors_and_wakers_are_those_of_the_slices(timelines: Timelines) -> None:
    timelines.of(1)
    utid, first, then = timelines.con.execute(
        "SELECT utid, ts, following FROM (SELECT *, lead(ts) OVER (PARTITION BY utid ORDER BY ts) "
        "AS following FROM sched_slice WHERE trace_id = 1 AND NOT is_idle) "
        "WHERE following IS NOT NULL ORDER BY ts LIMIT 1"
    ).fetchall()[0]
    after = slices.neighbor(timelines, 1, first, "next", utid=utid)
    assert after is not None
    assert (after["utid"], after["start_ns"]) == (utid, then)
    before = slices.neighbor(timelines, 1, then, "previous", utid=utid)
    assert before is not None
    assert before["start_ns"] == first
    row = timelines.con.execute(
        "SELECT s.utid, s.ts, s.waker_utid, s.ready_ns, s.cpu, s.end_reason FROM sched_slice AS s "
        "JOIN thread AS t ON t.utid = s.waker_utid WHERE s.trace_id = 1 AND NOT t.is_idle "
        "AND s.ready_ns > 0 ORDER BY s.ts LIMIT 1"
    ).fetchall()[0]
    waker = slices.neighbor(timelines, 1, row[1], "waker", utid=row[0])
    assert waker is not None
    assert waker["utid"] == row[2]
    assert waker["start_ns"] <= row[1] - row[3] <= waker["start_ns"] + waker["dur_ns"]
    found = slices.slice_at(timelines, 1, row[0], row[1])
    assert found is not None
    assert (found["ready_ns"], found["cpu"], found["end_reason"]) == row[3:]
    assert sum(part["ns"] for part in found["ready"]) == row[3]
    assert found["chain"][0]["utid"] == row[2]
    for sql in found["sql"].values():
        timelines.con.execute(sql)


def test_worst_waits_are_the_longest_ready_and_waiting_periods_with_their_reasons(
    timelines: Timelines,
) -> None:
    utid = timelines.con.execute(
        "SELECT utid FROM thread_state WHERE trace_id = 1 AND state = 'ready' "
        "GROUP BY utid ORDER BY max(dur) DESC, utid LIMIT 1"
    ).fetchall()[0][0]
    found = sums.worst_waits(timelines, 1, utid, 3)
    assert [(row["state"], row["start_ns"], row["dur_ns"]) for row in found] == [
        row
        for state in ("ready", "waiting")
        for row in timelines.con.execute(
            "SELECT state, ts, dur FROM thread_state WHERE trace_id = 1 AND utid = $utid "
            "AND state = $state AND dur > 0 ORDER BY dur DESC, ts LIMIT 3",
            {"utid": utid, "state": state},
        ).fetchall()
    ]
    names = {name.removeprefix("ready: ") for name in map(keys.ready_name, range(20, 30))}
    assert {row["reason"] for row in found if row["state"] == "ready"} <= names - {"ready"}


@pytest.mark.parametrize("budget", [20_000, 8_000_000])
def test_curves_of_the_report_are_whole_whatever_the_budget(
    timelines: Timelines, budget: int
) -> None:
    recorded = embedded.payload(timelines.con, 1, budget, timelines)["recordings"][0]
    curves = next(one for one in recorded["streams"] if one["kind"] == "counter")
    table = pa.ipc.open_stream(zlib.decompress(base64.b64decode(curves["data"]))).read_all()
    ends: dict[int, int] = {}
    for row in table.to_pylist():
        ends[row["lane"]] = max(ends.get(row["lane"], 0), row["start_ns"] + row["dur_ns"])
    expected = timelines.con.execute(
        "SELECT max(ts + dur) FROM counter_delta WHERE trace_id = 1 AND dur > 0 "
        "GROUP BY counter, cpu ORDER BY counter, cpu"
    ).fetchall()
    assert sorted(ends) == list(range(1, len(expected) + 1))
    width = int(table.schema.metadata.get(b"column_ns", b"0"))
    for lane, (end,) in enumerate(expected, 1):
        assert end <= ends[lane] <= end + width


def test_obstacles_of_a_slice_are_those_of_the_view(tmp_path: Path) -> None:
    case = {one.name: one for one in cases.CASES}
    plays = [(name, case[name].play(seconds=s)) for name, s in (("parked", 1.5), ("priority", 0.3))]
    with simulated_database(tmp_path, plays) as con:
        timelines = Timelines(con)
        # Up to 15 slices after a wait of each kind.
        ready = con.execute(
            "SELECT DISTINCT s.trace_id, s.utid, s.ts "
            "FROM ready_obstacle_slice() AS r "
            "JOIN sched_slice AS s ON s.utid = r.utid AND s.ts - s.ready_ns = r.ready_ts "
            "QUALIFY row_number() OVER (PARTITION BY r.obstacle ORDER BY hash(r.ts, r.utid)) <= 15"
        ).fetchall()
        kinds = set()
        for trace_id, utid, ts in ready:
            found = slices.slice_at(timelines, trace_id, utid, ts)
            assert found is not None
            shown = [(row["obstacle"], row["ns"]) for row in found["ready"]]
            assert shown == con.execute(found["sql"]["obstacles"]).fetchall()
            kinds |= {obstacle for obstacle, _ in shown}
    assert {"all_busy", "parked_available"} <= kinds


def test_chain_of_wakeups_ends_at_the_start_of_the_frame_or_at_an_interrupt(
    timelines: Timelines,
) -> None:
    con = timelines.con
    wakeups: dict[int, list[tuple[int, int, int, bool]]] = {}
    for woken, *row in con.execute(
        "SELECT w.utid, w.ts, w.cpu, w.waker_utid, coalesce(w.in_interrupt, t.is_idle) "
        "FROM wakeup AS w LEFT JOIN thread AS t ON t.utid = w.waker_utid "
        "WHERE w.trace_id = 1 AND effective ORDER BY w.ts DESC, w.seq DESC"
    ).fetchall():
        wakeups.setdefault(woken, []).append((row[0], row[1], row[2], row[3]))
    frames = con.execute(
        "SELECT start_ns, start_ns + dur_ns FROM frame WHERE trace_id = 1 AND dur_ns > 0"
    ).fetchall()
    ends = set()
    for utid, ts in con.execute(
        "SELECT utid, ts FROM sched_slice WHERE trace_id = 1 AND NOT is_idle "
        "ORDER BY hash(ts, utid) LIMIT 150"
    ).fetchall():
        begin = max((start for start, end in frames if start <= ts < end), default=None)
        at, who = ts, utid
        expected: list[tuple[int, int, int, bool, int]] = []
        while True:
            last = next((row for row in wakeups.get(who, ()) if row[0] <= at), None)
            if last is None or (begin is not None and last[0] < begin):
                ends.add("frame" if last and expected else "none")
                break
            expected.append((*last, who))
            if last[3] or last[2] is None or (last[0], last[2]) == (at, who):
                ends.add("interrupt")
                break
            if len(expected) == 32:
                break
            at, who = last[0], last[2]
        chain = slices.chain(timelines, 1, utid, ts)
        assert [
            (hop["time_ns"], hop["cpu"], hop["utid"], hop["in_interrupt"], hop["woken_utid"])
            for hop in chain
        ] == expected
    assert {"frame", "interrupt"} <= ends
