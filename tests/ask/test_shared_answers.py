"""Questions that several statements contain are answered once."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

import duckdb
import pytest
from drawn_trace import Cpu, DrawnTrace, Slice, drawn_database
from prepared_database import prepare

from schedlens.ask import catalog
from schedlens.ask.findings import Scope


@pytest.fixture
def scope() -> Iterator[Scope]:
    """A database with one recording and a question whose answers can be counted."""
    with duckdb.connect(":memory:") as con:
        con.execute(
            "CREATE TABLE trace AS SELECT 7 AS trace_id; CREATE SEQUENCE asked; "
            "CREATE TABLE fact AS SELECT 7 AS trace_id, 2 - i AS n FROM range(3) AS t(i); "
            "CREATE MACRO ask(p_trace_id := NULL, p_least := 0) AS TABLE SELECT *, "
            "nextval('asked') AS turn FROM fact "
            "WHERE (p_trace_id IS NULL OR trace_id = p_trace_id) AND n >= p_least; "
            "CREATE VIEW ask AS FROM ask()"
        )
        yield Scope(con)


def turns(scope: Scope, sql: str) -> list[int]:
    return [row["turn"] for row in scope.rows(sql)]


def test_question_is_answered_once_and_keeps_its_order(scope: Scope) -> None:
    asked = scope.call("ask")
    assert turns(scope, asked) == [1, 2, 3]
    assert turns(scope, f"SELECT * FROM ({asked}) WHERE n > 0") == [1, 2]
    assert [row["n"] for row in scope.rows(asked)] == [2, 1, 0]


def test_question_about_the_only_recording_is_that_about_all(scope: Scope) -> None:
    assert turns(scope, scope.call("ask")) == [1, 2, 3]
    about_it = scope.call("ask", trace_id=7)
    assert about_it == "FROM ask(p_trace_id := 7)"
    assert turns(scope, about_it) == [1, 2, 3]
    scope.execute("INSERT INTO trace VALUES (8)")
    other = Scope(scope.con)
    assert turns(other, other.call("ask", trace_id=7)) == [4, 5, 6]


def test_other_arguments_are_another_question(scope: Scope) -> None:
    assert turns(scope, scope.call("ask")) == [1, 2, 3]
    assert turns(scope, scope.call("ask", least=2)) == [4]
    assert turns(scope, scope.call("ask", least=2, trace_id=None)) == [4]


def test_longer_name_is_another_question(scope: Scope) -> None:
    scope.execute("CREATE VIEW ask_more AS SELECT 0 AS turn")
    scope.call("ask")
    assert turns(scope, "FROM ask_more") == [0]
    assert turns(scope, "FROM main.ask_more") == [0]


def test_hidden_recordings_make_it_another_question(scope: Scope) -> None:
    asked = scope.call("ask")
    with scope.answers.without(frozenset({7})):
        assert turns(scope, asked) == [1, 2, 3]
    assert turns(scope, asked) == [4, 5, 6]
    with scope.answers.without(frozenset({7})):
        assert turns(scope, asked) == [1, 2, 3]


def test_failed_answer_is_not_kept(scope: Scope) -> None:
    asked = scope.call("ask", least="x")
    for _ in range(2):
        with pytest.raises(duckdb.ConversionException):
            scope.rows(asked)
    assert turns(scope, scope.call("ask")) == [1, 2, 3]


def test_timings_show_the_question_that_was_answered(scope: Scope) -> None:
    scope.rows(f"SELECT count(*) AS n FROM ({scope.call('ask')})")
    assert [timing.sql.partition(" AS ")[2] for timing in scope.timings.queries] == [
        "FROM ask",
        "n FROM (FROM ask)",
    ]


def test_text_about_the_only_recording_shares_the_answer_about_all(scope: Scope) -> None:
    assert turns(scope, scope.call("ask", least=1)) == [1, 2]
    assert turns(scope, "FROM (FROM ask(p_trace_id := 7, p_least := 1)) LIMIT 1") == [1]


def test_questions_share_the_answers_to_those_inside_them(scope: Scope) -> None:
    """Of real questions: planning them again would take longer than reading what is stored."""
    with duckdb.connect(":memory:") as con:
        prepare(con)
        own = Scope(con)
        own.rows(own.call("process_summary"))
        own.rows(own.call("thread_cpu", trace_id=3))
        own.rows(own.call("thread_summary"))
        asked = [timing.sql.partition(" AS ")[2] for timing in own.timings.queries]
    made = [sql.removeprefix("FROM ") for sql in asked if not sql.startswith("FROM answer_")]
    assert "process_summary" in made
    for each in ("thread_summary", "thread_unknown", "analysis_span"):
        assert made.count(each) == 1, each
    # Another recording is another question.
    assert made.count("thread_unknown(p_trace_id := 3)") == 1


def test_question_inside_another_is_read_if_it_was_answered_before() -> None:
    with drawn_database() as con:
        trace = DrawnTrace(con, [Slice("a/A", 0, 0, 30)], [Cpu(0, 0, 0, "P", 1)], 40)
        trace.add("frame", frame=0, upid=1 << 32 | 1, utid=trace.utid("a/A"), process="a",
                  start_ns=0, dur_ns=20, dialect="dxgi")  # fmt: skip
        before, alone = Scope(con), Scope(con)
        # Its default arguments change no question, nor does the only recording.
        before.rows(before.call("frame_ledger", trace_id=1, path=False, process="a"))
        before.rows(before.call("frame_ledger", path=True, process="a"))
        asked = before.call("frame_ledger_total", process="a", path=True, trace_id=1)
        assert asked.endswith("(p_process := 'a', p_path := true, p_trace_id := 1)")
        # It has many rows, so that it is not stored for another question alone.
        for scope, text in ((before, asked), (alone, alone.call("frame_ledger_total", path=True))):
            _, made = scope.answers.replaced(text)
            assert ("unordered.frame_ledger(" in made[-1].sql) == (scope is alone)
        stored = [each for each in before.answers._tables if "frame_ledger(" in each[0]]
        assert [question for question, _ in stored] == [
            "FROM frame_ledger(p_process := 'a')",
            "FROM frame_ledger(p_path := true, p_process := 'a')",
        ]


def test_body_of_a_question_has_its_arguments_and_stored_answers() -> None:
    columns = "SELECT\n  -- A 'text' (topology(p_trace_id)).\n"
    query = catalog.Query(
        "asked", "main", "", (
            catalog.Parameter("p_trace_id", "NULL", ""), catalog.Parameter("p_by", "'cgroup'", ""),
        ), (),
        f"{columns}  error('p_by is one of two') AS n,\n  p_bytes,\n"
        "FROM topology(p_trace_id) AS t\n"
        "JOIN cpu_time(p_trace_id := t.trace_id) USING (cpu)\n"
        "JOIN thread_unknown(p_trace_id, NULL)\nWHERE kind = p_by AND clipped_ns(a, b) > 0",
    )  # fmt: skip
    asked = []

    def answer(name: str, given: Mapping[str, str]) -> str:
        asked.append((name, dict(given)))
        return f"answer_{len(asked)}"

    assert catalog.body(query, {"p_trace_id": "7", "p_by": "'it''s p_trace_id'"}, answer) == (
        "SELECT\n  error('p_by is one of two') AS n,\n  p_bytes,\nFROM answer_1 AS t\n"
        "JOIN unordered.cpu_time(p_trace_id := t.trace_id) USING (cpu)\n"
        "JOIN answer_2 AS thread_unknown\n"
        "WHERE kind = 'it''s p_trace_id' AND clipped_ns(a, b) > 0"
    )
    assert asked == [
        ("topology", {"p_trace_id": "7"}), ("thread_unknown", {"p_trace_id": "7"}),
    ]  # fmt: skip


def test_statement_that_reads_a_view_reads_the_stored_answer() -> None:
    def answer(name: str) -> str | None:
        return f"answer_{name}" if name in ("topology", "thread_summary") else None

    for sql, read in (
        ("FROM topology", "FROM answer_topology AS topology"),
        ("SELECT cpu FROM topology AS t JOIN trace USING (trace_id)",
         "SELECT cpu FROM answer_topology AS t JOIN trace USING (trace_id)"),
        ("SELECT topology.cpu FROM trace JOIN topology USING (trace_id)",
         "SELECT topology.cpu FROM trace JOIN answer_topology AS topology USING (trace_id)"),
        ("SELECT * FROM x WHERE utid NOT IN (SELECT utid FROM thread_summary)",
         "SELECT * FROM x WHERE utid NOT IN (SELECT utid FROM answer_thread_summary AS "
         "thread_summary)"),
    ):  # fmt: skip
        assert catalog.read_by(sql, answer) == read
    for sql in (
        # Arguments, another schema, a text, a part of the statement, another name, no question.
        "FROM topology(p_trace_id := 2)", "FROM main.topology", "SELECT 'FROM topology'",
        "WITH topology AS (SELECT 1 AS cpu) FROM topology", "FROM topology place",
        "FROM topology_of_all", "FROM trace",
    ):  # fmt: skip
        assert catalog.read_by(sql, answer) == sql
