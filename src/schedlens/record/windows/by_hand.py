"""Scripts for cmd and PowerShell that record what `collect` would, without Python on the machine.

They contain the commands of the dry run, each as it can also be typed. What only `collect` uses is
left out: its observer, and the gate at which a workload waits for it.
"""

from __future__ import annotations

import re
import subprocess
from collections.abc import Sequence
from dataclasses import dataclass

CMD, POWERSHELL = "record.cmd", "record.ps1"
# In a batch file, these mean something outside quotes.
_CMD_SPECIAL = re.compile(r"[&|<>^()!;,= ]")
_ENCODING = "utf-8"


@dataclass(frozen=True)
class Command:
    """A command of a recording; `folder` makes a new folder; `waits_ms` and `until_key` wait.

    `aside` starts in the background and does not end by itself. `instead` is run if the command
    fails.
    """

    words: tuple[str, ...] = ()
    folder: str = ""
    aside: bool = False
    waits_ms: int | None = None
    until_key: bool = False
    must_succeed: bool = True
    instead: tuple[str, ...] = ()


def cmd(commands: Sequence[Command], what: str) -> bytes:
    """The batch file; it runs in its own folder and ends at the first error."""
    lines = [
        "@echo off",
        f"rem {what}. Run it in an elevated prompt.",
        "chcp 65001 >nul",
        'cd /d "%~dp0"',
    ]
    for one in commands:
        if one.folder:
            # `mkdir` leaves the error level of the command before it where it succeeds.
            lines.append(f"if exist {_cmd_word(one.folder)} exit /b 1")
        lines.append(_cmd(one))
        if one.instead:
            lines.append(f"if errorlevel 1 {_cmd(Command(one.instead))}")
        if one.words and not one.aside and one.must_succeed:
            lines.append("if errorlevel 1 exit /b 1")
    return "\r\n".join([*lines, ""]).encode(_ENCODING)


def powershell(commands: Sequence[Command], what: str) -> bytes:
    """The PowerShell script; it runs in its own folder and ends at the first error."""
    lines = [
        f"# {what}. Run it in an elevated prompt: powershell -ExecutionPolicy Bypass -File "
        f".\\{POWERSHELL}",
        "$ErrorActionPreference = 'Stop'",
        "Set-Location -LiteralPath $PSScriptRoot",
    ]
    for one in commands:
        lines.append(_powershell(one))
        if one.instead:
            lines.append(f"if ($LASTEXITCODE) {{ {_powershell(Command(one.instead))} }}")
        if one.words and not one.aside and one.must_succeed:
            lines.append("if ($LASTEXITCODE) { exit 1 }")
    # Windows PowerShell takes a file without this mark for one in the ANSI code page.
    return b"\xef\xbb\xbf" + "\r\n".join([*lines, ""]).encode(_ENCODING)


def _cmd(one: Command) -> str:
    if one.folder:
        return f"mkdir {_cmd_word(one.folder)}"
    if one.until_key:
        return "pause"
    if one.waits_ms is not None:
        # `timeout` takes whole seconds only, and refuses to run without a console.
        return f'powershell -NoProfile -Command "Start-Sleep -Milliseconds {one.waits_ms}"'
    typed = " ".join(_cmd_word(word) for word in one.words)
    return f'start "" /min {typed}' if one.aside else typed


def _cmd_word(word: str) -> str:
    plain = subprocess.list2cmdline([word])
    if _CMD_SPECIAL.search(word) and not plain.startswith('"'):
        plain = f'"{plain}"'
    return plain.replace("%", "%%")


def _powershell(one: Command) -> str:
    if one.folder:
        # Fails where there is one.
        return f"New-Item -ItemType Directory -Path {_literal(one.folder)} | Out-Null"
    if one.until_key:
        return "Read-Host 'Press Enter to end the recording'"
    if one.waits_ms is not None:
        return f"Start-Sleep -Milliseconds {one.waits_ms}"
    program, *words = one.words
    if one.aside:
        typed = _literal(subprocess.list2cmdline(words))
        return (
            f"Start-Process -WindowStyle Minimized -FilePath {_literal(program)} "
            f"-ArgumentList {typed}"
        )
    return " ".join(["&", *(_literal(word) for word in one.words)])


def _literal(text: str) -> str:
    return "'" + text.replace("'", "''") + "'"
