"""An agent asks what a change would gain: the predictions of the command, within the limits."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from agent_client import Agent, talk
from conftest import command

from schedlens.load.arrow_folder import simulated
from schedlens.simulate import cases

pytestmark = pytest.mark.slow

CHANGE = "priority Worker 0=14"


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Two sessions: `play`, and `parked`, whose threads spin so that nothing can be predicted."""
    folder = tmp_path_factory.mktemp("predicted")
    for name, session in (("critical_path", "play"), ("parked", "parked")):
        (case,) = [case for case in cases.CASES if case.name == name]
        trace = tmp_path_factory.mktemp("recorded") / "play"
        simulated.write_folder(case.play(fixed=False, seed=1), trace, label="play")
        command("analyze", str(trace), "-o", str(folder / session), "--no-report", check=False)
    return folder


def test_predictions_are_those_of_the_command(folder: Path) -> None:
    printed = command("schedlens", "what-if", str(folder / "play"), "--do", CHANGE, "--json")
    (wanted,) = json.loads(printed.stdout)["recordings"]
    (made,) = wanted["predictions"]

    async def script(agent: Agent) -> None:
        reply = await agent.call("what_if", session="play", changes=[CHANGE])
        assert reply.error is None, reply.error
        assert reply.size <= 8192
        (row,) = reply.part("predictions")
        assert (row["recording"], row["changes"]) == ("play", CHANGE)
        assert row["gain_pct"] == made["gain_pct"] > 0
        assert row["cannot_tell"] is None
        for figure, found in made["frames"].items():
            assert row[f"{figure}_ns"] == found["value"]
            assert (row[f"{figure}_low_ns"], row[f"{figure}_high_ns"]) == (
                found["low"], found["high"],
            )  # fmt: skip
        (recorded,) = reply.part("recorded")
        assert recorded["frames"] == wanted["recorded"]["count"]
        assert recorded["mean_ns"] == wanted["recorded"]["mean"]
        assert recorded["p95_error"] == wanted["fidelity"]["frames"]["p95"]
        # The command that repeats it, with the session as the tools name it.
        assert {part["source"] for part in reply.answer["parts"]} == {
            f"schedlens what-if --json '--do={CHANGE}' -- play"
        }
        # Without changes: those that the findings advise, each alone and the best together.
        tried = await agent.rows("what_if", "predictions", session="play")
        gains = [one["gain_pct"] for one in tried]
        assert len(gains) > 1
        assert gains == sorted(gains, reverse=True)

    talk(script, folder)


def test_recording_that_cannot_tell_says_why(folder: Path) -> None:
    async def script(agent: Agent) -> None:
        reply = await agent.call("what_if", session="parked", changes=["parking=off"])
        assert reply.error is None, reply.error
        assert reply.part("predictions") == []
        (recorded,) = reply.part("recorded")
        assert "spin" in recorded["cannot_tell"]
        assert recorded["mean_ns"] is None

    talk(script, folder)


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        ({"session": "../play"}, "outside the folders"),
        ({"session": "none"}, "does not exist"),
        ({"session": "play", "changes": ["faster"]}, "'faster' is not a change: use one of"),
        ({"session": "play", "changes": ["--help"]}, "'--help' is not a change"),
        ({"session": "play", "changes": ["priority Nobody=14"]}, "no thread that ran is named"),
        ({"session": "play", "recording": "--json"}, "no recording named '--json'"),
        ({"session": "play", "changes": ["parking=off"] * 17}, "changes"),
    ],
)
def test_wrong_arguments_are_one_line(
    folder: Path, arguments: dict[str, object], words: str
) -> None:
    async def script(agent: Agent) -> None:
        reply = await agent.call("what_if", **arguments)
        assert reply.error is not None
        assert words in reply.error
        assert "\n" not in reply.error
        assert not reply.error.startswith("schedlens:")

    talk(script, folder)
