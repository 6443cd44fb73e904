"""Plans of `collect`, and requests that it refuses in one line."""

from __future__ import annotations

import os
import re
import shlex
import shutil
from pathlib import Path

import click
import processors
import pytest
from collect_command import collect

from schedlens.commands import cli
from schedlens.commands.collect import collect as collect_command

pytestmark = pytest.mark.records


def test_dry_run_prints_the_plan_and_writes_nothing(workload: str, tmp_path: Path) -> None:
    done = collect("--workload", "imul1", "--threads", "1,2", "--dry-run", cwd=str(tmp_path))
    assert done.returncode == 0, done.stderr
    lines = done.stdout.splitlines()
    assert any(line.startswith("imul1-default-t01-r1 ") for line in lines)
    assert any(
        re.match(r"workload: .* run imul1 --threads 1 --seconds 1 --gate", line) for line in lines
    )
    if os.geteuid() == 0 and shutil.which("perf"):
        assert any(re.match(r"recorder: .*perf record .* -- cat$", line) for line in lines)
    assert list(tmp_path.iterdir()) == []


def test_pairs_of_workers_need_even_numbers(workload: str, tmp_path: Path) -> None:
    done = collect("--workload", "spin_handoff", "--threads", "3", "-o", str(tmp_path / "s"))
    assert (done.returncode, done.stderr.strip()) == (
        2,
        "collect: --threads: spin_handoff runs 2 workers together, so it cannot run 3: "
        "use a multiple of 2",
    )


FOOLISH = [
    (["--workload", "sha265"], "no workload named 'sha265': did you mean sha256"),
    (["--workload", "sha256", "--variant", "gpu"], "--variant: sha256 has "),
    (["--workload", "sha256", "--threads", "0"], "'0' is outside the range 1 to 4096"),
    (["--workload", "sha256", "--threads", "two"], "'two' is not a thread count"),
    (["--workload", "sha256", "--cpus", "0,9999"], "CPU 9999 is not online and allowed"),
    (["--workload", "sha256", "--cpus", "x"], "'x' is not a CPU or range"),
    (["--workload", "sha256", "--cpus", "0", "--placement", "default"], "exclude each other"),
    (["--workload", "sha256", "--seconds", "-1"], "--seconds: -1 is not between"),
    (["--workload", "sha256", "--seconds", "inf"], "--seconds: inf is not between"),
    (["--workload", "sha256", "--repeat", "0"], "--repeat must be at least 1"),
    (["--workload", "sha256", "--pid", "1"], "--workload and --pid exclude each other"),
    (["--workload", "sha256", "--depth", "3"], "--depth works only with queue, not sha256"),
    (["--workload", "queue", "--depth", "65"], "65 is not in the range 1<=x<=64"),
    (["--threads", "1..3"], "--threads needs --workload"),
    (["--pid", "4194305"], "no process 4194305 is running"),
    (["--process", "no such process"], "no process named 'no such process' is running"),
    (["--", "no-such-program"], "no program named 'no-such-program' on the path"),
    (["imul1", "--workload", "imul1"], "--workload and a command exclude each other"),
    (["--resume", "/nonexistent"], "does not exist"),
    (["--resume", "/tmp", "--seconds", "3"], "--resume uses the session's plan"),
    (["--counters", "no-such-event", "--seconds", "0.1"], "--counters: "),
    (["-o", "/proc/nowhere", "--seconds", "0.1"], "/proc/nowhere"),
]


@pytest.mark.parametrize(("arguments", "message"), FOOLISH)
def test_wrong_requests_print_one_line(
    arguments: list[str], message: str, tmp_path: Path, request: pytest.FixtureRequest
) -> None:
    if "--workload" in arguments:
        request.getfixturevalue("workload")
    done = collect(*arguments, cwd=str(tmp_path))
    assert done.returncode == 2, done.stderr
    lines = [
        line
        for line in done.stderr.splitlines()
        if not line.startswith(("not rec", "to rec", "recording mode"))
    ]
    assert len(lines) == 1, lines
    assert message in lines[0]
    assert done.stdout == ""
    assert list(tmp_path.iterdir()) == []


SAMPLES = {
    "experiment": "pairs", "placements": "default", "how": "spin", "target": "linux",
    "recorder": "wpr", "seconds": "1", "warm_up": "1", "repeats": "1", "depth": "1", "pid": "1",
    "ring_s": "1", "sustain_s": "2", "stacks": "fp", "samples_hz": "99",
    "stop_on_frame_ms": "1", "stop_on_ready_ms": "1", "stop_on_cpu_pct": "1", "incidents": "1",
    "stop_on_command": "true", "frames": __file__,
}  # fmt: skip


@pytest.mark.parametrize(
    "parameter",
    [parameter for parameter in collect_command.params if parameter.name != "resume"],
    ids=lambda parameter: parameter.name,
)
def test_resume_rejects_every_other_option_by_name(
    parameter: click.Parameter, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    if isinstance(parameter, click.Argument):
        words, name = ["true"], "the command"
    else:
        name = max(parameter.opts, key=len)
        flag = isinstance(parameter, click.Option) and parameter.is_flag
        words = [name] if flag else [name, SAMPLES.get(parameter.name or "", "x")]
    code = cli.run(collect_command, ["--resume", str(tmp_path), *words], name="collect")
    assert (code, capsys.readouterr().err) == (
        2,
        "collect: --resume uses the session's plan and takes no other option: "
        f"remove {name} (see collect --help)\n",
    )


def test_resume_rejects_an_option_with_its_default_value(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    words = ["--counters", "", "--resume", str(tmp_path)]
    assert cli.run(collect_command, words, name="collect") == 2
    assert "remove --counters" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("words", "queries"),
    [
        (["--workload", "game", "--threads", "2", "--placement", "default", "--seconds", "0.1"], 1),
        (["--experiment", "pairs", "--pair", "imul1+add1", "--dry-run"], 1),
        (["--experiment", "scaling", "--dry-run"], 1),
        (["no-such-program"], 1),
        (["--seconds", "0.1", "--dry-run"], 0),
    ],
)
def test_program_is_queried_once_per_command(
    words: list[str], queries: int, workload: str, tmp_path: Path
) -> None:
    if "pairs" in words:
        processors.needs_two()
    log, wrapper = tmp_path / "log", tmp_path / "wrapper"
    wrapper.write_text(
        f'#!/bin/sh\necho "$1" >> {shlex.quote(str(log))}\nexec {shlex.quote(workload)} "$@"\n'
    )
    wrapper.chmod(0o755)
    on_paper = "--dry-run" in words or words == ["no-such-program"]
    folder = [] if on_paper else ["-o", str(tmp_path / "s")]
    done = collect(*words, *folder, env={**os.environ, "SCHEDLENS_WORKLOADS": str(wrapper)})
    assert done.returncode == (2 if words == ["no-such-program"] else 0), done.stderr
    starts = log.read_text().split() if log.exists() else []
    assert starts.count("list") == queries
    if not on_paper:
        # The step, and before it the same without the recorder.
        assert set(starts) == {"list", "run"}


def test_kernel_name_alone_suggests_the_option(workload: str, tmp_path: Path) -> None:
    done = collect("spin_handoff", cwd=str(tmp_path))
    assert (done.returncode, done.stderr) == (
        2,
        "collect: no program named 'spin_handoff' on the path: did you mean "
        "--workload spin_handoff?\n",
    )
