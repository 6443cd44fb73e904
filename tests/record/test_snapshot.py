"""Snapshots: rows from the kernel's texts, and this machine's own against second readings."""

from __future__ import annotations

import os
import subprocess
import sys
import threading
import time
from pathlib import Path

import pytest

from schedlens.machine import cgroups, settings
from schedlens.record.linux import runner, snapshot

pytestmark = pytest.mark.records

STAT = b"""cpu  100 20 30 4000 50 6 7 8 9 10
cpu0 60 15 20 2000 25 3 4 5 6 7
cpu12 40 5 10 2000 25 3 3 3 3 3
intr 1 2 3
ctxt 77
"""


def test_cpu_rows_are_ticks_in_ns() -> None:
    assert snapshot.cpu_rows(STAT, 100) == [
        {
            "cpu": 0,
            "user_ns": 750_000_000,
            "system_ns": 200_000_000,
            "idle_ns": 20_250_000_000,
            "irq_ns": 30_000_000,
            "softirq_ns": 40_000_000,
            "steal_ns": 50_000_000,
        },
        {
            "cpu": 12,
            "user_ns": 450_000_000,
            "system_ns": 100_000_000,
            "idle_ns": 20_250_000_000,
            "irq_ns": 30_000_000,
            "softirq_ns": 30_000_000,
            "steal_ns": 30_000_000,
        },
    ]


def test_columns_that_a_kernel_lacks_are_unknown() -> None:
    (row,) = snapshot.cpu_rows(b"cpu0 1 2 3 4\n", 100)
    assert row["idle_ns"] == 40_000_000
    assert (row["irq_ns"], row["softirq_ns"], row["steal_ns"]) == (None, None, None)


# Name `a) R (b`, state S, utime 30 and stime 10 ticks, last on CPU 5.
THREAD = (
    b"77 (a) R (b) S 1 77 77 0 -1 4194304 1 0 0 0 30 10 0 0 20 0 1 0 5 6 7 "
    b"18446744073709551615 1 1 0 0 0 0 0 0 0 0 0 0 17 5 0 0 0 0 0\n"
)
STATUS = (
    b"Name:\ta) R (b\nCpus_allowed:\tff\nCpus_allowed_list:\t0-2,7\nMems_allowed:\t1\n"
    b"Mems_allowed_list:\t0\nvoluntary_ctxt_switches:\t12\nnonvoluntary_ctxt_switches:\t3\n"
)


def test_thread_name_with_parentheses_is_read() -> None:
    row = snapshot.thread_row(THREAD, STATUS, None, 10_000_000, {})
    assert row == {
        "name": "a) R (b",
        "state": "S",
        "cpu": 5,
        "policy": "other",
        "user_ns": 300_000_000,
        "system_ns": 100_000_000,
        "voluntary": 12,
        "involuntary": 3,
        "cpus_allowed": [0, 1, 2, 7],
    }


@pytest.mark.parametrize(("number", "name"), [(5, "idle"), (2, "rr"), (7, "ext"), (4, None)])
def test_policy_has_the_name_of_its_number(number: int, name: str | None) -> None:
    stat = THREAD.replace(b" 17 5 0 0 ", f" 17 5 0 {number} ".encode())
    assert snapshot.thread_row(stat, STATUS, None, 10_000_000, {})["policy"] == name
    assert snapshot.policy_of(stat.decode()) == name


def test_schedstat_gives_run_time_in_ns() -> None:
    row = snapshot.thread_row(THREAD, STATUS, b"404000001 5 6\n", 10_000_000, {})
    assert row["system_ns"] == 404000001 * 10 // 40
    assert row["user_ns"] + row["system_ns"] == 404000001


def test_thread_younger_than_a_tick_counts_as_user_time() -> None:
    young = THREAD.replace(b" 30 10 0 0 20", b" 0 0 0 0 20")
    row = snapshot.thread_row(young, STATUS, b"123456 0 1\n", 10_000_000, {})
    assert (row["user_ns"], row["system_ns"]) == (123456, 0)


def spin(seconds: float) -> float:
    """Uses the CPU for this long; returns the CPU time used."""
    before = time.thread_time()
    while time.thread_time() - before < seconds:
        pass
    return time.thread_time() - before


def mine(taken: snapshot.Row) -> snapshot.Row:
    rows: list[snapshot.Row] = [
        row for row in taken["threads"] if row["tid"] == threading.get_native_id()
    ]
    (row,) = rows
    return row


@pytest.mark.skipif(not Path("/proc/self/stat").exists(), reason="no /proc here")
def test_run_time_of_busy_thread_matches_its_clock() -> None:
    begin = mine(snapshot.take("begin"))
    before = time.thread_time_ns()
    spin(0.2)
    used_ns = time.thread_time_ns() - before
    end = mine(snapshot.take("end"))
    grown = end["user_ns"] + end["system_ns"] - begin["user_ns"] - begin["system_ns"]
    # The snapshots themselves take a few ms, and the counter of a running thread may lag a tick.
    assert used_ns - 12_000_000 <= grown <= used_ns + 200_000_000
    assert end["pid"] == os.getpid()
    assert end["state"] == "R"
    assert end["cpus_allowed"] == sorted(os.sched_getaffinity(0))


@pytest.mark.skipif(not Path("/proc/self/stat").exists(), reason="no /proc here")
def test_this_machine_has_plausible_cpu_rows() -> None:
    earliest = time.clock_gettime_ns(time.CLOCK_MONOTONIC)
    first = snapshot.take("begin")
    begin = time.clock_gettime_ns(time.CLOCK_MONOTONIC)
    time.sleep(2)
    again = time.clock_gettime_ns(time.CLOCK_MONOTONIC)
    taken = snapshot.take("end")
    now = time.clock_gettime_ns(time.CLOCK_MONOTONIC)
    assert earliest <= first["mono_ns"] <= begin
    assert again <= taken["mono_ns"] <= now
    before = {row["cpu"]: row for row in first["cpus"]}
    passed = taken["mono_ns"] - first["mono_ns"]
    online = os.sysconf("SC_NPROCESSORS_ONLN")
    assert len(taken["cpus"]) == online
    for row in taken["cpus"]:
        # The parts add up to the time between both, in ticks of 10 ms. Their sum since boot lacks
        # the time that a CPU was offline.
        total = sum(value - before[row["cpu"]][key] for key, value in row.items() if key != "cpu")
        assert total == pytest.approx(passed, rel=0.1)


@pytest.mark.skipif(not Path("/proc/self/stat").exists(), reason="no /proc here")
def test_vanished_threads_are_omitted() -> None:
    stop = threading.Event()

    def churn() -> None:
        while not stop.is_set():
            subprocess.run([sys.executable, "-S", "-c", ""], check=True)

    workers = [threading.Thread(target=churn) for _ in range(2)]
    for worker in workers:
        worker.start()
    try:
        for _ in range(15):
            taken = snapshot.take("begin")
            assert os.getpid() in {row["pid"] for row in taken["threads"]}
    finally:
        stop.set()
        for worker in workers:
            worker.join()


def test_steal_is_a_share_of_all_cpu_time() -> None:
    def edge(ns: int, *stolen: int | None) -> snapshot.Row:
        return {
            "mono_ns": ns,
            "cpus": [{"cpu": cpu, "steal_ns": value} for cpu, value in enumerate(stolen)],
        }

    assert runner.steal_pct(edge(0, 5, 7), edge(100, 15, 17)) == 10.0
    assert runner.steal_pct(edge(0, 5, None), edge(100, 15, None)) is None


MOUNTS_V1 = """23 1 0:20 / /sys rw - sysfs sysfs rw
30 23 0:26 / /sys/fs/cgroup/cpu rw,relatime - cgroup cgroup rw,cpu
31 23 0:27 / /sys/fs/cgroup/cpuacct rw,relatime shared:7 - cgroup cgroup rw,cpuacct
32 23 0:28 / /sys/fs/cgroup/un\\040ified rw,relatime - cgroup2 cgroup2 rw
"""
MOUNTS_V2 = "30 23 0:26 /pod /sys/fs/cgroup rw shared:4 - cgroup2 cgroup rw,nsdelegate\n"


def write(path: Path, text: str) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)


def test_cgroup_v1_is_read(tmp_path: Path) -> None:
    found = cgroups.mounts(MOUNTS_V1, tmp_path)
    assert [mount.folder.name for mount in found] == ["cpu", "cpuacct", "un ified"]
    base = tmp_path / "sys/fs/cgroup"
    write(base / "cpu/job/cpu.stat", "nr_periods 9\nnr_throttled 4\nthrottled_time 1234567\n")
    write(base / "cpu/job/cpu.cfs_quota_us", "20000\n")
    write(base / "cpu/job/cpu.cfs_period_us", "100000\n")
    write(base / "cpuacct/job/cpuacct.usage", "987654321\n")
    assert cgroups.read("/job", found) == {
        "cgroup": "/job",
        "usage_ns": 987654321,
        "throttled_ns": 1234567,
        "nr_throttled": 4,
        "quota_ns": 20_000_000,
        "period_ns": 100_000_000,
    }
    write(base / "cpu/job/cpu.cfs_quota_us", "-1\n")
    assert cgroups.read("/job", found)["quota_ns"] is None


def test_cgroup_v2_in_a_namespace_is_read(tmp_path: Path) -> None:
    found = cgroups.mounts(MOUNTS_V2, tmp_path)
    base = tmp_path / "sys/fs/cgroup"
    write(base / "a b/cpu.stat", "usage_usec 5\nuser_usec 3\nnr_throttled 2\nthrottled_usec 7\n")
    write(base / "a b/cpu.max", "20000 100000\n")
    assert cgroups.read("/pod/a b", found) == {
        "cgroup": "/pod/a b",
        "usage_ns": 5000,
        "throttled_ns": 7000,
        "nr_throttled": 2,
        "quota_ns": 20_000_000,
        "period_ns": 100_000_000,
    }
    write(base / "a b/cpu.max", "max 100000\n")
    assert cgroups.read("/pod/a b", found)["quota_ns"] is None
    assert cgroups.read("/gone", found)["usage_ns"] is None


def test_scheduling_cgroup_of_a_thread_is_found() -> None:
    both = "3:memory:/m\n2:cpu,cpuacct:/c:olon\n0::/u\n"
    assert cgroups.of_thread(both) == "/c:olon"
    assert cgroups.of_thread("3:memory:/m\n0::/u\n") == "/u"
    assert cgroups.of_thread("3:memory:/m\n") is None
    assert cgroups.with_ancestors(["/a/b", "/c"]) == ["/", "/a", "/a/b", "/c"]


def test_throttled_cgroup_shows_in_snapshots(tmp_path: Path) -> None:
    group = throttled_group()
    try:
        worker = subprocess.Popen([sys.executable, "-c", "while True: pass"])
        try:
            (group / "cgroup.procs").write_text(str(worker.pid))
            begin = snapshot.take("begin")
            first_ns = throttled_ns(group)
            # It wants a CPU and gets 2 % of one.
            deadline = time.monotonic() + 60
            while (least_ns := throttled_ns(group)) < first_ns + 200_000_000:
                assert time.monotonic() < deadline
                time.sleep(0.02)
            end = snapshot.take("end")
            most_ns = throttled_ns(group)
        finally:
            worker.kill()
            worker.wait()
        name = "/" + group.name
        before, after = (
            next(row for row in taken["cgroups"] if row["cgroup"] == name) for taken in (begin, end)
        )
        assert (after["quota_ns"], after["period_ns"]) == (2_000_000, 100_000_000)
        assert before["throttled_ns"] <= first_ns
        assert least_ns <= after["throttled_ns"] <= most_ns
        (row,) = [row for row in end["threads"] if row["tid"] == worker.pid]
        assert row["cgroup"] == name
    finally:
        for _ in range(50):
            try:
                group.rmdir()
                break
            except OSError:
                time.sleep(0.02)


def throttled_ns(group: Path) -> int:
    """How long the kernel says that a cgroup was throttled."""
    stat = dict(line.split() for line in (group / "cpu.stat").read_text().splitlines())
    return (
        int(stat["throttled_time"])
        if "throttled_time" in stat
        else (1000 * int(stat["throttled_usec"]))
    )


def throttled_group() -> Path:
    """A new cgroup with 2 % of a CPU, if this user may create one."""
    mounts = cgroups.mounts(Path("/proc/self/mountinfo").read_text())
    v1 = next((mount for mount in mounts if "cpu" in mount.controllers), None)
    mount = v1 or next((mount for mount in mounts if mount.unified), None)
    if mount is None:
        pytest.skip("no cgroups here")
    group = mount.folder / f"schedlens-test-{os.getpid()}"
    try:
        group.mkdir()
        if v1:
            (group / "cpu.cfs_period_us").write_text("100000")
            (group / "cpu.cfs_quota_us").write_text("2000")
        else:
            (group / "cpu.max").write_text("2000 100000")
    except OSError as error:
        if group.exists():
            group.rmdir()
        pytest.skip(f"cgroups cannot be made here: {error}")
    return group


def test_settings_match_system_files(tmp_path: Path) -> None:
    cpu = tmp_path / "sys/devices/system/cpu"
    write(cpu / "cpu0/cpufreq/scaling_governor", "performance\n")
    write(cpu / "cpu1/cpufreq/scaling_governor", "powersave\n")
    write(cpu / "intel_pstate/no_turbo", "1\n")
    write(cpu / "smt/control", "on\n")
    write(cpu / "isolated", "2-3\n")
    write(cpu / "nohz_full", "  (null)\n")
    write(cpu / "vulnerabilities/mds", "Mitigation: Clear CPU buffers\n")
    write(tmp_path / "sys/kernel/mm/transparent_hugepage/enabled", "always [madvise] never\n")
    write(tmp_path / "proc/sys/kernel/osrelease", "6.5.13-test\n")
    write(tmp_path / "boot/config-6.5.13-test", "# x\nCONFIG_HZ=1000\nCONFIG_PREEMPT=y\n")
    write(tmp_path / "proc/cpuinfo", "model name\t: A CPU\nflags\t\t: fpu hypervisor\n")
    found = settings.read(tmp_path)
    wanted = {
        "governor": "performance,powersave",
        "boost": "off",
        "smt_control": "on",
        "isolated_cpus": "2-3",
        "vulnerabilities.mds": "Mitigation: Clear CPU buffers",
        "transparent_hugepage": "madvise",
        "scheduler": "CFS",
        "hz": "1000",
        "preempt": "full",
        "cpu_model": "A CPU",
        "hypervisor": "yes",
        "clocksource": None,
        "nohz_full": "",
        "smt_active": None,
    }
    assert {key: found[key] for key in wanted} == wanted


def test_sched_ext_scheduler_is_named(tmp_path: Path) -> None:
    write(tmp_path / "sys/kernel/sched_ext/state", "enabled\n")
    write(tmp_path / "sys/kernel/sched_ext/root/ops", "lavd\n")
    write(tmp_path / "proc/sys/kernel/osrelease", "6.12.0\n")
    assert settings.read(tmp_path)["scheduler"] == "sched_ext lavd"
    write(tmp_path / "sys/kernel/sched_ext/state", "disabled\n")
    assert settings.read(tmp_path)["scheduler"] == "EEVDF"


def test_pressure_is_read_in_ns_and_what_is_missing_is_absent(tmp_path: Path) -> None:
    folder = tmp_path / "pressure"
    folder.mkdir()
    (folder / "io").write_text(
        "some avg10=0.00 avg60=0.14 avg300=0.07 total=311872590\n"
        "full avg10=0.00 avg60=0.14 avg300=0.07 total=86606953\n"
    )
    (folder / "cpu").write_text("some avg10=98.66 avg60=94.37 avg300=95.11 total=7\n")
    (folder / "memory").write_text("some total=not a number\n")
    assert snapshot.pressure_rows(tmp_path) == [
        {"resource": "cpu", "some_ns": 7_000, "full_ns": None},
        {"resource": "io", "some_ns": 311_872_590_000, "full_ns": 86_606_953_000},
    ]
