"""The report file without a browser: its permissions, its content, and the step it shows."""

from __future__ import annotations

import base64
import gzip
import hashlib
import json
import math
import re
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import duckdb
import pytest
import report_database
import throughput_steps
from drawn_trace import Cpu, DrawnTrace, Slice, drawn_database
from prepared_database import prepare
from stored_states import store

from schedlens.ask import catalog, findings, judging
from schedlens.errors import UnknownNameError
from schedlens.output.terminal import visible
from schedlens.report import conclusion
from schedlens.report import page as report
from schedlens.report import table as page_table
from schedlens.report.figures import short, unique
from schedlens.report.sections import Answer, chapters

pytestmark = pytest.mark.slow

MEGABYTE = 1_000_000
MS = 1_000_000


@pytest.fixture(scope="module")
def con() -> Iterator[duckdb.DuckDBPyConnection]:
    with report_database.create(threads=(1, 14)) as con:
        yield con


@pytest.fixture(scope="module")
def text(con: duckdb.DuckDBPyConnection, tmp_path_factory: pytest.TempPathFactory) -> str:
    path = tmp_path_factory.mktemp("report") / "report.html"
    report.write(con, path)
    assert [found.name for found in path.parent.iterdir()] == ["report.html"]
    return path.read_text(encoding="utf-8")


def data_of(text: str) -> dict[str, Any]:
    """The page's data block, unpacked."""
    block = re.search(r'id="data">([^<]*)<', text)
    assert block is not None
    shown: dict[str, Any] = json.loads(gzip.decompress(base64.b64decode(block[1])))
    return shown


def test_only_page_and_plotly_scripts_run_and_nothing_loads(text: str) -> None:
    policy = re.search(r'Content-Security-Policy" content="([^"]*)"', text)
    script = re.search(r"<script>(.*?)</script>", text, re.DOTALL)
    library = re.search(r'id="library">([^<]*)<', text)
    assert policy is not None
    assert script is not None
    assert library is not None
    digests = [
        base64.b64encode(hashlib.sha256(part).digest()).decode()
        for part in (script[1].encode(), gzip.decompress(base64.b64decode(library[1])))
    ]
    assert policy[1].replace("&#x27;", "'") == (
        f"default-src 'none'; script-src 'sha256-{digests[0]}' 'sha256-{digests[1]}'; "
        "style-src 'unsafe-inline'; img-src data: blob:; base-uri 'none'; form-action 'none'"
    )
    outside = re.sub(r'id="(data|library)">[^<]*<', "", text)
    assert re.findall(r"\b(?:https?:)?//[\w.-]+\.\w+", outside) == []


def test_thread_names_are_only_in_the_packed_data() -> None:
    with report_database.create(threads=(2,), name=report_database.HOSTILE) as con:
        shown = report.payload(report.chosen_view(con, None, None))
    text = report.page(shown, report_database.HOSTILE)
    assert "alert(1)</script>" not in text
    assert "&lt;script&gt;alert(1)&lt;/script&gt;" in text
    assert "\u202e" not in text


def test_page_warns_that_it_contains_names(text: str) -> None:
    assert "This report contains the recorded names of threads" in text


def is_same(shown: list[object], expected: list[object]) -> bool:
    return len(shown) == len(expected) and all(
        math.isclose(one, other, rel_tol=1e-12)
        if isinstance(one, float) and isinstance(other, float)
        else one == other
        for one, other in zip(shown, expected, strict=True)
    )


def test_every_table_comes_from_a_shipped_query(con: duckdb.DuckDBPyConnection, text: str) -> None:
    shown = data_of(text)
    known = {query.full_name for query in catalog.load_all()}
    answers = [answer for section in shown["sections"] for answer in section["answers"]]
    assert {answer["query"] for answer in answers} <= known
    for answer in answers:
        cursor = con.execute(answer["sql"])
        names = [column[0] for column in cursor.description or []]
        rows = cursor.fetchall()
        if not answer["columns"]:
            continue
        at = [names.index(column["name"]) for column in answer["columns"]]
        expected = [[page_table.value(row[i]) for i in at] for row in rows]
        # The last digit of a mean depends on the order in which its rows are added up.
        pairs = zip(answer["rows"], expected[: page_table.MOST_ROWS], strict=True)
        assert all(is_same(*pair) for pair in pairs), answer["query"]
        assert answer["total"] == len(rows)


def test_each_section_is_shown_or_has_a_reason(text: str) -> None:
    shown = data_of(text)
    headings = [section["heading"] for section in shown["sections"]]
    headings += [heading for heading, _ in shown["absent"]]
    assert sorted(headings) == sorted(chapter.heading for chapter in chapters())
    assert [reason for _, reason in shown["absent"] if "query failed" in reason] == []


def test_headings_of_all_queries_are_words() -> None:
    names = {column for query in catalog.load_all() for column, _ in query.columns}
    headings = {name: page_table.heading(name) for name in names}
    # Abbreviations that the field uses, and words of three letters.
    short = {
        "CPU", "TID", "PID", "SMT", "LLC", "FPS", "CPI", "IPC", "kHz", "GHz", "IRQ", "p50", "p95",
        "p99",
    }  # fmt: skip
    words = {
        "by", "end", "gap", "how", "key", "low", "new", "off", "one", "out", "pod", "run", "tax",
        "to", "why",
    }  # fmt: skip
    terse = {name: text for name, text in headings.items()
             if len(text) < 4 and text not in short | words}  # fmt: skip
    assert terse == {}
    for name, text in headings.items():
        assert "_" not in text
        assert not {"p", "e", "cpi", "avg", "dur"} & set(text.split()), name


def test_every_analyzer_has_a_section_of_its_name() -> None:
    names = {chapter.name for chapter in chapters()}
    assert set(judging.analyzers()) <= names


def test_sections_behind_the_first_screen_are_open_and_the_others_are_not(text: str) -> None:
    shown = data_of(text)
    places = {section["name"]: section["place"] for section in shown["sections"]}
    cards, top = shown["findings"]["cards"], shown["findings"]["top"]
    opened = {name for name, place in places.items() if place == "open"}
    named = {cards[place]["section"] for place in top} - {None}
    assert opened == named | {"scaling_curve", "cpu_timeline"}
    # The answer of a sweep comes first; what no finding is about comes last.
    assert next(iter(places)) == "scaling_curve"
    assert places["topology"] == "group"
    order = [["open", "line", "group"].index(place) for place in places.values()]
    assert order == sorted(order)
    linked = {card["section"] for card in cards} - {None}
    assert {name for name, place in places.items() if place == "line"} == linked - opened


def test_map_busy_share_matches_the_query(con: duckdb.DuckDBPyConnection, text: str) -> None:
    shown = data_of(text)
    [machine] = [one for one in shown["sections"] if one["name"] == "topology"]
    plot = machine["figures"][0]["plot"]
    step = dict(shown["facts"])["step shown in detail"]
    expected = dict(
        con.execute(
            "SELECT cpu, busy_pct FROM cpu_time JOIN trace USING (trace_id) WHERE label = ?", [step]
        ).fetchall()
    )
    assert {cpu["cpu"]: cpu["busy_pct"] for cpu in plot["cpus"]} == expected
    # 14 workers on 10 cores, and a kernel thread for 100 us every 20 ms.
    assert sorted(round(share) for share in expected.values()) == [0] * 6 + [100] * 14


def test_report_of_60_steps_is_under_8_megabytes(tmp_path: Path) -> None:
    with report_database.create(threads=range(1, 21)) as con:
        assert con.execute("SELECT count(*) FROM trace").fetchone() == (60,)
        report.write(con, tmp_path / "report.html")
    assert (tmp_path / "report.html").stat().st_size < 8 * MEGABYTE


def test_shown_step_has_the_costliest_finding_or_most_threads(
    con: duckdb.DuckDBPyConnection,
) -> None:
    kept = con.execute("FROM finding").fetchall()
    try:
        con.execute("DELETE FROM finding")
        assert report.chosen_view(con, None, None).label == "sha256-default-t14-r1"
        costly = _finding("steal", "warning", "costly", trace_id=3, cost_ns=5_000)
        cheap = _finding("steal", "critical", "cheap", trace_id=1, cost_ns=10)
        judging.store(con, judging.Judgement([costly, cheap], []))
        assert report.chosen_view(con, None, None).trace_id == 3
        assert report.chosen_view(con, None, "sha256-physical-t01-r1").trace_id == 3
        with pytest.raises(UnknownNameError, match="did you mean sha256-siblings-t01-r1"):
            report.chosen_view(con, None, "sha256-sibling-t01-r1")
    finally:
        con.execute("DELETE FROM finding")
        con.executemany(f"INSERT INTO finding VALUES ({', '.join('?' * len(kept[0]))})", kept)


def _finding(
    analyzer: str,
    severity: findings.Severity,
    title: str,
    *,
    rank: findings.Rank = findings.Rank.CAUSE,
    trace_id: int | None = None,
    cost_ns: int | None = None,
) -> findings.Finding:
    return findings.Finding(
        "kind", severity, title, "Detail.", "Advice.", "FROM steal", analyzer, rank, trace_id,
        cost_ns,
    )  # fmt: skip


def test_cards_sort_by_severity_then_cost_and_group_by_kind(
    con: duckdb.DuckDBPyConnection,
) -> None:
    kept = con.execute("FROM finding").fetchall()
    try:
        other = _finding("concurrency", "warning", "w3", cost_ns=60)
        absent = _finding("concurrency", "critical", "c1", cost_ns=1)
        judging.store(
            con,
            judging.Judgement(
                [
                    _finding("steal", "warning", "w1", cost_ns=50, trace_id=1),
                    _finding("steal", "warning", "w2", cost_ns=70, trace_id=2),
                    replace(other, advice="a\nb\x1b"),
                    replace(absent, evidence_sql="FROM nowhere"),
                ],
                [replace(findings.clean("All fine."), analyzer="parking")],
            ),
        )
        shown = report.payload(report.chosen_view(con, None, None))["findings"]
        assert [card["title"] for card in shown["cards"]] == ["c1", "w2", "w3"]
        assert shown["headline"] == "1 critical finding and 3 warnings."
        assert [shown["cards"][place]["title"] for place in shown["top"]] == [
            "c1",
            "w2",
            "w3",
        ]
        assert shown["cards"][2]["advice"] == "a\nb\\u001b"
        assert shown["clean"] == ["parking: All fine."]
        others = shown["cards"][1]["others"]
        assert [row[1] for row in others["rows"]] == ["w1"]
        assert "nowhere" in shown["cards"][0]["evidence"]["rows"][0][0]
    finally:
        con.execute("DELETE FROM finding")
        con.executemany(f"INSERT INTO finding VALUES ({', '.join('?' * len(kept[0]))})", kept)


def test_finding_of_another_recording_has_no_link_to_a_figure_of_the_step_in_view(
    con: duckdb.DuckDBPyConnection,
) -> None:
    kept = con.execute("FROM finding").fetchall()
    try:
        of_steps = [
            _finding("thread_summary", "warning", "here", cost_ns=9, trace_id=2),
            _finding("thread_summary", "info", "there", cost_ns=1, trace_id=1),
            _finding("sibling_overlap", "info", "everywhere", cost_ns=1, trace_id=1),
        ]
        judging.store(con, judging.Judgement(of_steps, []))
        view = report.chosen_view(con, None, None)
        assert view.trace_id == 2
        cards = report.payload(view)["findings"]["cards"]
        assert {card["title"]: card["section"] for card in cards} == {
            "here": "thread_summary", "there": None, "everywhere": "sibling_overlap",
        }  # fmt: skip
    finally:
        con.execute("DELETE FROM finding")
        con.executemany(f"INSERT INTO finding VALUES ({', '.join('?' * len(kept[0]))})", kept)


def test_time_of_equal_programs_is_added_up_under_one_name() -> None:
    rows: list[dict[str, Any]] = [
        {"process": "python", "run_ns": 3, "upid": 1}, {"process": "bash", "run_ns": 4, "upid": 2},
        {"process": "python", "run_ns": 2, "upid": 3}, {"process": None, "run_ns": 0, "upid": 4},
    ]  # fmt: skip
    found = conclusion.programs(rows)
    assert [(row["process"], row["run_ns"], row["processes"]) for row in found] == [
        ("python", 5, 2), ("bash", 4, 1),
    ]  # fmt: skip


@pytest.mark.parametrize(
    ("siblings", "repeats", "said", "doubted"),
    [
        (600, 1, "with 2 threads, default does 50 % more than siblings.", True),
        (600, 2, "with 2 threads, default does 50 % more than siblings.", False),
        (900, 1, "placement makes no difference.", False),
    ],
)
def test_first_sentence_doubts_a_difference_that_was_measured_once(
    tmp_path: Path, siblings: int, repeats: int, said: str, doubted: bool
) -> None:
    with drawn_database() as con:
        steps = [(["default", "siblings"], [0], [1000]), (["default"], [0, 2], [900, 900]),
                 (["siblings"], [0, 1], [siblings, siblings])]  # fmt: skip
        throughput_steps.fill(con, [
            throughput_steps.Step(*step, repeat=repeat)
            for repeat in range(1, repeats + 1) for step in steps
        ])  # fmt: skip
        report.write(con, tmp_path / "report.html")
    shown = data_of((tmp_path / "report.html").read_text(encoding="utf-8"))["findings"]
    text = " ".join(shown["verdict"]["lines"]).replace("\N{NO-BREAK SPACE}", " ")
    assert said in text
    assert ("Each point was measured once, so a difference may be chance." in text) == doubted


@pytest.mark.parametrize(("one", "doubted"), [(800, True), (920, False), (1000, False)])
def test_first_sentence_doubts_more_work_than_the_cpus_can_do(
    tmp_path: Path, one: int, doubted: bool
) -> None:
    with drawn_database() as con:
        throughput_steps.fill(con, [
            throughput_steps.Step(["default"], [0], [one]),
            throughput_steps.Step(["default"], [0, 2], [960, 960]),
        ])  # fmt: skip
        report.write(con, tmp_path / "report.html")
    shown = data_of((tmp_path / "report.html").read_text(encoding="utf-8"))["findings"]
    text = " ".join(shown["verdict"]["lines"])
    assert f"2 threads are {1920 / one:.2f}× one" in text
    assert ("More than 2× is seldom real" in text) == doubted


@pytest.mark.parametrize("lost", [False, True])
def test_first_sentence_is_a_lower_bound_if_records_were_lost(tmp_path: Path, lost: bool) -> None:
    with drawn_database() as con:
        ran = Slice("game/A", 0, 10 * MS, 40 * MS, ready=5 * MS)
        trace = DrawnTrace(con, [ran], [Cpu(0, 0, 0), Cpu(1, 1, 0)], 100 * MS)
        trace.add("ready_slice", utid=trace.utid("game/A"), ts=5 * MS, dur=5 * MS, ready_ts=5 * MS,
                  throttled=False, cgroup_throttled=False, idle_exit=False, affinity_known=True,
                  unknown_available=False)  # fmt: skip
        if lost:
            store(con)
            con.execute("UPDATE cpu_state SET state = 'unknown' WHERE cpu = 1")
        report.write(con, tmp_path / "report.html")
    shown = data_of((tmp_path / "report.html").read_text(encoding="utf-8"))["findings"]
    text = " ".join(shown["verdict"]["lines"]).replace("\N{NO-BREAK SPACE}", " ")
    if lost:
        assert "2 CPUs ran threads for at least 20 % of their time (50 % is unknown): " in text
        assert "Threads were ready for at least 5 ms in total" in text
        assert "waited longest, at least 5 ms." in text
    else:
        assert "2 CPUs ran threads for 20 % of their time: " in text
        assert "Threads were ready for 5 ms in total" in text
        assert "at least" not in text


def test_empty_database_still_makes_a_report(tmp_path: Path) -> None:
    with duckdb.connect() as con:
        prepare(con)
        report.write(con, tmp_path / "report.html")
    shown = data_of((tmp_path / "report.html").read_text(encoding="utf-8"))
    assert shown["findings"]["cards"] == []
    assert shown["sections"] == []
    assert len(shown["absent"]) == len(chapters())


def test_cells_are_exact_or_text_and_unknown_is_empty() -> None:
    rows: list[dict[str, object]] = [
        {
            "priority": 2**53 + 1,
            "run_ns": 5,
            "busy_pct": float("nan"),
            "name": "a\u202eb",
            "cpus": [1],
        },
        {"priority": 7, "run_ns": None, "busy_pct": 12.5, "name": "x" * 1000, "cpus": None},
    ]
    answer = Answer("FROM q", "q", tuple(rows[0]), rows)
    shown = page_table.table(answer, most=2)
    assert shown["rows"] == [
        ["9007199254740993", 5, None, "a\\u202eb", "1"],
        [7, None, 12.5, f"{'x' * 260} … (1,000 characters)", None],
    ]
    assert [column["kind"] for column in shown["columns"]] == ["id", "ns", "pct", "text", "text"]
    assert [column["title"] for column in shown["columns"]][:3] == ["priority", "run", "busy"]


def test_columns_are_named_in_words_without_ids() -> None:
    row = {"trace_id": 1, "utid": 9, "waker_utid": 8, "smt_index": 1, "first_cpu": 2, "pid": 3}
    answer = Answer("FROM smt_yield", "smt_yield", tuple(row), [row])
    shown = page_table.table(answer)
    assert shown["title"] == "SMT yield"
    assert [column["title"] for column in shown["columns"]] == ["SMT index", "first CPU", "PID"]
    # Without a name, the number of the recording is what distinguishes the rows of several.
    answer = Answer("FROM q", "q", tuple(row), [row, {**row, "trace_id": 2}])
    assert page_table.table(answer)["columns"][0]["title"] == "recording"
    only = Answer("FROM q", "q", ("utid",), [{"utid": 9}])
    assert [column["name"] for column in page_table.table(only)["columns"]] == ["utid"]


def test_long_answers_are_truncated_and_say_so() -> None:
    rows = [{"cpu": number} for number in range(12)]
    shown = page_table.table(Answer("FROM q", "q", ("cpu",), rows), most=5)
    assert (len(shown["rows"]), shown["total"]) == (5, 12)


@pytest.mark.parametrize(
    ("name", "label"),
    [
        (None, "?"),
        ("render", "render"),
        ("a\x00\x1b[31mb", "a\\u0000\\u001b[31mb"),
        ("abcdefghijklmnopqrstuvwxyz0123456789", "abcdefghijklmnopqrst…3456789"),
    ],
)
def test_labels_are_short_and_visible(name: str | None, label: str) -> None:
    assert short(name) == label
    assert visible(label) == label


def test_equal_labels_are_numbered() -> None:
    assert unique(["a", "b", "a", "a"]) == ["a", "b", "a (2)", "a (3)"]


def test_cause_precedes_the_waiting_it_leads_to() -> None:
    rank = findings.Rank

    def found(name: str, rank: findings.Rank = rank.CAUSE, **more: Any) -> findings.Finding:
        return _finding("x", "critical", name, rank=rank, **{"trace_id": 1, **more})

    # By cost; the stutters, then what concerns recording 1, its causes first.
    listed = [
        found("elsewhere", trace_id=2, cost_ns=90), found("waiting", rank.SUM, cost_ns=80),
        found("turns", cost_ns=70), found("parking", cost_ns=60),
        found("stutter", rank.SYMPTOM, cost_ns=50),
        replace(found("slow", cost_ns=99), severity="warning"),
    ]  # fmt: skip
    names = [finding.title for finding in findings.ordered(listed)]
    assert names == ["stutter", "turns", "parking", "waiting", "elsewhere", "slow"]
    # Without a symptom no recording is preferred.
    names = [finding.title for finding in findings.ordered(listed[:4])]
    assert names == ["elsewhere", "turns", "parking", "waiting"]
    # The answer to an experiment precedes every severity.
    answer = replace(found("answer", rank.ANSWER), severity="info")
    assert findings.ordered([*listed, answer])[0] is answer
