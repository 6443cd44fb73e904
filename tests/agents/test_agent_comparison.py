"""An agent compares two sessions: the same differences as the command, within the same limits."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from agent_client import Agent, talk
from conftest import command

import schedlens
from schedlens.load.arrow_folder import simulated
from schedlens.simulate import cases

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def sessions(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Two sessions of one case: `faulty` and `fixed`."""
    folder = tmp_path_factory.mktemp("compared")
    (case,) = [case for case in cases.CASES if case.name == "critical_path"]
    for name, fixed in (("faulty", False), ("fixed", True)):
        trace = tmp_path_factory.mktemp("recorded") / "play"
        simulated.write_folder(case.play(fixed=fixed, seed=1), trace, label="play")
        command("analyze", str(trace), "-o", str(folder / name), "--no-report", check=False)
    return folder


def test_differences_are_those_of_python_and_fit(sessions: Path) -> None:
    found = schedlens.compare(sessions / "faulty", sessions / "fixed")
    wanted = {(one.quantity, one.subject, one.step): one.difference for one in found.differences}

    async def script(agent: Agent) -> None:
        reply = await agent.call("compare_sessions", baseline=["faulty"], sessions=["fixed"])
        assert reply.error is None, reply.error
        assert reply.size <= 8192
        rows = reply.part("differences")
        assert rows
        for row in rows:
            assert row["difference"] == wanted[row["quantity"], row["subject"], row["step"]]
        (part,) = (one for one in reply.answer["parts"] if one["name"] == "differences")
        assert len(rows) + part["rows_omitted"] == len(wanted)
        verdicts = [row["verdict"] == "cannot tell" for row in rows]
        assert verdicts == sorted(verdicts)
        one = await agent.rows(
            "compare_sessions", "differences", baseline=["faulty"], sessions=["fixed"],
            quantities=[rows[0]["quantity"]],
        )  # fmt: skip
        assert {row["quantity"] for row in one} == {rows[0]["quantity"]}

    talk(script, sessions)


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        ({"baseline": ["faulty"], "sessions": ["../x"]}, "outside the folders"),
        ({"baseline": ["faulty"], "sessions": ["none"]}, "does not exist"),
        ({"baseline": [], "sessions": ["fixed"]}, "baseline"),
        ({"baseline": ["faulty"], "sessions": ["fixed"], "quantities": ["speed"]}, "speed"),
        ({"baseline": ["faulty"], "sessions": ["fixed"], "align": "best"}, "align"),
    ],
)
def test_wrong_arguments_are_one_line(
    sessions: Path, arguments: dict[str, object], words: str
) -> None:
    async def script(agent: Agent) -> None:
        reply = await agent.call("compare_sessions", **arguments)
        assert reply.error is not None
        assert words in reply.error
        assert "\n" not in reply.error
        assert "Traceback" not in json.dumps(reply.error)

    talk(script, sessions)
