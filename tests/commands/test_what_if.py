"""`schedlens what-if` on analyzed sessions."""

from __future__ import annotations

import json
from pathlib import Path

import frames_with_worker
import pytest
import simulated
from conftest import command

from schedlens.simulate import cases
from schedlens.simulate.engine import MS


@pytest.fixture(scope="module")
def analyzed(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("what-if")
    made = frames_with_worker.simulation()
    made.run(300 * MS)
    spinning = cases.CASES[2].play(seconds=1.5)
    with simulated.simulated_database(folder, [("worker", made), ("spin", spinning)]):
        pass
    return folder


def test_change_prints_frames_before_and_after(analyzed: Path) -> None:
    done = command(
        "schedlens", "what-if", str(analyzed), "--step", "worker", "--do", "work Worker=-50%"
    )
    assert done.stdout.splitlines()[0] == "worker"
    assert "recorded: 28 frames, ms: mean 10.00" in done.stdout
    assert "work Worker=-50%: mean frame -30.0 %" in done.stdout
    assert "mean 7.00 (6.79 to 7.21)" in done.stdout
    # A worker may be slower on a busy sibling, but this machine has none.
    assert "assumed" not in done.stdout


def test_recording_that_cannot_tell_is_named_and_exits_with_1(analyzed: Path) -> None:
    done = command("schedlens", "what-if", str(analyzed), "--json", check=False)
    assert done.returncode == 1
    worker, spin = json.loads(done.stdout)["recordings"]
    assert worker["cannot_tell"] is None
    assert worker["recorded"]["stutters"] == 0
    assert spin["cannot_tell"].startswith("AI 0 and AI 1 hand a CPU to each other only")
    assert spin["predictions"] == []


def test_less_work_of_threads_that_may_spin_says_that_it_may_gain_less(analyzed: Path) -> None:
    done = command(
        "schedlens", "what-if", str(analyzed), "--step", "spin", "--do", "work AI*=-50%", "--json"
    )
    (spin,) = json.loads(done.stdout)["recordings"]
    (made,) = spin["predictions"]
    assert made["doubt"].startswith("AI 0 and AI 1 hand a CPU to each other only")
    assert made["frames"]["mean"]["high"] > spin["recorded"]["mean"]
    done = command("schedlens", "what-if", str(analyzed), "--step", "spin", "--do", "work AI*=-50%")
    assert "\n    may gain less: AI 0 and AI 1 hand a CPU" in done.stdout


@pytest.mark.parametrize(
    ("arguments", "error"),
    [
        (
            ("--do", "speed=9"),
            "schedlens: 'speed=9' is not a change: use one of affinity THREAD=any",
        ),
        (("--step", "wroker"), "no recording named 'wroker': did you mean worker?"),
        (("--step", "worker", "--do", "remove x.exe"), "no process that ran is named 'x.exe'"),
    ],
)
def test_mistake_is_one_line(analyzed: Path, arguments: tuple[str, ...], error: str) -> None:
    done = command("schedlens", "what-if", str(analyzed), *arguments, check=False)
    assert done.returncode == 2
    assert error in done.stderr.splitlines()[-1]
    assert "Traceback" not in done.stderr
