"""docs/windows-calls.md lists every call of Windows, each with a test that exists."""

from __future__ import annotations

import re
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
CALLS = ROOT / "workloads" / "src" / "os" / "windows"
LIST = (ROOT / "docs" / "windows-calls.md").read_text(encoding="utf-8")
DEFAULT = "tests/workloads/test_workloads_windows.py"
# Structures, constants and types of windows-sys that are written like functions.
NO_CALLS = {"SystemProcessInformation", "SystemProcessorPerformanceInformation", "RelationAll",
            "JobObjectExtendedLimitInformation"}  # fmt: skip
ROW = re.compile(r"^\| (`.+?) \| .+? \| (.+) \|$", re.MULTILINE)


def imported() -> set[str]:
    """Functions of windows-sys that the program imports, and those that it declares."""
    found: set[str] = set()
    for path in CALLS.glob("*.rs"):
        text = path.read_text(encoding="utf-8")
        for names in re.findall(r"use windows_sys::([^;]+);", text):
            words = re.findall(r"\b[A-Z][A-Za-z0-9]+\b", names.rpartition("::")[2])
            found |= {word for word in words if re.search("[a-z]", word)}
        found |= set(re.findall(r"^    fn ([A-Z]\w+)\($", text, re.MULTILINE))
    return found - NO_CALLS


def rows() -> list[tuple[set[str], str]]:
    """The calls of each row, and what runs them."""
    return [
        (set(re.findall(r"`([A-Z]\w*[a-z]\w*)`", calls)), tests)
        for calls, tests in ROW.findall(LIST)
    ]


def test_every_call_is_listed_once_and_none_is_stale() -> None:
    rust, _ = LIST.split("## Python")
    listed = [call for calls, _ in rows() for call in calls]
    assert len(listed) == len(set(listed))
    in_rust = {call for call in listed if f"`{call}`" in rust}
    assert imported() == in_rust
    assert {"IsUserAnAdmin", "GetOEMCP"} <= set(listed) - in_rust
    assert "NtQuerySystemInformationEx" in in_rust


def test_each_call_names_a_test_that_exists() -> None:
    for calls, tests in rows():
        names = re.findall(r"`(test_\w+|os::[\w:]+)`", tests)
        assert names, calls
        files = [path for path in re.findall(r"`(tests/[\w/]+\.py)`", tests) if "; " not in tests]
        for name in names:
            if name.startswith("os::"):
                module, _, function = name.rpartition("::tests::")
                path = CALLS / f"{module.rpartition('::')[2]}.rs"
            else:
                path, function = ROOT / (files[0] if files else DEFAULT), name
            assert re.search(rf"fn {function}\(|def {function}\(", path.read_text("utf-8")), name


def test_python_calls_windows_only_where_the_list_says() -> None:
    found = {
        path.name
        for folder in ("src", "collectors", "analyzers", "reports")
        for path in (ROOT / folder).rglob("*.py")
        if re.search(r"windll|import (msvcrt|winreg|_winapi)", path.read_text(encoding="utf-8"))
    }
    assert found == {"elevation.py", "changes.py"}
