"""Every answer fits, says how many rows it omits, and changes no value that it shows."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from agent_client import Agent, talk
from fixture_files import fixture
from hypothesis import given, settings
from hypothesis import strategies as st

import schedlens
from schedlens.agents import bounded_answer
from schedlens.agents.bounded_answer import Part

CELLS = st.one_of(
    st.none(),
    st.booleans(),
    st.integers(-(1 << 70), 1 << 70),
    st.floats(),
    st.text(max_size=400),
    st.text(alphabet='"\\\n\u20ac\U0001f600', max_size=400),
    st.lists(st.integers(), max_size=60),
    st.dates(),
    st.binary(max_size=40),
)


@st.composite
def parts(draw: st.DrawFn) -> Part:
    width = draw(st.integers(1, 6))
    rows = draw(st.lists(st.lists(CELLS, min_size=width, max_size=width), max_size=30))
    return Part(
        draw(st.sampled_from(["rows", "states"])),
        tuple(f"column_{n}" for n in range(width)),
        rows,
        draw(st.text(max_size=100)),
        draw(st.one_of(st.none(), st.text(max_size=200))),
        more=draw(st.integers(0, 1 << 40)),
        more_known=draw(st.booleans()),
    )


@settings(deadline=None)
@given(st.lists(parts(), min_size=1, max_size=4), st.sampled_from([6144, 8192, 1 << 20]))
def test_any_answer_fits_and_counts_what_it_omits(listed: list[Part], most: int) -> None:
    answer = bounded_answer.fitted(listed, most)
    assert bounded_answer.size(answer) <= most
    assert json.loads(bounded_answer.text(answer)) == answer
    for part, shown in zip(listed, answer["parts"], strict=True):
        assert len(shown["rows"]) + shown["rows_omitted"] == len(part.rows) + part.more
        for row, given_row in zip(shown["rows"], part.rows, strict=False):
            for value, cell in zip(row, given_row, strict=True):
                if isinstance(cell, bool | None) or (isinstance(cell, int) and abs(cell) < 1 << 53):
                    assert value == cell
    assert answer["rows_omitted"] == sum(part["rows_omitted"] for part in answer["parts"])


def test_large_answer_shows_all_that_fits() -> None:
    part = Part("rows", ("a", "b"), [[n, "x" * 20] for n in range(400)], "use LIMIT", "FROM t")
    answer = bounded_answer.fitted([part], 8192)
    used = bounded_answer.size(answer)
    row = bounded_answer.size(answer) / len(answer["parts"][0]["rows"])
    assert 8192 - 2 * row < used <= 8192


def test_long_text_says_how_much_is_missing() -> None:
    answer = bounded_answer.fitted([Part("rows", ("a",), [["y" * 5000]], "use left()")], 8192)
    assert answer["parts"][0]["rows"][0][0] == "y" * 300 + "… (4,700 more characters)"


@pytest.mark.parametrize("most", [6144, 8192, 50_000])
def test_messages_of_the_server_are_within_the_limit(
    most: int, tmp_path: Path, tmp_path_factory: pytest.TempPathFactory
) -> None:
    trace = fixture("plain", tmp_path_factory)
    schedlens.analyze(trace, output=tmp_path).close()

    async def script(agent: Agent) -> None:
        (busy,) = await agent.rows(
            "run_sql", "rows", session=".",
            sql="SELECT utid FROM sched_slice WHERE NOT is_idle GROUP BY utid "
            "ORDER BY count(*) DESC, utid LIMIT 1",
        )  # fmt: skip
        calls: list[tuple[str, dict[str, Any]]] = [
            ("list_sessions", {}),
            ("list_findings", {"session": "."}),
            ("thread_story", {"session": ".", "utid": busy["utid"]}),
            ("run_sql", {"session": ".", "sql": "FROM sched_slice"}),
            ("run_sql", {"session": ".", "sql": "SELECT view_name, sql FROM duckdb_views()"}),
            ("run_sql", {"session": ".", "sql": f"SELECT 1 /* {'x' * 3900} */"}),
        ]
        omitted = 0
        for name, arguments in calls:
            reply = await agent.call(name, **arguments)
            assert reply.error is None, reply.error
            assert reply.size <= most, (name, reply.size)
            omitted += reply.answer["rows_omitted"]
        assert omitted > 0

    talk(script, tmp_path, "--max-bytes", str(most))
