"""`collect --selftest`: on this system for real, and as on Windows with stand-ins.

Where Windows is only a stand-in, its .etl is written from what the workload really did, so that
events, chains, counters, parking and the clock are judged by the real analysis.
"""

from __future__ import annotations

import getpass
import json
import platform
import re
import zipfile
from collections.abc import Callable
from pathlib import Path

import pytest
import windows_texts
from conftest import needs_tracing
from record.test_windows_collect_with_stand_ins import BEGIN_NS, stand_ins
from windows_stand_ins import StandIns, header_only_etl

from schedlens.ask import arrivals
from schedlens.commands import cli, self_test
from schedlens.load import scrubbed_file

pytestmark = pytest.mark.alone

Run = Callable[..., tuple[int, str]]


@pytest.fixture
def windows(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> StandIns:
    """A machine that reports itself as Windows, whose recordings are those of its workloads."""
    made = stand_ins(tmp_path, monkeypatch, header_only_etl(), (BEGIN_NS, BEGIN_NS + 1))
    monkeypatch.setattr(self_test, "SECONDS", 0.2)
    return made


@pytest.fixture
def run(capfd: pytest.CaptureFixture[str]) -> Run:
    """Runs `collect --selftest`; its exit code and output."""

    def run(*words: str) -> tuple[int, str]:
        code = cli.run(cli.group, ["collect", "--selftest", *words], name="schedlens")
        said = capfd.readouterr()
        return code, said.out + said.err

    return run


def rows(text: str) -> dict[str, tuple[str, str]]:
    """State and finding of each check in the text."""
    row = r"^(ok|FAIL|none) +(\S.*?)(?: {2,}(.*))?$"
    return {what: (state, found) for state, what, found in re.findall(row, text, re.MULTILINE)}


def test_self_test_of_this_machine_passes(
    run: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    needs_tracing()
    monkeypatch.chdir(tmp_path)
    for number in range(6):
        proof = Path(f"proof-{number}")
        code, said = run("-o", str(proof), "--attach")
        text = (proof / "selftest.txt").read_text(encoding="utf-8")
        found = rows(text)
        # This kernel misses a switch now and then, and the self-test must say so.
        if {name for name, row in found.items() if row[0] == "FAIL"} != {"check chains"}:
            break
    assert code == 0, said + text
    assert found["events of sched:sched_switch"][0] == "ok"
    assert found["batches are in slices"][0] == "ok"
    assert "0 of 0" not in found["batches are in slices"][1]
    assert scrubbed_file.is_one(proof / "selftest.schedlens")
    # Nothing in it identifies the machine or the user.
    assert platform.node() not in text
    assert str(tmp_path) not in text
    assert f" {getpass.getuser()} " not in text


def test_self_test_as_on_windows_checks_every_kind_of_event(windows: StandIns, run: Run) -> None:
    windows.record_the_run()
    code, said = run("-o", "proof", "--attach")
    text = Path("proof/selftest.txt").read_text(encoding="utf-8")
    assert code == 0, said + text
    found = rows(text)
    profile = Path("proof/schedlens.wprp").read_text(encoding="utf-8")
    assert '<Counter Value="InstructionRetired" />' in profile
    for kind in ("CSwitch", "ReadyThread", "Interrupt", "Loader", "Kernel-Power"):
        assert found[f"events of {kind}"][0] == "ok", text
    for name in ("switches chain", "batches are in slices", "parking rundown", "check counters",
                 "counter InstructionRetired", "counter TotalCycles"):  # fmt: skip
        assert found[name][0] == "ok", text
    assert "windows_build: 10.0.22631.3479 (23H2)" in text
    assert "Thread/ReadyThread" in found["first seen"][1]
    # The log itself, with hashed names, and not the extract.
    assert not Path("proof/selftest.schedlens").exists()
    with zipfile.ZipFile("proof/selftest.etl.zip") as archive:
        log = archive.read("scrubbed.etl")
    for name in ("schedlens-workloads", "spin_handoff"):
        assert name.encode() not in log
        assert name.encode("utf-16-le") not in log
    (trace,) = Path("proof").glob("*/trace.etl")
    assert b"schedlens-workloads" in trace.read_bytes()
    again = [arrivals.chains(str(path)) for path in (trace, Path("proof/selftest.etl.zip"))]
    assert again[0] == again[1]
    assert again[0].state == "ok"


@pytest.mark.parametrize(
    ("without", "failed"),
    [
        (
            ("parking", "interrupt", "image", "counters"),
            {
                "parking rundown", "events of Interrupt", "events of DPC", "events of Loader",
                "events of Kernel-Processor-Power", "check counters",
                "counter InstructionRetired", "counter TotalCycles",
            },
        ),
        (
            ("chain", "counts"),
            {"switches chain", "counter InstructionRetired", "counter TotalCycles"},
        ),
    ],
)  # fmt: skip
def test_self_test_fails_for_what_does_not_arrive(
    windows: StandIns, run: Run, without: tuple[str, ...], failed: set[str]
) -> None:
    windows.record_the_run(*without)
    code, said = run("-o", "proof", "--no-attach")
    text = Path("proof/selftest.txt").read_text(encoding="utf-8")
    found = {what for what, (state, _) in rows(text).items() if state == "FAIL"}
    assert (code, found) == (1, failed), said + text
    assert "result: FAIL" in text


def test_self_test_without_recording_says_why(
    windows: StandIns, run: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    windows.refuse("-start", 0xC5583014, "In use.")
    code, said = run("-o", "proof")
    text = Path("proof/selftest.txt").read_text(encoding="utf-8")
    assert code == 2
    assert "failed: another program uses the same collector" in text
    assert "Attach it to an issue" in said
    monkeypatch.setattr("schedlens.record.windows.platform.elevated", lambda: False)
    code, _ = run("-o", "again")
    assert code == 2
    text = Path("again/selftest.txt").read_text(encoding="utf-8")
    assert "failed: recording needs an elevated prompt" in text


def test_self_test_of_counters_that_a_hypervisor_hides_is_no_failure(
    windows: StandIns, run: Run
) -> None:
    (windows.home / "wpr.pmcsources").write_text(windows_texts.ONLY_TIMER)
    windows.record_the_run("counters")
    code, said = run("-o", "proof", "--no-attach")
    text = Path("proof/selftest.txt").read_text(encoding="utf-8")
    assert (code, rows(text)["counters"][0]) == (0, "none"), said + text
    assert json.loads(Path("proof/session.json").read_text())["capture"]["counters"] == []


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["--seconds", "1"], "--selftest decides itself what it records: remove --seconds"),
        (["--", "true"], "remove the command"),
    ],
)
def test_self_test_takes_no_other_option(run: Run, words: list[str], said: str) -> None:
    code, text = run(*words)
    assert (code, said in text, text.count("\n")) == (2, True, 1)
