"""The perf recorder: its command, counters, and checks, and the content of a recording."""

from __future__ import annotations

import contextlib
import os
import re
import shutil
import signal
import struct
import subprocess
import sys
import time
import types
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pytest
from conftest import needs_tracing

from schedlens.errors import NoSpaceError, RecorderError
from schedlens.record import changes

if TYPE_CHECKING:
    from collectors import (
        perf,
        perf_checks,
        perf_command,
        perf_counters,
        perf_fallback,
        perf_file,
        perf_package,
    )
else:
    from schedlens.collectors import (
        perf,
        perf_checks,
        perf_command,
        perf_counters,
        perf_fallback,
        perf_file,
        perf_package,
    )

pytestmark = pytest.mark.records

GIBI = 1 << 30


@pytest.fixture(scope="module")
def capture() -> Iterator[perf.Capture]:
    """The best this machine permits, if that is everything."""
    needs_tracing()
    made = changes.Changes()
    made.mount_tracefs()
    found = perf.best_capture(cpus=os.cpu_count() or 1, memory_bytes=4 * GIBI)
    if found.mode != "full":
        pytest.skip(f"only '{found.mode}' is permitted here: {found.missing}")
    yield found
    made.undo()


def recorded(capture: perf.Capture, folder: Path, seconds: float = 0.2) -> Path:
    recorder = perf.Recorder(capture, folder)
    try:
        recorder.enable()
        time.sleep(seconds)
        recorder.disable()
        recorder.stop()
    finally:
        recorder.abort()
    return folder / perf.MAIN_FILE


def script(path: Path, *options: str) -> list[str]:
    """Lines of `perf script`."""
    return subprocess.run(
        ["perf", "script", "-i", str(path), *options],
        capture_output=True,
        text=True,
        errors="replace",
        check=True,
    ).stdout.splitlines()


def test_step_command() -> None:
    full = perf.Capture("perf", "full", events=perf_command.EVENTS)
    line = perf_command.record(full, Path("STEP/perf.data"), control=(Path("c"), Path("a")))
    assert " ".join(line) == (
        "perf record --no-bpf-event -B -N -m 16M -k CLOCK_MONOTONIC -D -1 --control fifo:c,a "
        "-o STEP/perf.data -a --switch-events -e sched:sched_switch,sched:sched_waking,"
        "sched:sched_wakeup_new,sched:sched_migrate_task,sched:sched_process_fork,"
        "sched:sched_process_exit,sched:sched_process_exec,power:cpu_idle,power:cpu_frequency,"
        "irq:softirq_entry,irq:softirq_exit,cpuhp:cpuhp_enter,cpuhp:cpuhp_exit -- cat"
    )


def test_light_mode_omits_switch_records(capture: perf.Capture, tmp_path: Path) -> None:
    light = perf.best_capture(light=True, cpus=2, memory_bytes=GIBI)
    assert "--switch-events" not in perf.commands(light, tmp_path)[0]
    found = perf_file.read(recorded(light, tmp_path))
    assert found.whole
    assert found.switches == 0


def test_counter_group_leads_with_the_switch_event() -> None:
    group = perf_command.CounterGroup(("cycles", "instructions"))
    full = perf.Capture("perf", "full", events=perf_command.EVENTS, groups=(group,))
    line = perf_command.record(full, Path("x"))
    first = line.index("-e")
    assert line[first + 1] == "{sched:sched_switch,cycles,instructions}:SD"
    assert line[first + 3].startswith("sched:sched_waking,")
    assert "sched:sched_switch" not in line[first + 3]


def test_hybrid_machine_has_a_counter_file_per_core_type(tmp_path: Path) -> None:
    groups = (
        perf_command.CounterGroup(("cpu_core/cycles/",), "SD", "cpu_core", "0-15"),
        perf_command.CounterGroup(("cpu_atom/cycles/",), "SD", "cpu_atom", "16-23"),
    )
    full = perf.Capture("perf", "full", events=perf_command.EVENTS, groups=groups)
    main, fast, slow = perf.commands(full, tmp_path)
    assert main[main.index("-e") + 1] == ",".join(perf_command.EVENTS)
    for line, cpus, pmu in ((fast, "0-15", "cpu_core"), (slow, "16-23", "cpu_atom")):
        assert line[line.index("-C") + 1] == cpus
        assert line[line.index("-e") + 1] == f"{{sched:sched_switch,{pmu}/cycles/}}:SD"
        assert line[line.index("-o") + 1] == str(tmp_path / f"counters-{pmu}.data")
        assert "-a" not in line


@pytest.mark.parametrize(
    ("memory", "cpus", "text"),
    [
        (64 * GIBI, 20, "16M"),
        (64 * GIBI, 256, "16M"),
        (16 * GIBI, 256, "4M"),
        (8 * GIBI, 192, "2M"),
        (GIBI, 256, "512K"),
        (GIBI // 4, 4, "4M"),
    ],
)
def test_buffers_use_at_most_a_sixteenth_of_memory(memory: int, cpus: int, text: str) -> None:
    assert perf_command.size_text(perf_command.buffer_bytes(memory, cpus)) == text


def test_recording_starts_and_ends_on_time(capture: perf.Capture, tmp_path: Path) -> None:
    recorder = perf.Recorder(capture, tmp_path)
    try:
        before = time.clock_gettime_ns(time.CLOCK_MONOTONIC)
        recorder.enable()
        time.sleep(0.2)
        recorder.disable()
        after = time.clock_gettime_ns(time.CLOCK_MONOTONIC)
        time.sleep(0.2)
        recorder.stop()
    finally:
        recorder.abort()
    lines = script(tmp_path / perf.MAIN_FILE, "-F", "time")
    times = [float(line.strip().rstrip(":")) for line in lines if line.strip()]
    assert before / 1e9 - 1e-6 <= min(times)
    assert max(times) <= after / 1e9 + 1e-6
    # It sleeps 0.2 s after the end: a recording that continued would be longer by that.
    assert 0.15 <= max(times) - min(times) <= (after - before) / 1e9


def test_record_counts_match_perf(capture: perf.Capture, tmp_path: Path) -> None:
    path = recorded(capture, tmp_path)
    found = perf_file.read(path)
    text = subprocess.run(
        ["perf", "report", "--stats", "-i", str(path)], capture_output=True, text=True, check=True
    ).stdout
    total = {name: int(count) for name, count in re.findall(r"(\w+) events:\s+(\d+)", text)}
    by_event = re.findall(r"SAMPLE events:\s+(\d+)", text)
    # The first is the sum, the others are its parts.
    assert found.samples == int(by_event[0]) == sum(map(int, by_event[1:]))
    assert found.switches == total["SWITCH_CPU_WIDE"]
    assert found.whole
    names = subprocess.run(
        ["perf", "evlist", "-i", str(path)], capture_output=True, text=True, check=True
    ).stdout.splitlines()
    assert found.events == [name for name in names if not name.startswith("#")]


def test_good_recording_passes_all_checks(capture: perf.Capture, tmp_path: Path) -> None:
    rows = perf.check(recorded(capture, tmp_path), capture)
    assert {row.check: row.ok for row in rows if row.check not in ("chains", "switch_records")} == {
        "whole": True,
        "samples": True,
        "lost": True,
        "events": True,
    }
    assert perf.usable(rows) is None


def test_truncated_recording_is_rejected(capture: perf.Capture, tmp_path: Path) -> None:
    path = recorded(capture, tmp_path)
    whole = path.read_bytes()
    for size in (0, 7, 50, 104, 200, len(whole) // 2, len(whole) - 20_000):
        path.write_bytes(whole[: max(size, 0)])
        assert not perf_file.read(path).whole
        rows = perf.check(path, capture)
        assert perf.usable(rows) is not None
    path.unlink()
    assert perf.usable(perf.check(path, capture)) is not None


def file_with(records: bytes, names: tuple[str, ...] = ()) -> bytes:
    """A perf.data with these records, one feature (the event names), and no attributes."""
    head = b"PERFILE2" + struct.pack("<QQ", 104, 128)
    sections = struct.pack("<6Q", 104, 0, 104, len(records), 0, 0)
    bits = struct.pack("<4Q", 1 << perf_file.HEADER_EVENT_DESC, 0, 0, 0)
    at = 104 + len(records) + 16
    described = struct.pack("<II", len(names), 8)
    for name in names:
        text = name.encode() + b"\0"
        described += bytes(8) + struct.pack("<II", 1, len(text)) + text + bytes(8)
    return head + sections + bits + records + struct.pack("<QQ", at, len(described)) + described


def record(kind: int, body: bytes = b"") -> bytes:
    return struct.pack("<IHH", kind, 0, 8 + len(body)) + body


def test_lost_records_are_counted_once(tmp_path: Path) -> None:
    # LOST: id, lost. LOST_SAMPLES (13) reports the same loss again.
    lost = record(2, struct.pack("<QQ", 1, 40)) + record(2, struct.pack("<QQ", 1, 2))
    path = tmp_path / "x.data"
    path.write_bytes(file_with(record(9) * 3 + lost + record(13, struct.pack("<Q", 42)), ("a:b",)))
    found = perf_file.read(path)
    assert (found.whole, found.lost, found.samples, found.events) == (True, 42, 3, ["a:b"])
    row = next(row for row in perf_checks.check(path, perf.Capture("perf", "full", events=("a:b",),
               switch_events=False)) if row.check == "lost")  # fmt: skip
    assert row.ok is False
    assert row.detail == "42 of 48 records were lost"


def test_recording_without_samples_is_rejected(tmp_path: Path) -> None:
    path = tmp_path / "x.data"
    path.write_bytes(file_with(record(68), ("a:b",)))
    rows = perf_checks.check(path, perf.Capture("perf", "full", events=("a:b",)))
    assert perf.usable(rows) == "0 samples: `schedlens doctor` shows why"


def test_renamed_event_is_reported(tmp_path: Path) -> None:
    path = tmp_path / "x.data"
    path.write_bytes(file_with(record(9), ("sched:sched_switch", "context-switches:u")))
    asked = perf.Capture("perf", "full", events=("sched:sched_switch", "context-switches"))
    row = next(row for row in perf_checks.check(path, asked) if row.check == "events")
    assert (row.ok, row.detail) == (False, "context-switches became context-switches:u")


def test_chain_breaks_are_counted(
    capture: perf.Capture, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = recorded(capture, tmp_path)
    tables: list[tuple[str, dict[str, list[Any]]]] = [
        ("context_switch", {"source": ["switch", "switch_event", "switch", "switch_event"]}),
        ("trace", {"start_clock": [5_000], "clock_hz": [1_000_000_000]}),
        (
            "loss",
            {
                "start_ns": [100, 150, 900_000],
                "end_ns": [200, 160, 2_900_000],
                "signalled_by": ["chain_break", "PERF_RECORD_LOST", "chain_break"],
            },
        ),
    ]

    def load(*_: object) -> Iterator[tuple[str, pa.RecordBatch]]:
        for table, columns in tables:
            arrays = {
                name: array.dictionary_encode() if pa.types.is_string(array.type) else array
                for name, array in ((name, pa.array(column)) for name, column in columns.items())
            }
            yield table, pa.RecordBatch.from_pydict(arrays)

    decoders = types.ModuleType("schedlens._decoders")
    monkeypatch.setattr(decoders, "load", load, raising=False)
    monkeypatch.setitem(sys.modules, "schedlens._decoders", decoders)

    def chains(*window: int) -> tuple[object, ...]:
        rows = {row.check: row for row in perf.check(path, capture, *window)}
        assert rows["switch_records"].detail == (
            "2 switches came from PERF_RECORD_SWITCH; no data was lost"
        )
        assert rows["switch_records"].from_switch_records == 2
        return rows["chains"].ok, rows["chains"].detail

    # Without a step all breaks count; with one, only those between its start and end.
    assert chains() == (False, "2 breaks in the chains of switches, 2.0 ms of CPU time")
    assert chains(5_201, 3_000_000) == (
        False, "1 break in the chains of switches, 2.0 ms of CPU time",
    )  # fmt: skip
    assert chains(5_200, 905_000) == (True, "0 breaks in the chains of switches")
    del tables[2]
    assert chains() == (True, "0 breaks in the chains of switches")


@pytest.mark.parametrize("length", [0, 7, 4])
def test_zero_length_record_ends_the_walk(length: int, tmp_path: Path) -> None:
    path = tmp_path / "x.data"
    path.write_bytes(file_with(record(9) + struct.pack("<IHH", 9, 0, length) + bytes(8)))
    found = perf_file.read(path)
    assert (found.whole, found.samples) == (False, 1)


def needs_msr() -> None:
    if not Path("/sys/bus/event_source/devices/msr/events/tsc").exists():
        pytest.skip("no msr/tsc/ on this machine")


def test_counters_are_read_at_every_switch(capture: perf.Capture, tmp_path: Path) -> None:
    needs_msr()
    counted = perf.add_counters(capture, ("msr/tsc/",), {})
    (group,) = counted.groups
    assert group.events[-1] == "msr/tsc/"
    path = recorded(counted, tmp_path)
    rows = perf.check(path, counted)
    assert perf.usable(rows) is None
    assert next(row for row in rows if row.check == "events").ok
    # perf prints a line for each member of the group for each switch.
    events = [line.strip().rstrip(":") for line in script(path, "-F", "event")]
    assert events.count("sched:sched_switch") == events.count("msr/tsc/")
    assert events.count("sched:sched_switch") >= 4


def test_counters_of_one_core_type_have_their_own_file(
    capture: perf.Capture, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    needs_msr()
    # Simulates a core type: its PMU counts on CPU 0 only.
    monkeypatch.setattr(perf_counters, "BASE", ())
    typed = perf_counters.add_by_type(capture, ("tsc",), {"msr": (0,)})
    assert [(group.events, group.cpus) for group in typed.groups] == [(("msr/tsc/",), "0")]
    recorded(typed, tmp_path)
    text = script(tmp_path / "counters-msr.data", "-F", "cpu,event")
    assert {line.split()[0] for line in text if line.strip()} == {"[000]"}
    assert {"sched:sched_switch:", "msr/tsc/:"} <= {line.split()[1] for line in text}
    # The main file is complete without them.
    assert "msr/tsc/" not in perf_file.read(tmp_path / perf.MAIN_FILE).events
    with pytest.raises(RecorderError, match="cannot count msr/no-such/"):
        perf_counters.add_by_type(capture, ("no-such",), {"msr": (0,)})


def test_counters_unknown_to_perf_are_refused(capture: perf.Capture) -> None:
    with pytest.raises(RecorderError, match="this machine cannot count no-such-event"):
        perf.add_counters(capture, ("no-such-event",), {})


def test_counters_beyond_hardware_capacity_are_refused(
    capture: perf.Capture, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    needs_msr()
    # Simulates a CPU with one counter: alone each event counts all the time, two share.
    stand_in = tmp_path / "perf"
    stand_in.write_text(
        "#!/bin/sh\n"
        'case "$1 $6" in\n'
        "stat*,*) echo '5,,msr/tsc/,100,50.00,,' >&2; echo '5,,faults,100,50.00,,' >&2;;\n"
        'stat*) echo "5,,$6,100,100.00,," >&2;;\n'
        f'*) exec {capture.perf} "$@";;\nesac\n'
    )
    stand_in.chmod(0o755)
    monkeypatch.setattr(perf_counters, "BASE", ("no-such-event",))
    shared = replace(capture, perf=str(stand_in))
    with pytest.raises(RecorderError, match="cannot count msr/tsc/, faults at once"):
        perf.add_counters(shared, ("msr/tsc/", "faults"), {})


def test_counters_need_tracepoint_rights() -> None:
    own = perf.Capture("perf", "switch_events_own", allow="sudo this")
    assert perf.add_counters(own, (), {}) is own
    with pytest.raises(RecorderError, match="sudo this"):
        perf.add_counters(own, ("cycles",), {})


def test_missing_perf_names_the_package(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SCHEDLENS_PERF", "/nonexistent/perf")
    found = perf.best_capture(cpus=2, memory_bytes=GIBI)
    assert (found.mode, found.version) == ("none", None)
    assert found.missing[0] == "perf is not installed"
    assert found.allow == perf_package.install_command()


def test_wrapper_without_perf_counts_as_missing(tmp_path: Path) -> None:
    wrapper = tmp_path / "perf"
    wrapper.write_text("#!/bin/sh\necho 'WARNING: perf not found for kernel 6.1' >&2\nexit 2\n")
    wrapper.chmod(0o755)
    assert perf.version(str(wrapper)) is None


@pytest.mark.parametrize(
    ("release", "command"),
    [
        ("ID=debian\n", "sudo apt-get install linux-perf"),
        ('NAME="Fedora Linux"\nID=fedora\n', "sudo dnf install perf"),
        ('ID=rocky\nID_LIKE="rhel centos fedora"\n', "sudo dnf install perf"),
        ('ID="opensuse-leap"\nID_LIKE="suse opensuse"\n', "sudo zypper install perf"),
        ("ID=plan9\n", None),
        ("ID='broken\n", None),
    ],
)
def test_package_name_of_each_distribution(
    release: str, command: str | None, tmp_path: Path
) -> None:
    path = tmp_path / "os-release"
    path.write_text(release)
    assert perf_package.install_command(path) == command
    assert perf_package.install_command(tmp_path / "none") is None


def test_perf_error_is_one_line() -> None:
    e1 = "Error:\nAccess to performance monitoring and observability operations is limited.\nConsi"
    e2 = (
        "event syntax error: 'sched:sched_switch'\n      \\___ can't access trace events\n\n"
        "Error:\tNo permissions to read /sys/x\n"
    )
    assert perf_fallback.reason(e1).startswith("Access to performance monitoring")
    assert perf_fallback.reason(e2) == "event syntax error: 'sched:sched_switch'"
    assert perf_fallback.reason("[ perf record: Woken up 1 times ]\n") == ""


def test_perf_ends_when_its_parent_is_killed(capture: perf.Capture, tmp_path: Path) -> None:
    master = subprocess.Popen(
        [
            sys.executable, "-c",
            "import sys, time; from pathlib import Path\n"
            "from schedlens.collectors import perf\n"
            "c = perf.best_capture(cpus=2, memory_bytes=1 << 30)\n"
            f"r = perf.Recorder(c, Path({str(tmp_path)!r})); r.enable()\n"
            "print(r._runs[0]._process.pid, flush=True); time.sleep(60)",
        ],
        stdout=subprocess.PIPE, text=True,
    )  # fmt: skip
    assert master.stdout is not None
    recorder = int(master.stdout.readline())
    master.send_signal(signal.SIGKILL)
    master.wait()
    deadline = time.monotonic() + 30
    while Path(f"/proc/{recorder}").exists() and time.monotonic() < deadline:
        time.sleep(0.05)
    assert not Path(f"/proc/{recorder}").exists()
    assert perf_file.read(tmp_path / perf.MAIN_FILE).whole


def test_full_disk_is_reported(capture: perf.Capture, tmp_path: Path) -> None:
    with tiny_disk(tmp_path / "disk", "64k") as disk:
        recorder = perf.Recorder(capture, disk)
        # The disk may be full at the start, or only at the end. Each process takes at least 2 KB of
        # records over its life, so 200 of them never fit.
        with contextlib.suppress(NoSpaceError):
            recorder.enable()
            for _ in range(200):
                subprocess.run([sys.executable, "-S", "-c", ""], check=True)
            recorder.disable()
        with pytest.raises(NoSpaceError):
            recorder.stop()


@contextlib.contextmanager
def tiny_disk(folder: Path, size: str) -> Iterator[Path]:
    """A disk of this many bytes."""
    folder.mkdir()
    done = subprocess.run(
        ["mount", "-t", "tmpfs", "-o", f"size={size}", "schedlens-test", str(folder)],
        capture_output=True,
        check=False,
    )
    if done.returncode != 0:
        pytest.skip("no disk can be mounted here")
    try:
        yield folder
    finally:
        subprocess.run(["umount", "-l", str(folder)], check=True)


def test_recorder_that_cannot_start_says_why(tmp_path: Path) -> None:
    if shutil.which("false") is None:
        pytest.skip("no program `false` here")
    recorder = perf.Recorder(perf.Capture("false", "full", events=("a:b",)), tmp_path)
    try:
        with pytest.raises(RecorderError, match="perf ended with code 1 before 'enable'"):
            recorder.enable()
    finally:
        recorder.abort()
    with pytest.raises(RecorderError, match="cannot run /nonexistent: No such file"):
        perf.Recorder(perf.Capture("/nonexistent", "full", events=("a:b",)), tmp_path)
