"""The scripts of a dry run: cmd runs one under Wine, with a stand-in for WPR."""

from __future__ import annotations

import re
import shutil
import subprocess
from pathlib import Path

import pytest
import wine
from conftest import command

from schedlens.record.windows import by_hand
from schedlens.record.windows.by_hand import Command

# Writes its arguments to a file, one line a call; fails if a file says so.
STAND_IN = r"""
#include <stdio.h>
#include <string.h>
int main(int count, char **words) {
    FILE *calls = fopen("calls.txt", "a");
    for (int i = 0; i < count; i++) fprintf(calls, "%s%s", i ? "|" : "", i ? words[i] : NAME);
    fprintf(calls, "\n");
    fclose(calls);
    FILE *refusal = fopen("refuse-" NAME, "r");
    char word[64] = "";
    if (!refusal) return 0;
    fgets(word, sizeof word, refusal);
    for (int i = 1; i < count; i++) if (*word && !strcmp(words[i], word)) return 5;
    return *word ? 0 : 5;
}
"""


@pytest.fixture(scope="module")
def stand_ins(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder of programs for Windows."""
    if wine.wine() is None or shutil.which(wine.LINKER) is None:
        pytest.skip("Wine or mingw-w64 is not installed: no cmd here")
    folder = tmp_path_factory.mktemp("programs")
    (folder / "stand_in.c").write_text(STAND_IN)
    for name in ("wpr", "PresentMon", "schedlens-workloads", "logman"):
        subprocess.run(
            [wine.LINKER, f'-DNAME="{name}"', "-o", folder / f"{name}.exe", folder / "stand_in.c"],
            check=True,
        )
    return folder


def run(script: Path, programs: Path) -> tuple[int, list[list[str]]]:
    """The exit code of a batch file, and the programs that it ran with their arguments."""
    made = wine.Wine(programs, programs / "wpr.exe")
    environment = {**made.environment, "WINEPATH": str(programs)}
    try:
        done = subprocess.run(
            [str(wine.wine()), "cmd", "/c", str(script)], env=environment, check=False,
            capture_output=True, text=True, timeout=300, cwd=script.parent.parent,
        )  # fmt: skip
    finally:
        made.close()
    calls = script.parent / "calls.txt"
    lines = calls.read_text().splitlines() if calls.exists() else []
    return done.returncode, [line.split("|") for line in lines]


def plan(folder: Path, *words: str) -> None:
    command("collect", "--os", "windows", "--dry-run", *words, "-o", str(folder))


def test_script_for_cmd_records_each_step(stand_ins: Path, tmp_path: Path) -> None:
    folder = tmp_path / "a session"
    plan(
        folder, "--workload", "imul1", "--threads", "1", "--cpus", "0", "--seconds", "0.5",
        "--repeat", "2", "--presentmon", "PresentMon.exe",
    )  # fmt: skip
    code, calls = run(folder / by_hand.CMD, stand_ins)
    assert code == 0
    started = [call[1:] for call in calls if call[0] == "PresentMon"]
    assert [call[1] for call in started] == [
        rf"imul1-pinned-t01-r{number}\presentmon.csv" for number in (1, 2)
    ]
    assert [call for call in calls if call[0] != "PresentMon"] == [
        call
        for number in (1, 2)
        for step in [f"imul1-pinned-t01-r{number}"]
        for call in (
            ["wpr", "-start", "schedlens.wprp!SchedLens", "-filemode", "-recordtempto", step,
             "-instancename", "schedlens"],
            ["schedlens-workloads", "run", "imul1", "--threads", "1", "--seconds", "0.5",
             "--cpus", "0", "--out", step],
            ["wpr", "-stop", rf"{step}\trace.etl", "-skipPdbGen", "-instancename", "schedlens"],
            ["logman", "stop", "schedlens-presentmon", "-ets"],
        )
    ]  # fmt: skip
    assert (folder / "imul1-pinned-t01-r1").is_dir()
    (folder / "calls.txt").unlink()
    # The folder of an earlier run is not recorded over.
    assert run(folder / by_hand.CMD, stand_ins) == (1, [])


def test_script_for_cmd_ends_at_an_error_of_wpr(stand_ins: Path, tmp_path: Path) -> None:
    plan(tmp_path / "s", "--seconds", "0.5")
    (tmp_path / "s" / "refuse-wpr").touch()
    code, calls = run(tmp_path / "s" / by_hand.CMD, stand_ins)
    assert code == 1
    assert [call[:2] for call in calls] == [["wpr", "-start"]]


def test_script_for_cmd_stops_a_recording_of_an_older_wpr(stand_ins: Path, tmp_path: Path) -> None:
    # The stand-in refuses calls that have this word.
    (tmp_path / "refuse-wpr").write_text("-skipPdbGen")
    plan(tmp_path, "--seconds", "0.5")
    text = (tmp_path / by_hand.CMD).read_text(encoding="utf-8")
    (tmp_path / by_hand.CMD).write_text(re.sub(r"(?m)^powershell .*$", "rem", text), "utf-8")
    code, calls = run(tmp_path / by_hand.CMD, stand_ins)
    stops = [call for call in calls if call[1] == "-stop"]
    assert (code, ["-skipPdbGen" in call for call in stops]) == (0, [True, False])
    script = (tmp_path / by_hand.POWERSHELL).read_text(encoding="utf-8-sig")
    assert "if ($LASTEXITCODE) { & 'wpr' '-stop' 'machine-r1\\trace.etl' '-inst" in script


def test_arguments_arrive_as_they_are(stand_ins: Path, tmp_path: Path) -> None:
    words = ["a b", "50%", "%PATH%", "a&b", "x^y", "(z)", "!p", "<q>", "it's", "", "c,d;e=f"]
    script = tmp_path / "s" / by_hand.CMD
    script.parent.mkdir()
    script.write_bytes(by_hand.cmd([Command(("wpr", *words))], "Test"))
    assert run(script, stand_ins) == (0, [["wpr", *words]])


def test_script_for_powershell_has_the_same_commands(tmp_path: Path) -> None:
    plan(tmp_path, "--process", "game.exe", "--seconds", "0.5", "--presentmon", r"C:\P M\it's.exe")
    text = (tmp_path / by_hand.POWERSHELL).read_bytes()
    assert text.startswith(b"\xef\xbb\xbf# Records 1 step with wpr")
    lines = text.decode("utf-8-sig").split("\r\n")
    literal = r"'((?:[^']|'')*)'"
    typed = [
        [word.replace("''", "'") for word in re.findall(literal, line)]
        for line in lines if line.startswith("& ")
    ]  # fmt: skip
    assert [words[:2] for words in typed] == [
        ["wpr", "-start"], ["wpr", "-stop"], ["logman", "stop"],
    ]  # fmt: skip
    assert "New-Item -ItemType Directory -Path 'game.exe-r1' | Out-Null" in lines
    assert "Start-Sleep -Milliseconds 500" in lines
    (aside,) = (line for line in lines if line.startswith("Start-Process"))
    program, words = (found.replace("''", "'") for found in re.findall(literal, aside))
    assert program == r"C:\P M\it's.exe"
    assert words.startswith(r"-output_file game.exe-r1\presentmon.csv ")


def test_experiment_has_no_scripts(tmp_path: Path) -> None:
    plan(tmp_path, "--experiment", "handoff")
    assert not list(tmp_path.glob("record.*"))
