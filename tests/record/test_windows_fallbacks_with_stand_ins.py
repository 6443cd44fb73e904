"""`collect` on Windows where the machine is older, fuller, or smaller than planned.

There is no Windows here: stand-ins refuse what the real programs are documented to refuse.
"""

from __future__ import annotations

import re
import struct
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
import windows_texts
from record.test_windows_collect_with_stand_ins import (
    EDGES_NS,
    Run,
    load,
    run,
    stand_ins,
    windows,
)
from windows_stand_ins import StandIns, header_only_etl

from schedlens.errors import NoSpaceError
from schedlens.load.frames import csv_rows
from schedlens.record.windows import disk_space, settings

if TYPE_CHECKING:
    from collectors import etw, etw_command, etw_profile, presentmon
else:
    from schedlens.collectors import etw, etw_command, etw_profile, presentmon

__all__ = ["run", "windows"]

pytestmark = pytest.mark.slow

MB = 1 << 20
# As xperf 10.0.19041 lists its flags.
FLAGS = """
    Kernel Flags:
       PROC_THREAD    : Process and Thread create/delete
       LOADER         : Kernel and user mode Image Load/Unload events
       CSWITCH        : Context Switch
       DISPATCHER     : CPU Scheduler
       PRIORITY       : Priority change events
       IDLE_STATES    : CPU Idle States
       POWER          : Power management events
       DPC            : DPC Events
       INTERRUPT      : Interrupt events
       CPU_CONFIG     : NUMA topology, Processor Group and Processor Index to Number mapping.
"""


def test_profile_without_the_newest_keywords_is_tried_once(windows: StandIns, run: Run) -> None:
    windows.lacks_keywords("IdealProcessor")
    code, said = run("--seconds", "0.1", "--repeat", "2", "-o", "session")
    assert code == 0, said
    step = load(Path("session/machine-r1/step.json"))
    lost = "changes of the ideal processor: this wpr has no keyword IdealProcessor"
    assert step["missing"] == [lost]
    assert f"not recorded: {lost}" in step["warnings"]
    profile = Path("session/schedlens.wprp").read_text(encoding="utf-8")
    assert "IdealProcessor" not in profile
    assert "ReadyThread" in profile
    # The second step begins with what this WPR accepts.
    assert [words[0] for words in windows.calls_of("wpr")] == [
        "-start", "-start", "-stop", "-start", "-stop",
    ]  # fmt: skip


def test_profile_that_is_refused_for_another_reason_is_one_line(
    windows: StandIns, run: Run
) -> None:
    windows.lacks_keywords("CSwitch")
    code, said = run("--seconds", "0.1", "-o", "session")
    assert code == 2
    assert "refuses the profile" in said
    assert [words[0] for words in windows.calls_of("wpr")] == ["-start", "-start"]


def test_recording_is_stopped_by_an_older_wpr_without_its_newest_option(
    windows: StandIns, run: Run
) -> None:
    windows.older_wpr()
    code, said = run("--seconds", "0.1", "-o", "session")
    assert code == 0, said
    stops = [words for words in windows.calls_of("wpr") if words[0] == "-stop"]
    assert ["-skipPdbGen" in words for words in stops] == [True, False]
    step = load(Path("session/machine-r1/step.json"))
    assert step["recorder_commands"][-1][1:] == stops[1]
    assert not (windows.home / "wpr.running").exists()


@pytest.mark.parametrize("counted", [True, False])
def test_counters_that_did_not_arrive_are_a_warning(
    counted: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, run: Run
) -> None:
    # A context switch as WPR writes it: version and counters, type, marker, size, hook, time.
    words = bytes(16) if counted else b""
    record = struct.pack("<BBBBHHq", 4, len(words) // 8, 17, 0xC0, 40 + len(words), 0x524, 1)
    etl = header_only_etl() + record + words + bytes(24)
    stand_ins(tmp_path, monkeypatch, etl, EDGES_NS)
    code, said = run("--seconds", "0.1", "--counters", "TotalCycles", "-o", "session")
    assert code == 0, said
    step = load(Path("session/machine-r1/step.json"))
    (check,) = (row for row in step["checks"] if row["check"] == "counters")
    assert check["ok"] == counted
    warning = "no counter was recorded, although TotalCycles were requested"
    assert (warning in said) == (not counted)


def test_xperf_records_only_flags_that_it_lists() -> None:
    capture = etw_command.Capture("xperf", "xperf")
    older = etw.fewer_flags(capture, FLAGS)
    assert older.flags == list(etw_command.KERNEL_FLAGS)
    assert older.missing == ("changes of the ideal processor: this xperf has no flag IDEAL_PROC",)
    newer = etw.fewer_flags(capture, FLAGS + "       IDEAL_PROC     : Ideal processor\n")
    assert newer.flags == [*etw_command.KERNEL_FLAGS, "IDEAL_PROC"]
    assert newer.missing == ()
    without = etw.fewer_flags(capture, re.sub(r".*CPU_CONFIG.*\n", "", FLAGS))
    assert "CPU_CONFIG" not in without.flags
    assert "events of CPU_CONFIG: this xperf has no such flag" in without.missing


def test_ring_gives_both_collectors_the_same_time() -> None:
    for seconds in (30.0, 600.0):
        ring = etw_command.Capture("wpr", "wpr", ring_s=seconds, cpus=16)
        assert ring.kernel_buffers is not None
        assert ring.event_buffers is not None
        # 16 and 1.8 MB a second.
        assert ring.kernel_buffers * etw_profile.BUFFER_KB / 1024 / seconds == 16
        events_mb = ring.event_buffers * etw_profile.EVENTS_BUFFER_KB / 1024
        assert events_mb / seconds == pytest.approx(1.8, rel=0.01)


def test_ring_of_more_than_a_quarter_of_the_memory_is_refused(windows: StandIns, run: Run) -> None:
    # 24 CPUs and 32 GB: 22 MB and 2.2 MB a second.
    code, said = run("--ring", "600", "-o", "session")
    assert code == 2
    assert "--ring 600: its buffers need 15.2 GB, more than a quarter of the 34.4 GB" in said
    longest = int(said.rpartition("--ring ")[2])
    assert longest == pytest.approx(34.4e9 / 4 / 15.2e9 * 600, rel=0.01)
    assert windows.calls_of("wpr") == []


def test_room_for_twice_the_recording_is_required(tmp_path: Path) -> None:
    disk_space.check(tmp_path, 100 * MB, lambda folder: 456 * MB)
    with pytest.raises(NoSpaceError, match=r"455 MB left .* may need 456 MB while it is merged"):
        disk_space.check(tmp_path, 100 * MB, lambda folder: 455 * MB)
    with pytest.raises(NoSpaceError, match="less than 256 MB left"):
        disk_space.check(tmp_path, 0, lambda folder: 255 * MB)


def test_recording_stops_while_it_can_still_be_merged(tmp_path: Path) -> None:
    # MB left: of 1000, 300 were written, then 400.
    left = iter([1000, 700, 600])
    watch = disk_space.Watch(tmp_path, lambda folder: next(left) * MB)
    assert not watch.is_short()
    assert watch.is_short()


def test_step_says_that_the_disk_ended_it(
    windows: StandIns, run: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(disk_space.Watch, "is_short", lambda self: True)
    code, said = run("--seconds", "30", "-o", "session")
    assert code == 0, said
    step = load(Path("session/machine-r1/step.json"))
    assert step["stopped_by"] == "disk"
    assert "stopped early, because the disk of " in said


@pytest.mark.parametrize("encoding", ["utf-8", "utf-8-sig", "utf-16"])
def test_presentmon_text_of_powershell_is_read(encoding: str, tmp_path: Path) -> None:
    path = tmp_path / "presentmon.csv"
    path.write_bytes("Application,ProcessID\r\ngame.exe,7\r\n".encode(encoding))
    assert csv_rows.names(path) == {"application", "processid"}
    with csv_rows.opened(path, "record again") as (names, rows):
        assert (names, list(rows)) == (["application", "processid"], [["game.exe", "7"]])


def test_dry_run_lets_presentmon_write_its_file() -> None:
    words = presentmon.command("PresentMon", file=Path("p.csv"))
    assert words[1:3] == ["-output_file", "p.csv"]
    assert ">" not in words


@pytest.mark.parametrize(
    ("build", "product"), [("19045", "Windows 10 Pro"), ("22000", "Windows 11 Pro")]
)
def test_build_22000_and_later_is_windows_11(build: str, product: str) -> None:
    text = re.sub(r"(CurrentBuild\s+REG_SZ\s+)\d+", rf"\g<1>{build}", windows_texts.VERSION)
    assert "Windows 10 Pro" in text

    def ask(command: Sequence[str]) -> str | None:
        return text if list(command) == settings.VERSION else None

    assert settings.read(ask)["windows_product"] == product


def test_keywords_left_out_change_nothing_else() -> None:
    full = etw_profile.render().splitlines()
    fewer = etw_profile.render(without=tuple(etw_profile.NEWER_KEYWORDS)).splitlines()
    gone = [line.strip() for line in full if line not in fewer]
    assert gone == ['<Keyword Value="IdealProcessor" />']
    assert len(fewer) == len(full) - 1
    capture = replace(etw_command.Capture("wpr", "wpr"), without=("IdealProcessor",))
    assert len(capture.missing) == 1
