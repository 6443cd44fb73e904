"""An agent with the tools alone finds the cause of each case of the demo, in at most 12 calls."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from agent_client import Agent, Reply, talk
from conftest import command

pytestmark = pytest.mark.slow

MOST_CALLS = 12
MOST_BYTES = 8192


@pytest.fixture(scope="module")
def demo(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("agents") / "demo"
    command("schedlens", "demo", "--no-open", "-o", str(folder))
    return folder


async def findings(agent: Agent, session: str, recording: str) -> list[dict[str, Any]]:
    """All critical findings and warnings about a recording, page by page."""
    found: list[dict[str, Any]] = []
    while True:
        reply = await agent.call(
            "list_findings", session=session, recording=recording,
            after=found[-1]["finding"] if found else 0,
        )  # fmt: skip
        assert reply.error is None
        found += reply.part("findings")
        (part,) = (one for one in reply.answer["parts"] if one["name"] == "findings")
        if not part["rows_omitted"]:
            return [row for row in found if row["severity"] != "info"]


async def begun(agent: Agent, recording: str) -> tuple[str, list[dict[str, Any]]]:
    """What every diagnosis starts with: the session, and the findings about the recording."""
    (session,) = await agent.rows("list_sessions", "sessions")
    return session["session"], await findings(agent, session["session"], recording)


def test_background_work_on_p_cores_is_the_cause(demo: Path) -> None:
    async def script(agent: Agent) -> None:
        session, found = await begun(agent, "priority")
        cause = next(row for row in found if row["analyzer"] == "priority_order")
        reply = await agent.call("finding_evidence", session=session, finding=cause["finding"])
        (read,) = reply.part("finding")
        assert "EcoQoS" in read["advice"]
        # The evidence lists who ran: all of them belong to one process of lower priority.
        assert {row["process"] for row in reply.part("evidence")} == {"services.exe"}
        story = await agent.call("thread_story", session=session, utid=cause["utid"])
        (thread,) = story.part("thread")
        assert thread["thread"].startswith("Background")
        assert thread["base_priority"] < 11
        on_p = sum(row["run_ns"] for row in story.part("cpus") if row["core_type"] == "P")
        assert on_p > 0.9 * sum(row["run_ns"] for row in story.part("cpus"))
        # As EcoQoS, the same threads run much more on E cores.
        shares = await agent.rows(
            "run_sql", "rows", session=session,
            sql="SELECT label, sum(e_ns) / sum(run_ns) AS on_e FROM core_choice "
            "JOIN trace USING (trace_id) WHERE label LIKE 'priority%' "
            "AND thread LIKE 'Background%' GROUP BY label",
        )  # fmt: skip
        on_e = {row["label"]: row["on_e"] for row in shares}
        assert on_e["priority-fixed"] > 1.5 * on_e["priority"]
        after = await findings(agent, session, "priority-fixed")
        assert "priority_order" not in {row["analyzer"] for row in after}

    assert len(talk(script, demo).calls) <= MOST_CALLS


def test_thread_that_looks_like_a_worker_is_the_cause(demo: Path) -> None:
    async def script(agent: Agent) -> None:
        session, found = await begun(agent, "critical_path")
        cause = next(row for row in found if row["analyzer"] == "short_run")
        assert cause["thread"] == "Worker 0"
        stutter = next(row for row in found if row["analyzer"] == "frame_time")
        assert stutter["utid"] == cause["utid"]
        reply = await agent.call("finding_evidence", session=session, finding=stutter["finding"])
        ledger = reply.part("evidence")
        longest = max(ledger, key=lambda row: row["dur"])
        assert (longest["thread"], longest["part"]) == ("Worker 0", "run_e")
        # Frame by frame, its time on E cores: the story of the longest one.
        story = await agent.call(
            "thread_story", session=session, utid=cause["utid"], from_ns=longest["start_ns"],
            to_ns=longest["start_ns"] + longest["frame_ns"],
        )  # fmt: skip
        assert any(row["core_type"] == "E" for row in story.part("cpus"))
        (main,) = await agent.rows(
            "run_sql", "rows", session=session,
            sql="SELECT base_priority FROM thread JOIN trace USING (trace_id) "
            "WHERE name = 'Main' AND label = 'critical_path'",
        )  # fmt: skip
        assert story.part("thread")[0]["base_priority"] < main["base_priority"]
        # Nothing else changed: its priority alone makes the frames shorter, the longest ones most.
        (tried,) = await agent.rows(
            "what_if", "predictions", session=session, recording="critical_path",
            changes=[f"priority {cause['thread']}={main['base_priority'] + 1}"],
        )  # fmt: skip
        assert tried["gain_pct"] > 0
        # Recorded, the 99th percentile is 1.5 times the mean.
        assert tried["p99_high_ns"] < 1.2 * tried["mean_ns"]
        after = await findings(agent, session, "critical_path-fixed")
        assert not {"short_run", "frame_time"} & {row["analyzer"] for row in after}

    assert len(talk(script, demo).calls) <= MOST_CALLS


def test_threads_bound_to_parked_cores_are_the_cause(demo: Path) -> None:
    async def script(agent: Agent) -> None:
        session, found = await begun(agent, "parked")
        chain = next(row for row in found if row["analyzer"] == "quantum_end_chain")
        reply = await agent.call("finding_evidence", session=session, finding=chain["finding"])
        allowed = {row["utid"]: row["cpus"] for row in reply.part("counter_evidence")}
        assert set(allowed.values()) == {"[16, 17, 18, 19, 20, 21, 22, 23]"}
        slices = reply.part("evidence")
        begin, end = slices[0]["ts"], slices[-1]["ts"] + slices[-1]["dur"]
        stories = [
            await agent.call("thread_story", session=session, utid=utid, from_ns=begin, to_ns=end)
            for utid in allowed
        ]
        # Both on one CPU, each ready while the other runs: they take turns.
        assert [{row["cpu"] for row in story.part("cpus")} for story in stories] == [{16}, {16}]
        for story, other in zip(stories, reversed(stories), strict=True):
            first = story.part("ran_instead")[0]
            assert first["utid"] == other.part("thread")[0]["utid"]
        (parked,) = await agent.rows(
            "run_sql", "rows", session=session,
            sql="SELECT count(DISTINCT cpu) AS cpus FROM cpu_parking JOIN trace USING (trace_id) "
            f"WHERE label = 'parked' AND parked AND ts <= {begin}",
        )  # fmt: skip
        assert parked["cpus"] == 12
        after = await findings(agent, session, "parked-fixed")
        assert not {"quantum_end_chain", "frame_time"} & {row["analyzer"] for row in after}

    assert len(talk(script, demo).calls) <= MOST_CALLS


def test_every_part_can_be_repeated_with_its_sql(demo: Path) -> None:
    async def script(agent: Agent) -> None:
        replies = [
            await agent.call("list_findings", session="."),
            await agent.call("finding_evidence", session=".", finding=3),
            await agent.call("thread_story", session=".", thread="AI 1", recording="parked"),
            await agent.call("run_sql", session=".", sql="FROM waker_pair ORDER BY ALL"),
        ]
        repeated = 0
        for reply in replies:
            assert reply.error is None
            assert reply.size <= MOST_BYTES
            assert reply.text == reply_text(reply)
            for part in reply.answer["parts"]:
                assert part["narrow"]
                again = await agent.call(
                    "run_sql", session=".", sql=f"SELECT count(*) FROM ({part['sql']})"
                )
                total = again.answer["parts"][0]["rows"][0][0]
                assert total == len(part["rows"]) + part["rows_omitted"]
                repeated += 1
        assert repeated == 12

    talk(script, demo)


def reply_text(reply: Reply) -> str:
    return json.dumps(reply.answer, ensure_ascii=False, separators=(",", ":"))
