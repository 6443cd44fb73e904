"""The workload program built for Windows and run under Wine: calls, clocks, masks, proofs."""

from __future__ import annotations

import json
import os
import shlex
import struct
import subprocess
import time
from collections.abc import Iterator
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest
import wine
from windows_stand_ins import StandIns, header_only_etl

from schedlens.commands import cli
from schedlens.machine import operating_system
from schedlens.machine import topology as sysfs
from schedlens.record import workload_program
from schedlens.record.windows import topology

WHY_NOT = wine.missing()
pytestmark = [pytest.mark.slow, pytest.mark.skipif(WHY_NOT is not None, reason=WHY_NOT or "")]

SAMPLE = struct.Struct("<IHHIIqqQQ")


@pytest.fixture(scope="module")
def windows(tmp_path_factory: pytest.TempPathFactory) -> Iterator[wine.Wine]:
    """A fresh Windows prefix with the program built for it."""
    folder = tmp_path_factory.mktemp("wine")
    made = wine.Wine(folder, wine.build(folder))
    yield made
    made.close()


def cpus(windows: wine.Wine) -> list[int]:
    """The logical CPUs the program may use."""
    value = json.loads(windows.run("topology").stdout)
    found: list[int] = value["allowed"]
    return found


def recorded(windows: wine.Wine, folder: Path, *words: str) -> dict[str, Any]:
    """workload.json of a run."""
    done = windows.run("run", *words, "--out", str(folder))
    assert done.returncode == 0, done.stderr
    result: dict[str, Any] = json.loads((folder / "workload.json").read_text(encoding="utf-8"))
    return result


def batches(folder: Path) -> list[tuple[int, ...]]:
    """The rows of samples.bin."""
    data = (folder / "samples.bin").read_bytes()
    assert data[:8] == b"SLSAMP1\0"
    return [SAMPLE.unpack_from(data, at) for at in range(8, len(data), SAMPLE.size)]


def test_every_kernel_passes_verification(windows: wine.Wine) -> None:
    done = windows.run("verify", "--json")
    verdicts = json.loads(done.stdout)["verdicts"]
    wrong = [row for row in verdicts if row["status"] not in ("ok", "unsupported")]
    assert (done.returncode, wrong) == (0, [])
    native = {
        (kernel.kernel, variant): why
        for kernel in workload_program.catalogue()
        for variant, why in kernel.refusals.items()
    }
    assert {row["kernel"] for row in verdicts} == {kernel for kernel, _ in native}
    # What this CPU can run does not depend on the system (how much memory is free may).
    refused = {(row["kernel"], row["variant"]) for row in verdicts if row["status"] != "ok"}
    assert refused - {("mem_stride", "1g"), ("mem_stride", "64m")} == {
        name for name, why in native.items() if why and name[0] != "mem_stride"
    }


def test_worker_is_bound_named_and_timed_by_qpc(windows: wine.Wine, tmp_path: Path) -> None:
    cpu = cpus(windows)[-1]
    result = recorded(
        windows, tmp_path, "imul1", "--threads", "1", "--cpus", str(cpu), "--seconds", "0.2"
    )
    clock, worker = result["clock"], result["workers"][0]
    (first, first_ns), (last, last_ns) = clock["pairs"][0], clock["pairs"][-1]
    assert (result["status"], clock["source"]) == ("ok", "qpc")
    assert clock["hz"] == pytest.approx((last - first) * 1e9 / (last_ns - first_ns))
    assert clock["cpu_time"] in ("QueryThreadCycleTime", "GetThreadTimes")
    # A clock interrupt under Wine takes 10 ms: the coarser clock may be a step too far.
    length_ns = worker["end_mono_ns"] - worker["start_mono_ns"]
    assert 0 <= worker["cpu_time_ns"] <= length_ns * 1.05 + 20_000_000
    rows = batches(tmp_path)
    assert len(rows) == worker["batches"]
    assert {row[1:4] for row in rows} == {(cpu, cpu, 0)}
    assert all(row[5] < row[6] for row in rows)
    assert all(before[6] <= after[5] for before, after in pairwise(rows))
    assert worker["start_mono_ns"] <= rows[0][5]
    assert rows[-1][6] <= worker["end_mono_ns"]
    assert sum(row[7] for row in rows) == worker["iterations"]
    ticks_ns = 1e9 / clock["hz"]
    assert all(abs(ns - round(ns / ticks_ns) * ticks_ns) <= 1 for row in rows for ns in row[5:7])


def linux_thread(name: str, deadline_s: float = 30.0) -> Path:
    """The Linux thread of that name, under Wine's own process."""
    end = time.monotonic() + deadline_s
    while time.monotonic() < end:
        for path in Path("/proc").glob("[0-9]*/task/[0-9]*/comm"):
            try:
                if path.read_text().strip() == name:
                    return path.parent
            except OSError:
                continue
        time.sleep(0.02)
    raise AssertionError(f"no thread named {name}")


def allowed_list(thread: Path) -> str:
    """Its mask, as Linux writes it."""
    for line in (thread / "status").read_text().splitlines():
        if line.startswith("Cpus_allowed_list:"):
            return line.split(":")[1].strip()
    raise AssertionError(thread)


def test_linux_sees_the_requested_mask_and_name(windows: wine.Wine) -> None:
    planned = cpus(windows)[:2]
    words = ["run", "pause", "--threads", str(len(planned)), "--gate", "--seconds", "0.05"]
    with subprocess.Popen(
        windows.command(*words, "--cpus", ",".join(map(str, planned))),
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        env=windows.environment,
    ) as process:
        assert process.stdin is not None
        assert process.stdout is not None
        assert process.stdout.readline().strip() == b"ready"
        masks = [allowed_list(linux_thread(f"pause-{worker:02}")) for worker in range(len(planned))]
        process.stdin.write(b"go\n")
        process.stdin.flush()
        assert process.stdout.readline().strip() == b"done"
        assert process.wait(60) == 0
    bound = [int(mask) for mask in masks]
    assert len(set(bound)) == len(planned)
    assert set(bound) <= os.sched_getaffinity(0)


def test_missing_cpu_is_refused_in_one_line(windows: wine.Wine) -> None:
    done = windows.run("run", "imul1", "--cpus", "4000", "--seconds", "0.01")
    assert done.returncode == 2
    line = "schedlens-workloads: CPU 4000 is absent, offline or not allowed: "
    assert done.stderr.startswith(line)
    assert done.stderr.count("\n") == 1


def test_closed_gate_ends_the_run(windows: wine.Wine, tmp_path: Path) -> None:
    done = windows.run("run", "imul1", "--gate", "--out", str(tmp_path / "out"))
    assert (done.returncode, done.stdout.split()) == (130, ["ready"])
    assert list((tmp_path / "out").iterdir()) == []


def test_system_buffer_gives_the_siblings(windows: wine.Wine, tmp_path: Path) -> None:
    raw = tmp_path / "raw.bin"
    parsed = topology.from_json(windows.run("topology", "--raw", str(raw)).stdout)
    # The parser built for Linux reads the same from the same bytes.
    assert topology.from_buffer(raw).cpus == parsed.cpus
    machine = sysfs.read(allowed=[])
    online = [cpu for cpu in machine.cpus if cpu.online]
    if len(online) != len(machine.cpus) or len(parsed.cpus) != len(online):
        pytest.skip("Wine numbers the CPUs differently if some are offline")
    assert [cpu.core for cpu in parsed.cpus] == [cpu.core for cpu in online]
    assert {cpu.group_no for cpu in parsed.cpus} == set(range(-(-len(online) // 64)))


def test_system_snapshots_exist_at_both_edges(windows: wine.Wine) -> None:
    done = windows.run("observe", stdin="begin\nend\n")
    assert done.returncode == 0, done.stderr
    ready, *lines = done.stdout.splitlines()
    begin, end = (json.loads(line) for line in lines)
    assert ready == "ready"
    assert begin["mono_ns"] < end["mono_ns"]
    numbers = [cpu["cpu"] for cpu in begin["cpus"]]
    assert numbers == [cpu["cpu"] for cpu in end["cpus"]] == list(range(len(numbers)))
    for before, after in zip(begin["cpus"], end["cpus"], strict=True):
        # Linux itself corrects idle time downwards now and then.
        keys = ("user_ns", "system_ns", "irq_ns", "softirq_ns")
        assert all(0 <= before[key] <= after[key] for key in keys)
        assert before["steal_ns"] is None
    own = [row for row in begin["threads"] if row["name"] == "schedlens-workloads.exe"]
    assert len({row["pid"] for row in own}) == 1
    assert set(own[0]) == {
        "pid", "tid", "name", "state", "cpu", "user_ns", "system_ns", "voluntary", "involuntary",
        "cgroup", "cpus_allowed",
    }  # fmt: skip
    reported = end["reported"]
    assert [cpu["cpu"] for cpu in reported["cpus"]] == numbers
    # Wine has no such counter: then each value is null, with a reason.
    for key, path in (("processor_time_pct", "Time"), ("processor_utility_pct", "Utility")):
        unknown = [cpu[key] is None for cpu in reported["cpus"]]
        named = any(path in why or key in why for why in reported["missing"])
        assert all(unknown) == named
        assert all(unknown) or not any(unknown)


def test_end_of_a_process_is_waited_for(windows: wine.Wine) -> None:
    gated = subprocess.Popen(
        windows.command("run", "add1", "--gate"), stdin=subprocess.PIPE, stdout=subprocess.PIPE,
        env=windows.environment, text=True,
    )  # fmt: skip
    assert gated.stdout is not None
    assert gated.stdin is not None
    assert gated.stdout.readline() == "ready\n"
    seen = json.loads(windows.run("observe", stdin="begin\nend\n").stdout.splitlines()[1])
    own = {row["pid"] for row in seen["threads"] if row["name"] == "schedlens-workloads.exe"}
    # The other one is the observer itself, which has ended.
    waits = {
        pid: subprocess.Popen(
            windows.command("await", str(pid)), stdin=subprocess.PIPE, stdout=subprocess.PIPE,
            stderr=subprocess.PIPE, env=windows.environment, text=True,
        )
        for pid in own
    }  # fmt: skip
    running = {pid for pid, one in waits.items() if one.stdout and one.stdout.readline()}
    assert len(own) == 2
    assert len(running) == 1
    (waiting,) = (waits[pid] for pid in running)
    time.sleep(0.3)
    assert waiting.poll() is None
    gated.stdin.close()
    assert gated.wait(60) == 130
    assert waiting.wait(60) == 0
    (gone,) = (one for pid, one in waits.items() if pid not in running)
    _, said = gone.communicate(timeout=60)
    assert gone.returncode == 2
    assert said.startswith("schedlens-workloads: process ")


def test_collect_runs_the_windows_program_with_a_wpr_stand_in(
    windows: wine.Wine, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    # The recording starts at 0 of the clock, before everything measured here.
    stand_ins = StandIns(tmp_path / "stand-ins", header_only_etl(begin_ticks=0), (0, 0))
    for name, value in {**stand_ins.environment, **windows.environment}.items():
        monkeypatch.setenv(name, value)
    monkeypatch.setenv("PATH", stand_ins.environment["PATH"])
    program = stand_ins.bin / "windows-program"
    program.write_text(f'#!/bin/sh\nexec {shlex.join(windows.command())} "$@"\n')
    program.chmod(0o755)
    monkeypatch.setenv("SCHEDLENS_WORKLOADS", str(program))
    monkeypatch.setattr(operating_system, "name", lambda: "windows")
    monkeypatch.chdir(tmp_path)
    cpu = str(cpus(windows)[0])
    words = ["--workload", "sha256", "--threads", "1", "--cpus", cpu, "--seconds", "0.2"]
    assert cli.run(cli.group, ["collect", *words, "-o", "session"], name="schedlens") == 0
    step = json.loads(Path("session/sha256-pinned-t01-r1/step.json").read_text())
    workload = json.loads(Path("session/sha256-pinned-t01-r1/workload.json").read_text())
    worker = workload["workers"][0]
    # All by one clock: the snapshots enclose the measured interval.
    assert step["begin_mono_ns"] < worker["start_mono_ns"] < worker["end_mono_ns"]
    assert worker["end_mono_ns"] < step["end_mono_ns"]
    assert (step["throughput"]["unit"], workload["status"]) == ("bytes", "ok")
    assert len(step["reported"]["cpus"]) == len(
        json.loads(Path("session/session.json").read_text())["topology"]["cpus"]
    )
    begin, end = (
        json.loads(Path(f"session/sha256-pinned-t01-r1/{edge}.json").read_text())
        for edge in ("begin", "end")
    )
    assert begin["mono_ns"] == step["begin_mono_ns"]
    assert "reported" not in end
    assert [words[0] for words in stand_ins.calls_of("wpr")] == ["-start", "-stop"]


def test_program_tests_pass_on_windows_build(windows: wine.Wine) -> None:
    runner = f"CARGO_TARGET_{wine.TARGET.upper().replace('-', '_')}_RUNNER"
    said = wine.cargo("test", environment={**windows.environment, runner: str(wine.wine())})
    assert "os::windows::processors::tests::a_bound_thread_runs_where_it_is_bound ... ok" in said
    assert " 0 failed; 0 ignored;" in said


def test_command_and_its_children_are_bound_and_exit_code_is_returned(
    windows: wine.Wine,
) -> None:
    cpu = cpus(windows)[-1]
    program = "Z:" + str(windows.program).replace("/", "\\")
    bound = ["bind", "--cpu", str(cpu), "--", program]
    done = windows.run(*bound, "topology")
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout)["allowed"] == [cpu]
    # One more process in between: the affinity applies to everything that the command starts.
    done = windows.run(*bound, *bound[:3], "--", program, "topology")
    assert json.loads(done.stdout)["allowed"] == [cpu], done.stderr
    done = windows.run(*bound, "run", "imul11")
    assert (done.returncode, "no kernel" in done.stderr) == (2, True)
    done = windows.run("bind", "--cpu", "5000", "--", program, "list")
    assert done.returncode == 2
    assert "there is no CPU 5000" in done.stderr
    done = windows.run("bind", "--cpu", str(cpu), "--", "no-such-program")
    assert done.returncode == 2
    assert "no-such-program" in done.stderr
