"""Every command line in the README is run and works."""

from __future__ import annotations

import re
import shlex
import shutil
import subprocess
from pathlib import Path

import processors
import pytest
from conftest import BIN, command, needs_tracing

pytestmark = pytest.mark.records

ROOT = Path(__file__).resolve().parents[2]
README = (ROOT / "README.md").read_text(encoding="utf-8")
BLOCKS = re.findall(r"^```(\w*)\n(.*?)^```", README, re.MULTILINE | re.DOTALL)
LINES = [
    line.partition("  #")[0].strip()
    for language, block in BLOCKS
    if language == ""
    for line in block.splitlines()
    if line.strip()
]
COLLECT = [line for line in LINES if line.startswith("collect ")]
ON_A_SESSION = [line for line in LINES if line.split()[0] in {"analyze", "schedlens", "duckdb"}]


def test_readme_shows_the_main_commands() -> None:
    assert {line.split()[0] for line in LINES} == {
        "make", "collect", "analyze", "schedlens", "duckdb",
    }  # fmt: skip
    assert len(COLLECT) >= 5
    assert len(ON_A_SESSION) >= 8


@pytest.mark.parametrize("line", COLLECT)
def test_each_collect_line_produces_a_plan(line: str, tmp_path: Path) -> None:
    needs_tracing()
    if "pairs" in line.split():
        processors.needs_two()
    # The README's server does not exist here; a program that sleeps replaces it, under a name
    # that no other process has.
    (tmp_path / "bin").mkdir()
    (tmp_path / "here").mkdir()
    program = tmp_path / "bin" / "readme-server"
    shutil.copy(shutil.which("sleep") or "", program)
    words = ["readme-server" if word == "server" else word for word in shlex.split(line)]
    words = [str(program) if word == "./server" else word for word in words]
    words = [word for word in words if word not in {"--port", "8080"}]
    split = words.index("--") if "--" in words else len(words)
    if split < len(words):
        words.append("1")
    with subprocess.Popen([program, "60"]) as standing:
        done = command(
            *words[:split], "--dry-run", *words[split:], cwd=tmp_path / "here", check=False
        )
        standing.kill()
    assert done.returncode == 0, done.stderr
    assert "perf record" in done.stdout
    assert list((tmp_path / "here").iterdir()) == []


@pytest.mark.parametrize("line", ON_A_SESSION)
def test_each_session_command_returns_an_answer(line: str, session: Path, tmp_path: Path) -> None:
    traces = sorted(session.glob("*/perf.data"))
    process = "process=schedlens-workl" if "process=" in line else ""
    words = [
        str(session) if word == "SESSION"
        else str(session / "analysis.duckdb") if word == "SESSION/analysis.duckdb"
        else str(traces[0]) if word == "one.perf.data"
        else str(traces[1]) if word == "other.perf.data"
        else str(ROOT / "fixtures" / "fuzz" / "sound.dat") if word == "trace.dat"
        else "schedlens-workl" if word == "server"
        else process if word.startswith("process=")
        else str(tmp_path) if word == "DIR"
        else word
        for word in shlex.split(line)
    ]  # fmt: skip
    if words[0] == "analyze" and "-o" not in words:
        words += ["-o", str(tmp_path)]
    if words[0] == "duckdb":
        words.insert(1, "-readonly")
    if words[:2] == ["schedlens", "demo"]:
        words += ["--no-open", "-o", str(tmp_path / "demo")]
    assert (BIN / words[0]).exists()
    done = command(*words, check=False)
    # The CI command may find something on a busy machine: then it reports it and exits with 1.
    gated = "--fail-on" in words and "--fail-on critical: " in done.stderr
    assert done.returncode == (1 if gated else 0), done.stderr
    assert done.stdout.strip()


def test_notebook_lines_run(session: Path) -> None:
    (block,) = [block for language, block in BLOCKS if language == "python"]
    scope: dict[str, object] = {}
    exec(block.replace('"SESSION"', repr(str(session))), scope)


def test_every_linked_file_exists() -> None:
    targets = re.findall(r"\]\(([^)#]+)\)", README)
    assert [target for target in targets if not (ROOT / target).exists()] == []
