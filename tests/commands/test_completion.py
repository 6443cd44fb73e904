"""Shells complete sessions, queries, their arguments, analyzers, kernels, and commands."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

import pytest
from conftest import BIN, command


def completed(program: str, *words: str, cwd: Path | None = None) -> list[str]:
    """What bash offers for the last of the words."""
    line = " ".join((program, *words))
    done = subprocess.run(
        [BIN / program], capture_output=True, text=True, check=False, cwd=cwd,
        env={**os.environ, f"_{program.upper()}_COMPLETE": "bash_complete", "COMP_WORDS": line,
             "COMP_CWORD": str(len(words))},
    )  # fmt: skip
    assert done.stderr == ""
    return [line.partition(",")[2] for line in done.stdout.splitlines()]


def test_sessions_queries_analyzers_and_kernels_are_completed(tmp_path: Path) -> None:
    (tmp_path / "game").mkdir()
    (tmp_path / "game" / "analysis.duckdb").touch()
    (tmp_path / "garden").mkdir()
    assert completed("schedlens", "sql", "ga", cwd=tmp_path) == ["game"]
    named = completed("schedlens", "sql", "game", "thread_s", cwd=tmp_path)
    assert named == ["thread_state", "thread_state_other", "thread_summary"]
    assert completed("schedlens", "queries", "thread_s") == ["thread_summary"]
    assert completed("schedlens", "sql", "game", "thread_summary", "pro") == ["process="]
    assert completed("schedlens", "queries", "worst_w") == ["worst_waits"]
    assert completed("schedlens", "analyze", "--only", "smt_t") == ["smt_tax"]
    assert "sha256" in completed("collect", "--workload", "sha")
    assert completed("schedlens", "comp") == ["compare", "compare-decoders", "completion"]


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_script_is_for_all_three_programs(shell: str) -> None:
    text = command("schedlens", "completion", shell).stdout
    for program in ("SCHEDLENS", "ANALYZE", "COLLECT"):
        assert f"_{program}_COMPLETE={shell}_complete" in text


def test_mistyped_command_names_the_nearest() -> None:
    done = command("schedlens", "analise", check=False)
    assert done.returncode == 2
    assert done.stderr == (
        "schedlens: No such command 'analise': did you mean analyze? (see schedlens --help)\n"
    )
