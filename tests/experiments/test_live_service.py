"""`collect --experiment smt-boost` with a service under load from outside: real and injected."""

from __future__ import annotations

import json
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import asdict
from pathlib import Path
from typing import Any

import experiment_session
import pytest
import served_requests
import sysfs_machine as fake
from conftest import command, needs_tracing
from judged import plain

from schedlens.errors import WorkloadError
from schedlens.experiments import smt_boost
from schedlens.load.step_file import Served
from schedlens.machine import knobs, topology
from schedlens.record import cells, load_report
from schedlens.record.load_report import Report

PROGRAM = [sys.executable, served_requests.__file__]
MS = 1_000_000


@contextmanager
def running(*words: str, program: str | None = None) -> Iterator[subprocess.Popen[bytes]]:
    process = subprocess.Popen([program or sys.executable, served_requests.__file__, *words])
    try:
        yield process
    finally:
        process.kill()
        process.wait()


def wait_for(condition: Callable[[], bool]) -> None:
    deadline = time.monotonic() + 60
    while not condition():
        assert time.monotonic() < deadline
        time.sleep(0.02)


def answered(counts: Path) -> int:
    with suppress(OSError):
        return int(json.loads(counts.read_text())["requests"])
    return 0


def analyzed(folder: Path) -> dict[str, Any]:
    done = command("analyze", str(folder), "--json", "--no-report", check=False)
    assert done.returncode in (0, 1), done.stderr
    [row] = json.loads(done.stdout)["experiment"]["smt-boost"]["cells"]
    return dict(row)


def unswitched() -> None:
    needs_tracing()
    if knobs.find()[0]:
        pytest.skip("this machine has the switches, and a test must not change them")


def grown_ns(folder: Path, table: str, value: Callable[[dict[str, Any]], int]) -> int:
    """Growth of a sum over the rows of a table between the snapshots."""
    begin, end = (
        sum(map(value, json.loads((folder / f"{edge}.json").read_text())[table]))
        for edge in ("begin", "end")
    )
    return int(end - begin)


def cpu_ns(folder: Path, pid: int) -> int:
    """Growth of the process's CPU time, as the kernel counts it."""
    return grown_ns(
        folder, "threads", lambda t: t["user_ns"] + t["system_ns"] if t["pid"] == pid else 0
    )


def stolen_ns(folder: Path) -> int:
    """Steal of all CPUs: a stolen CPU still runs its thread in the recording, while the thread's
    CPU time stops."""
    return grown_ns(folder, "cpus", lambda cpu: cpu["steal_ns"] or 0)


def agrees_with_the_kernel(folder: Path, pid: int, row: dict[str, Any]) -> None:
    """The recording and the kernel's own count of the CPU time of a service with one thread agree:
    2 ms for each request."""
    begin, end = (json.loads((folder / f"{edge}.json").read_text()) for edge in ("begin", "end"))
    took = end["mono_ns"] - begin["mono_ns"]
    # Threads are read before the first edge and behind the last one; the service runs meanwhile.
    outside_ns = sum(
        max(abs(edge["mono_ns"] - one["mono_ns"]) for one in edge["threads"] if one["pid"] == pid)
        for edge in (begin, end)
    )
    used, stolen = cpu_ns(folder, pid) / took, stolen_ns(folder) / took
    assert used - outside_ns / took - 0.02 <= row["service_cpus"] <= used + stolen + 0.02
    assert used > 0.05


@pytest.mark.alone
def test_running_service_is_measured_under_load_from_outside(tmp_path: Path) -> None:
    unswitched()
    port, counts, said = tmp_path / "port", tmp_path / "counts", tmp_path / "said"
    # Named by its link, so that no other program has this name.
    named = tmp_path / "sl-live-service"
    named.symlink_to(Path(sys.base_prefix) / "bin" / Path(sys.executable).resolve().name)
    folder = tmp_path / "session"
    with running("server", str(port), program=str(named)) as served, running(
        "load", str(port), str(counts)
    ):  # fmt: skip
        wait_for(lambda: answered(counts) > 0)
        command(
            "collect", "--experiment", "smt-boost", "--process", "sl-live-service",
            "--load-report", f"tee -a {said} < {counts}; echo >> {said}",
            "--seconds", "1", "--warm-up", "0.1", "--repeat", "1", "-o", str(folder),
        )  # fmt: skip
    step = folder / "service-as-found-r1"
    found = json.loads((step / "step.json").read_text())["served"]
    # Before the experiment, and before and after the interval.
    reports = [json.loads(line) for line in said.read_text().splitlines()]
    assert len(reports) == 3
    assert found["requests"] == reports[2]["requests"] - reports[1]["requests"]
    grown = dict(reports[2]["latency_ns"])
    for upper, count in reports[1]["latency_ns"]:
        grown[upper] -= count
    assert dict(found["latency"]) == {upper: count for upper, count in grown.items() if count}
    assert found["pids"] == [served.pid]
    row = analyzed(folder)
    assert (row["load"], row["rate_unknown"]) == ("service", None)
    assert row["per_s"] == pytest.approx(1e9 * found["requests"] / found["interval_ns"])
    agrees_with_the_kernel(step, served.pid, row)


@pytest.mark.alone
def test_command_serves_until_it_is_stopped(tmp_path: Path) -> None:
    unswitched()
    port, counts, folder = tmp_path / "port", tmp_path / "counts", tmp_path / "session"
    counts.write_text('{"requests": 0}')
    with running("load", str(port), str(counts)):
        command(
            "collect", "--experiment", "smt-boost", "--load-report", f"cat {counts}",
            "--seconds", "1", "--warm-up", "0.5", "--repeat", "1", "-o", str(folder),
            "--", *PROGRAM, "server", str(port),
        )  # fmt: skip
        step = json.loads((folder / "service-as-found-r1" / "step.json").read_text())
        # Stopped at the end of its cell.
        before = answered(counts)
        time.sleep(0.1)
        assert answered(counts) == before
    assert not Path(f"/proc/{step['pid']}").exists()
    row = analyzed(folder)
    assert row["requests"] == step["served"]["requests"]
    assert row["per_s"] == pytest.approx(1e9 * row["requests"] / step["served"]["interval_ns"])
    agrees_with_the_kernel(folder / "service-as-found-r1", step["pid"], row)


@pytest.mark.alone
def test_throughput_that_nobody_counts_is_unknown_with_the_reason(tmp_path: Path) -> None:
    unswitched()
    folder = tmp_path / "session"
    done = command(
        "collect", "--experiment", "smt-boost", "--seconds", "0.3", "--repeat", "1",
        "-o", str(folder), "--", *PROGRAM, "server", str(tmp_path / "port"),
    )  # fmt: skip
    assert "not measured here: requests of the service: name a command with" in done.stderr
    row = analyzed(folder)
    assert (row["load"], row["per_s"], row["requests"]) == ("command", None, None)
    assert row["repeats"] == 1
    assert row["rate_unknown"] == (
        "the command ran until it was stopped; no --load-report counts requests"
    )
    assert row["service_cpus"] > 0.01


@pytest.mark.alone
def test_service_that_ends_fails_its_cell(tmp_path: Path) -> None:
    unswitched()
    done = command(
        "collect", "--experiment", "smt-boost", "--load-report", "echo '{\"requests\": 1}'",
        "--seconds", "30", "--repeat", "1", "-o", str(tmp_path / "session"),
        "--", "sh", "-c", "exit 3", check=False,
    )  # fmt: skip
    assert done.returncode == 2
    assert "service-as-found-r1: failed: the service (process " in done.stderr
    assert ") ended with code 3" in done.stderr


@pytest.mark.parametrize(
    ("words", "why"),
    [
        (("--load-report", "x"), "--load-report requires --experiment smt-boost with"),
        (("--experiment", "smt-boost", "--load-report", "x"), "--load-report requires"),
        (("--experiment", "pairs", "--load-report", "x", "--", "true"), "--load-report requires"),
        (("--experiment", "pairs", "--pid", "1"), "--experiment pairs does not accept --pid"),
        (
            ("--experiment", "smt-boost", "--os", "windows", "--dry-run", "--process", "x"),
            "--experiment smt-boost accepts --process only on Linux",
        ),
        (
            ("--experiment", "smt-boost", "--pid", "1", "--load-report", "echo 1"),
            "--load-report: `requests` is not a number of requests",
        ),
        (
            ("--experiment", "smt-boost", "--pid", "1", "--load-report", "echo no >&2; exit 4"),
            "--load-report: the command exited with code 4: no",
        ),
    ],
)
def test_impossible_requests_are_refused_in_one_line(
    tmp_path: Path, words: tuple[str, ...], why: str
) -> None:
    done = command("collect", *words, cwd=tmp_path, check=False)
    assert done.returncode == 2
    assert why in done.stderr
    assert len(done.stderr.splitlines()) <= 1 or "Usage" in done.stderr
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    ("text", "why"),
    [
        (b"", "printed no JSON object"),
        (b"\xff\xfe", "printed no JSON object"),
        (b"[" * 100_000, "printed no JSON object"),
        (b"[1]", "`requests` is not a number of requests"),
        (b'{"requests": true}', "`requests` is not a number of requests"),
        (b'{"requests": -1}', "`requests` is not a number of requests"),
        (b'{"requests": 1e400}', "`requests` is not a number of requests"),
        (b'{"requests": 9223372036854775808}', "`requests` is not a number of requests"),
        (b'{"requests": 1, "latency_ns": 5}', "`latency_ns` is not a list of [ns, requests]"),
        (b'{"requests": 1, "latency_ns": [[1]]}', "`latency_ns` is not a list of [ns, requests]"),
        (b'{"requests": 1, "latency_ns": [["a", 1]]}', "`latency_ns` is not a list"),
        (b" " * (1 << 20) + b"1", "printed more than 1 MiB"),
    ],
)
def test_malformed_report_is_refused(text: bytes, why: str) -> None:
    with pytest.raises(WorkloadError) as refused:
        load_report.parsed(text, 0)
    assert str(refused.value).startswith(f"--load-report: {why}")


def test_growth_of_the_counts_is_what_was_served() -> None:
    before = Report(1_000, 100, {10: 60, 20: 40})
    assert load_report.growth(before, Report(3_000, 150, {10: 90, 20: 40, 40: 20})) == Served(
        50, 2_000, ((10, 30), (40, 20))
    )
    assert load_report.growth(before, Report(3_000, 150, None)) == Served(50, 2_000)
    restarted = Served(why="the counts of --load-report fell: whatever counts was restarted")
    assert load_report.growth(before, Report(3_000, 99, {10: 99, 20: 40})) == restarted
    assert load_report.growth(before, Report(3_000, 150, {10: 59, 20: 91})) == restarted
    assert load_report.growth(before, Report(3_000, 150, {10: 150})) == restarted


def test_states_of_a_service_are_compared_by_repeat_with_injected_counts(tmp_path: Path) -> None:
    """Boost +20 % of the throughput; SMT unknown in all repeats, because the counts fell."""
    root = tmp_path / "root"
    fake.ten_cores_twenty_threads().write(root)
    for name, text in (("smt/control", "on"), ("cpufreq/boost", "1")):
        path = root / "sys/devices/system/cpu" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(f"{text}\n")
    found, _ = knobs.find(root)
    steps = cells.shuffled(smt_boost.plan(found, (), 0.0, is_service=True), 6, 1)
    names = sorted({step.cell.name for step in steps if step.cell})
    assert names == [
        f"service-boost-{boost}-smt-{smt}" for boost in ("off", "on") for smt in ("off", "on")
    ]
    watts = {step.name: {"energy": {"package-0": 5.0}, "energy_ns": 100 * MS} for step in steps}
    folder = experiment_session.write(
        tmp_path / "session", topology.read(root), steps, {}, machine=watts
    )
    for step in steps:
        assert step.cell is not None
        served = Served(1_000 * step.repeat, 10**9, ((10 * MS, 1_000 * step.repeat),), None, (77,))
        if step.cell.facts.boost == "on":
            served = Served(1_200 * step.repeat, 10**9, ((8 * MS, 1_200 * step.repeat),), None)
        if step.cell.facts.smt == "on":
            served = Served(why="the counts of --load-report fell: whatever counts was restarted")
        file = folder / step.name / "step.json"
        file.write_text(json.dumps({**json.loads(file.read_text()), "served": asdict(served)}))
    with experiment_session.analyzed(folder) as con:
        rows = con.execute(
            "SELECT smt, boost, repeats, per_s, round(gain_pct, 6), round(gain_low_pct, 6), "
            "watts, watts_gain_pct, rate_unknown IS NULL FROM smt_boost"
        ).fetchall()
        tail = con.execute(
            "SELECT smt, boost, round(latency_gain_pct, 6) FROM smt_boost_latency "
            "WHERE percentile = 99"
        ).fetchall()
        [detail] = con.execute("SELECT detail FROM finding WHERE analyzer = 'smt_boost'").fetchall()
    assert rows == [
        ("off", "off", 6, 3500, 0, 0, 50, 0, True),
        ("off", "on", 6, 4200, 20, 20, 50, 0, True),
        ("on", "off", 6, None, None, None, 50, 0, False),
        ("on", "on", 6, None, None, None, 50, 0, False),
    ]
    assert tail == [("off", "off", 0), ("off", "on", -20)]
    assert "SMT off and boost on +20 %" in plain(detail[0])
