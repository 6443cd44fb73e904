"""Output of `collect --os windows --dry-run` on any system, and the page about it."""

from __future__ import annotations

import importlib.metadata
import re
import shlex
from pathlib import Path
from typing import TYPE_CHECKING

import processors
import pytest
from conftest import command

if TYPE_CHECKING:
    from collectors import etw_refusal
else:
    from schedlens.collectors import etw_refusal

ROOT = Path(__file__).resolve().parents[2]
EXPECTED = Path(__file__).parents[1] / "expected"
PAGE = (ROOT / "docs" / "windows.md").read_text(encoding="utf-8")
LINES = [
    line
    for block in re.findall(r"^```\n(.*?)^```", PAGE, re.MULTILINE | re.DOTALL)
    for line in block.splitlines()
]
SELF_TEST = "collect --selftest"
COLLECT = [line for line in LINES if line.startswith("collect ") and line != SELF_TEST]
# Not part of a recording: installing, and reading the answer.
BEFORE_AND_AFTER = ("winget", "py", "uv", "schedlens", "analyze", "start")


def dry_run(*words: str, cwd: Path) -> str:
    """Output of the dry run for these arguments."""
    # The options end where a command starts.
    split = words.index("--") if "--" in words else len(words)
    options = [word for word in words[:split] if word not in ("--dry-run", "--os", "windows")]
    done = command(
        "collect", "--os", "windows", "--dry-run", *options, *words[split:], cwd=cwd, check=False
    )
    assert done.returncode == 0, done.stderr
    assert done.stderr == ""
    return done.stdout


CASES = {
    "machine": ["--seconds", "10"],
    "workload": [
        "--workload", "imul1", "--threads", "1", "--cpus", "0", "--seconds", "0.5",
    ],
    "ring": [
        "--process", "game.exe", "--ring", "30", "--presents", "--counters",
        "InstructionRetired,TotalCycles", "--presentmon", r"C:\Program Files\PresentMon.exe",
        "--stop-on-frame", "50",
    ],
    "xperf": ["--recorder", "xperf", "--counters", "TotalCycles", "--", "game.exe", "--fast"],
}  # fmt: skip


@pytest.mark.parametrize("name", CASES)
def test_dry_run_prints_every_command(name: str, tmp_path: Path) -> None:
    expected = (EXPECTED / f"windows_dry_run_{name}.txt").read_text(encoding="utf-8")
    assert dry_run(*CASES[name], cwd=tmp_path) == expected


def test_profile_matches_the_request(tmp_path: Path) -> None:
    dry_run(*CASES["ring"], cwd=tmp_path)
    # Lines end as Windows ends them.
    written = (tmp_path / "schedlens.wprp").read_bytes().decode("utf-8")
    expected = (EXPECTED / "profile_counters_ring.wprp").read_text(encoding="utf-8")
    assert written == expected.replace("\n", "\r\n")
    names = sorted(path.name for path in tmp_path.iterdir())
    assert names == ["record.cmd", "record.ps1", "schedlens.wprp"]


def test_waits_are_recorded_on_request(tmp_path: Path) -> None:
    dry_run("--waits", "--seconds", "1", cwd=tmp_path)
    profile = (tmp_path / "schedlens.wprp").read_text(encoding="utf-8")
    for keyword in ("HardFaults", "DiskIO", "DiskIOInit", "Filename"):
        assert f'<Keyword Value="{keyword}" />' in profile
    said = dry_run("--waits", "--recorder", "xperf", "--seconds", "1", cwd=tmp_path)
    assert "+HARD_FAULTS+DISK_IO+DISK_IO_INIT+FILENAME" in said


def test_xperf_needs_no_profile(tmp_path: Path) -> None:
    dry_run(*CASES["xperf"], cwd=tmp_path)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["record.cmd", "record.ps1"]


def test_another_system_needs_dry_run(tmp_path: Path) -> None:
    done = command("collect", "--os", "windows", "-o", "session", cwd=tmp_path, check=False)
    assert (done.returncode, done.stdout) == (2, "")
    assert "--os windows: this is linux. Add --dry-run to print the commands" in done.stderr
    done = command("collect", "--presents", "--dry-run", cwd=tmp_path, check=False)
    assert done.returncode == 2
    assert "--presents works only on Windows" in done.stderr
    assert list(tmp_path.iterdir()) == []


def test_page_covers_install_to_report() -> None:
    first = [line.split()[0] for line in LINES]
    order = ["winget", "py", "collect", "analyze", "start"]
    assert [first.index(word) for word in order] == sorted(first.index(word) for word in order)
    assert "make" not in first
    # PowerShell does not run scripts by default.
    assert not any("activate" in line for line in LINES)
    assert len(COLLECT) == 10
    assert SELF_TEST in LINES
    wheel = f"schedlens-{importlib.metadata.version('schedlens')}-cp311-abi3-win_amd64.whl"
    assert [line.split()[-1] for line in LINES if " install " in line and ".whl" in line] == [
        wheel, wheel,
    ]  # fmt: skip


CODES = (
    0x80010106, 0xC5583014, 0xC5580701, 0xC5580612, 0xC558300C, 0x800700B7, 0x80071069, 0x1069,
    0x800700AA, 0x800705AA, 0x80070008, 0xC5583001, 0xC5583000,
)  # fmt: skip


@pytest.mark.parametrize("code", CODES)
def test_page_explains_each_error_code_with_its_reference(code: int) -> None:
    (row,) = re.findall(rf"(?mi)^\|[^|]*\b{code:#x}\b[^|]*(\|.*)$", PAGE)
    meaning, todo, reference = (cell.strip() for cell in row.strip("|").split("|"))
    assert meaning
    assert todo
    assert "MSO: " in reference or "https://" in reference
    # The program knows it, too.
    assert etw_refusal.is_known(code - (1 << 32) if code >> 31 else code, "")


def test_page_marks_on_the_line_what_is_unproven() -> None:
    body = PAGE[PAGE.index("## 1. Install") : PAGE.index("## Error codes")]
    sections = re.split(r"(?m)^## ", body)[1:]
    # Nothing in these two depends on Windows, or its proof is under Wine.
    proven = ("2. Open", "6. Read")
    unmarked = [text[:20] for text in sections if "**Unproven**" not in text]
    assert [text for text in unmarked if not text.startswith(proven)] == []
    assert not re.search(r"(?m)^\*\*Not yet run on Windows", PAGE)


@pytest.mark.parametrize("line", COLLECT)
def test_each_collect_line_of_the_page_produces_a_plan(line: str, tmp_path: Path) -> None:
    # A backslash is not an escape at a Windows prompt.
    words = shlex.split(line.replace("\\", "\\\\"))[1:]
    if "pairs" in words:
        processors.needs_two()
    said = dry_run(*words, cwd=tmp_path)
    assert "wpr -start " in said
    assert len(list(tmp_path.rglob("schedlens.wprp"))) == 1


def test_other_commands_of_the_page_match_the_dry_run(tmp_path: Path) -> None:
    said = dry_run("--seconds", "10", cwd=tmp_path)
    printed = {line.partition(": ")[2] for line in said.splitlines()}
    quoted = [line for line in LINES if line.split()[0] not in (*BEFORE_AND_AFTER, "collect")]
    assert len(quoted) == 9
    assert [line for line in quoted if line not in printed] == []


def test_page_quotes_the_program() -> None:
    places = {
        "collectors": "*.py",
        "src/schedlens/record/windows": "*.py",
        "workloads/src/os/windows": "*.rs",
    }
    sources = "".join(
        path.read_text(encoding="utf-8")
        for folder, pattern in places.items()
        for path in (ROOT / folder).glob(pattern)
    )
    rows = re.findall(r"^\| ([^|]+) \| [^|]+ \| [^|]+ \|$", PAGE, re.MULTILINE)
    said = [row for row in rows if row not in ("what it says", "---")]
    assert len(said) == 16
    for text in said:
        # The program puts numbers or names between the words of one of them.
        words = {"events and buffers were lost": "buffers were lost"}.get(text, text)
        assert words in sources, text
