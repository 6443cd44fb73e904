"""Programs with a scheduling fault, for recordings on a real Linux: `linux_faults.py FAULT`."""

from __future__ import annotations

import ctypes
import os
import sys
import time
from pathlib import Path

SECONDS = 1.2
PR_SET_NAME = 15


def named(name: str) -> None:
    """Names the calling process in its recording."""
    ctypes.CDLL(None).prctl(PR_SET_NAME, name.encode(), 0, 0, 0)


def spin(seconds: float) -> None:
    """Computes without end."""
    until = time.monotonic() + seconds
    while time.monotonic() < until:
        pass


def crowd(name: str = "crowd", folder: str | None = None, until: float | None = None) -> None:
    """Three busy processes of this name for each CPU, in the cgroup of the given folder."""
    if folder:
        (Path(folder) / "cgroup.procs").write_text(str(os.getpid()), encoding="ascii")
    children = []
    # All end at the same time, also one that is forked late because its parent waited for a CPU.
    until = until or time.monotonic() + SECONDS
    for _ in range(3 * (os.cpu_count() or 1)):
        child = os.fork()
        if not child:
            named(name)
            spin(until - time.monotonic())
            os._exit(0)
        children.append(child)
    for child in children:
        os.waitpid(child, 0)


def crowds(*names_and_folders: str) -> None:
    """Several crowds that end at the same time: each has a name and the folder of its cgroup."""
    until = time.monotonic() + SECONDS
    children = []
    for name, folder in zip(names_and_folders[::2], names_and_folders[1::2], strict=True):
        child = os.fork()
        if not child:
            crowd(name, folder, until)
            os._exit(0)
        children.append(child)
    for child in children:
        os.waitpid(child, 0)


def one() -> None:
    """A busy process."""
    named("one")
    spin(SECONDS)


def background() -> None:
    """Three processes and one of lower priority on two CPUs: prints that one's clocks.

    At any time one of the three is ready, or runs on the other CPU with another one ready.
    """
    cpus = set(sorted(os.sched_getaffinity(0))[:2])
    children = []
    for name, nice in (("urgent", 0), ("urgent", 0), ("urgent", 0), ("background", 5)):
        child = os.fork()
        if not child:
            named(name)
            os.sched_setaffinity(0, cpus)
            os.setpriority(os.PRIO_PROCESS, 0, nice)
            spin(SECONDS)
            if name == "background":
                print(f"background {time.process_time_ns()}", flush=True)
            os._exit(0)
        children.append(child)
    for child in children:
        os.waitpid(child, 0)


def limited(folder: str) -> None:
    """A busy process in the cgroup of the given folder, until it is ended."""
    named("limited")
    (Path(folder) / "cgroup.procs").write_text(str(os.getpid()), encoding="ascii")
    print("ready", flush=True)
    spin(60)


def quota(folder: str, *, keep: bool) -> None:
    """Creates a cgroup, starts two busy processes in it, and removes it unless `keep`.

    5 ms of each 100 ms: the processes are throttled for the rest.
    """
    group = Path(folder)
    group.mkdir()
    if (group / "cpu.cfs_quota_us").exists():
        (group / "cpu.cfs_period_us").write_text("100000", encoding="ascii")
        (group / "cpu.cfs_quota_us").write_text("5000", encoding="ascii")
    else:
        (group / "cpu.max").write_text("5000 100000", encoding="ascii")
    children = []
    for _ in range(2):
        child = os.fork()
        if not child:
            named("limited")
            # It enters the cgroup while it runs, as a container's first process does.
            spin(0.05)
            (group / "cgroup.procs").write_text(str(os.getpid()), encoding="ascii")
            spin(SECONDS)
            os._exit(0)
        children.append(child)
    for child in children:
        os.waitpid(child, 0)
    if not keep:
        group.rmdir()


def hog() -> None:
    """Two processes of high priority and one of the lowest, all on one CPU.

    For each, prints what its clocks show from the moment when all are ready to its end: its name,
    the elapsed time, and its run time. None of them ever waits.
    """
    cpu = min(os.sched_getaffinity(0))
    ready = os.pipe()
    # A pipe each: the kernel wakes one reader of a pipe, which wakes the next when it has run.
    starts, children = [], []
    for name, nice in (("hog", -15), ("hog", -15), ("starved", 19)):
        started = os.pipe()
        starts.append(started[1])
        child = os.fork()
        if not child:
            named(name)
            os.sched_setaffinity(0, {cpu})
            os.setpriority(os.PRIO_PROCESS, 0, nice)
            os.write(ready[1], b".")
            ran = time.process_time_ns()
            begin = int.from_bytes(os.read(started[0], 8), "little")
            spin(SECONDS - (time.monotonic_ns() - begin) / 1e9)
            ran, passed = time.process_time_ns() - ran, time.monotonic_ns() - begin
            os.write(1, f"{name} {passed} {ran}\n".encode())
            os._exit(0)
        children.append(child)
    for _ in children:
        os.read(ready[0], 1)
    # The starved one starts its own clock late: the parent's clock counts for all.
    now = time.monotonic_ns().to_bytes(8, "little")
    for start in reversed(starts):
        os.write(start, now)
    for child in children:
        os.waitpid(child, 0)


def bursts(cpu: int) -> None:
    """A real-time thread that takes a CPU for 40 ms of each 400 ms, until it is ended."""
    named("frame-hog")
    os.sched_setaffinity(0, {cpu})
    try:
        os.sched_setscheduler(0, os.SCHED_FIFO, os.sched_param(1))
    except OSError:
        print("refused", flush=True)
        return
    print("ready", flush=True)
    while True:
        spin(0.04)
        time.sleep(0.36)


if __name__ == "__main__":
    fault = sys.argv[1]
    if fault == "bursts":
        bursts(int(sys.argv[2]))
    elif fault in ("quota", "quota-gone"):
        quota(sys.argv[2], keep=fault == "quota")
    elif fault == "limited":
        limited(sys.argv[2])
    elif fault == "crowds":
        crowds(*sys.argv[2:])
    else:
        {"background": background, "crowd": crowd, "hog": hog, "one": one}[fault]()
