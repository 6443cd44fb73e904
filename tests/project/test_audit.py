"""tools/audit.py: the lock files pass, and each kind of fault in them is found."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import audit
import pytest
from licenses import CargoError

ROOT = Path(__file__).resolve().parents[2]
SUM = "0" * 64


def test_lock_files_have_no_faults() -> None:
    try:
        found = audit.offline()
    except CargoError as error:
        pytest.skip(f"cannot list the crates: {error}")
    assert found == []


@pytest.mark.parametrize(
    ("entry", "fault"),
    [
        (f"a==1.0 \\\n    --hash=sha256:{SUM}\n    # via b", []),
        (f"a==1.0 ; sys_platform == 'linux' \\\n    --hash=sha256:{SUM}", []),
        ("a==1.0", ["a: no checksum"]),
        ("a==1.0 \\\n    --hash=md5:00", ["a: no checksum"]),
        (f"a>=1.0 \\\n    --hash=sha256:{SUM}", ["a>=1.0: not a version of a registry"]),
        (
            "a @ git+https://example.org/a@main",
            ["a @ git+https://example.org/a@main: not a version of a registry"],
        ),
        (
            f"a==1.0 \\\n    --hash=sha256:{SUM}\na==2.0 \\\n    --hash=sha256:{SUM}",
            ["a: locked more than once"],
        ),
        (
            f"a==1.0 ; python_full_version < '3.12' \\\n    --hash=sha256:{SUM}\n"
            f"a==2.0 ; python_full_version >= '3.12' \\\n    --hash=sha256:{SUM}",
            [],
        ),
        (
            f"a==1.0 ; python_full_version < '3.12' \\\n    --hash=sha256:{SUM}\n"
            f"a==2.0 \\\n    --hash=sha256:{SUM}",
            ["a: locked more than once"],
        ),
    ],
)
def test_faults_of_requirements_are_found(entry: str, fault: list[str]) -> None:
    assert audit.requirements_faults(f"# generated\n#    make lock\n{entry}\n") == fault


def crate(name: str, **more: str) -> dict[str, Any]:
    return {"name": name, "source": audit.CARGO_REGISTRY, "checksum": SUM} | more


TWICE = [crate(name) for name in sorted(audit.TWICE) for _ in range(2)]


@pytest.mark.parametrize(
    ("rows", "fault"),
    [
        ([crate("a"), {"name": "own"}], []),
        ([{"name": "a"}], ["a: neither of this workspace nor of a registry"]),
        (
            [crate("a", source="git+https://example.org/a#1")],
            ["a: from git, not from crates.io"],
        ),
        (
            [crate("a", source="registry+https://example.org")],
            ["a: from registry, not from crates.io"],
        ),
        ([crate("a", checksum="")], ["a: no checksum"]),
        ([crate("a"), crate("a")], ["a: locked more than once"]),
    ],
)
def test_faults_of_crates_are_found(rows: list[dict[str, Any]], fault: list[str]) -> None:
    assert audit.cargo_faults([*TWICE, *rows], {"own"}) == fault


def test_crate_that_is_no_longer_locked_twice_is_reported() -> None:
    assert audit.cargo_faults(TWICE[1:], set()) == [
        f"{TWICE[0]['name']}: listed in TWICE, but locked once"
    ]


@pytest.mark.parametrize(
    ("expression", "allowed"),
    [
        ("MIT", True),
        ("GPL-3.0-only", False),
        ("GPL-3.0-only OR MIT", True),
        ("MIT/Apache-2.0", True),
        ("MIT AND GPL-3.0-only", False),
        ("MIT AND (GPL-3.0-only OR Zlib)", True),
        ("(MIT OR Zlib) AND GPL-3.0-only", False),
        ("Apache-2.0 WITH LLVM-exception OR GPL-2.0-only", True),
        ("GPL-2.0-only WITH Classpath-exception-2.0", False),
        ("not stated", False),
        ("(MIT", False),
        ("", False),
    ],
)
def test_license_expressions_are_evaluated(expression: str, allowed: bool) -> None:
    assert audit.is_allowed(expression, audit.SHIPPED) is allowed


# Stand in for pip-audit, cargo-audit and uv: the exit code and output that each prints.
STAND_IN = f"#!{sys.executable}\nimport sys\nsys.stdout.write({{out!r}})\n"
STAND_IN += "sys.stderr.write({error!r})\nsys.exit({code})\n"
CLEAN = '{"dependencies": [{"name": "a", "version": "1", "vulns": []}]}'
VULNERABLE = '{"dependencies": [{"name": "a", "version": "1", "vulns": [{"id": "X-1"}]}]}'
SKIPPED = '{"dependencies": [{"name": "a", "skip_reason": "not found"}]}'


@pytest.mark.parametrize(
    ("code", "out", "error", "answer"),
    [
        (0, CLEAN, "", ([], None)),
        (1, VULNERABLE, "", (["a 1: X-1"], None)),
        (0, SKIPPED, "", ([], "pip-audit has no data about 1 of 1 packages")),
        (2, "", "no network\n", ([], "pip-audit 2.10.1 has no data (exit code 2): no network")),
    ],
)
def test_missing_data_is_not_a_clean_answer(
    code: int, out: str, error: str, answer: tuple[list[str], str | None],
    monkeypatch: pytest.MonkeyPatch,
) -> None:  # fmt: skip
    monkeypatch.setattr(audit, "_run", lambda _words: (code, out, error))
    assert audit.python_vulnerabilities() == answer


@pytest.mark.skipif(sys.platform == "win32", reason="a script cannot replace a program there")
def test_vulnerable_and_yanked_crates_are_reported(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    report = (
        '{"vulnerabilities": {"list": [{"advisory": {"id": "R-1"}, '
        '"package": {"name": "a", "version": "1"}}]}, "warnings": {"yanked": '
        '[{"advisory": null, "package": {"name": "b", "version": "2"}}]}}'
    )
    program = tmp_path / "cargo-audit"
    program.write_text(STAND_IN.format(out=report, error="", code=1))
    program.chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}{os.pathsep}{os.environ['PATH']}")
    assert audit.crate_vulnerabilities() == (["a 1: R-1", "b 2: yanked"], None)


def test_unreachable_data_is_one_line_and_a_failure_only_if_required(tmp_path: Path) -> None:
    # A path without uv's index and without cargo-audit; cargo lists the crates from its cache.
    environment = os.environ | {
        "UV_OFFLINE": "1", "UV_CACHE_DIR": str(tmp_path), "CARGO_NET_OFFLINE": "true",
    }  # fmt: skip
    for words, code in (([], 0), (["--require"], 2)):
        done = subprocess.run(
            [sys.executable, str(ROOT / "tools" / "audit.py"), *words], env=environment,
            capture_output=True, text=True, check=False, timeout=300,
        )  # fmt: skip
        if done.stderr.startswith("cannot list the crates"):
            pytest.skip(done.stderr.strip())
        (line,) = done.stdout.splitlines()
        assert line.startswith("not checked: pip-audit 2.10.1 has no data")
        assert "the package index cannot be reached" in line
        assert (done.returncode, done.stderr) == (code, "")


def test_workflow_installs_the_version_that_the_script_names() -> None:
    text = (ROOT / ".github" / "workflows" / "ci.yml").read_text(encoding="utf-8")
    assert f"cargo install --locked cargo-audit@{audit.CARGO_AUDIT}\n" in text
    assert "run: make audit REQUIRE=--require\n" in text
