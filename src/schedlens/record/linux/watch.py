"""Reads what changes between the two snapshots of a step: affinities, policies and cgroups.

Snapshots show a thread's affinity and cgroup at two times. A thread that starts and is pinned
within the step (`taskset`), whose policy is set (`chrt`), or that moves into a cgroup with a quota,
needs readings in between. The kernel has no cheap event for these: the tracepoint of the system
call sched_setaffinity slows down every system call of every program (from 0.28 to 0.70 us in one
measurement), so it is recorded only on request (`--affinity-calls`).
"""

from __future__ import annotations

import os
import threading
import time
from pathlib import Path
from types import TracebackType
from typing import Any

from schedlens.machine import cgroups, cpu_list, cpu_shares
from schedlens.record.linux import snapshot

Row = dict[str, Any]
# CPUs that a thread may use, its cgroup, and its policy.
_Read = tuple[list[int] | None, str | None, str | None]

# How often to look for new processes.
INTERVAL_S = 0.025
# A new thread is often pinned right after its start: read it again after this part of its age,
# until it is as old as YOUNG_S.
AGE_PART = 0.5
YOUNG_S = 0.5
# How often to read everything else, but never using more than 2 % of a CPU: new threads of known
# processes, cgroups, and this many of the known threads in turn.
ALL_INTERVAL_S = 0.1
COST = 50
OLD_AT_ONCE = 40
_KERNEL_PARENT = 2


class Watch:
    """Reads /proc and the cgroups in its own thread, from `start` to `stop`."""

    def __init__(self, begin: Row, command: int | None = None, proc: Path = Path("/proc")) -> None:
        """`begin` is the snapshot at the start of the step; only differences to it are kept.

        `command` is the process that becomes the recorded command afterwards, and may then set its
        affinity and policy as a new one does (`taskset`, `chrt`).
        """
        self._proc = os.fspath(proc)
        self._threads: dict[int, _Thread] = {}
        self._masks: dict[str, list[int]] = {}
        self._rows: list[Row] = []
        for row in begin["threads"]:
            known = (row["cpus_allowed"], row["cgroup"], row["policy"])
            thread = _Thread(row["pid"], begin["mono_ns"], known)
            self._threads[row["tid"]] = thread
        self._groups: dict[str, Row] = {}
        self._shares: dict[str, int] = {}
        self._autogroups: dict[str, str] = {}
        try:
            text = (proc / "self/mountinfo").read_text("utf-8", "replace")
        except OSError:
            text = ""
        self._hierarchies = cgroups.mounts(text)
        now = time.monotonic_ns()
        self._young = {
            tid: thread for tid, thread in self._threads.items() if thread.pid == command
        }
        for thread in self._young.values():
            thread.born_ns = thread.next_ns = now
        self._pids = {row["pid"] for row in begin["threads"]}
        self._kernel: set[int] = set()
        self._turn: list[int] = []
        self._done = threading.Event()
        self._reader = threading.Thread(target=self._run, name="watch", daemon=True)

    def __enter__(self) -> Watch:
        self._reader.start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._done.set()
        self._reader.join()
        self._turn = []
        self._read_new()
        self._read_all(every=True)

    def found(self) -> Row:
        """The object of watch.json; valid only after the end.

        `threads`: readings that differ from the previous one, whose time is `since_mono_ns` (None
        if there is none); `cgroups`: the last reading of each cgroup, `ended` if it did not exist
        at the end. `shares` of these cgroups, and `autogroups` of new processes, as in snapshots.
        """
        return {
            "threads": self._rows,
            "cgroups": list(self._groups.values()),
            "shares": self._shares,
            "autogroups": self._autogroups,
        }

    def _run(self) -> None:
        all_at = 0.0
        while not self._done.wait(INTERVAL_S):
            self._read_new()
            if time.monotonic() >= all_at:
                begin = time.thread_time()
                self._read_all()
                spent = time.thread_time() - begin
                all_at = time.monotonic() + max(ALL_INTERVAL_S, COST * spent)

    def _read_new(self) -> None:
        """Reads the threads of new processes, and young threads again."""
        now = time.monotonic_ns()
        pids = set(_numbers(self._proc))
        for pid in pids - self._pids:
            self._add_threads(pid, now)
        self._pids = pids
        for tid, thread in list(self._young.items()):
            if thread.pid not in pids or now - thread.born_ns > YOUNG_S * 1e9:
                del self._young[tid]
            elif now >= thread.next_ns:
                self._look(tid, thread)
                thread.next_ns = now + int(AGE_PART * (now - thread.born_ns))

    def _read_all(self, *, every: bool = False) -> None:
        now = time.monotonic_ns()
        present: set[int] = set()
        for pid in self._pids:
            present |= {pid} if pid in self._kernel else self._add_threads(pid, now)
        for tid in self._threads.keys() - present:
            del self._threads[tid]
        self._turn = [tid for tid in self._turn if tid in present] or sorted(present - self._kernel)
        turn = len(self._turn) if every else OLD_AT_ONCE
        for tid in self._turn[:turn]:
            if tid in self._threads:
                self._look(tid, self._threads[tid])
        self._turn = self._turn[turn:]
        used = {thread.read[1] for thread in self._threads.values() if thread.read[1] is not None}
        # Threads that came and went may have left their cgroup behind.
        wanted = self._groups if every else cgroups.with_ancestors(used)
        for cgroup in list(wanted):
            row = cgroups.read(cgroup, self._hierarchies)
            if cgroups.was_readable(row):
                self._groups[cgroup] = {**row, "mono_ns": time.monotonic_ns(), "ended": False}
                shares = cpu_shares.of_cgroup(cgroup, self._hierarchies)
                if shares is not None:
                    self._shares[cgroup] = shares
            elif cgroup in self._groups:
                # The last reading is a lower bound of its usage and throttling.
                self._groups[cgroup] = {**self._groups[cgroup], "ended": True}

    def _add_threads(self, pid: int, now: int) -> set[int]:
        """Finds the threads of a process and reads the new ones."""
        tids = set(_numbers(f"{self._proc}/{pid}/task"))
        for tid in tids:
            known = self._threads.get(tid)
            if known is None or known.pid != pid:
                self._threads[tid] = self._young[tid] = thread = _Thread(pid)
                thread.born_ns = thread.next_ns = now
                self._look(tid, thread)
        return tids

    def _look(self, tid: int, thread: _Thread) -> None:
        folder = f"{self._proc}/{thread.pid}/task/{tid}"
        if tid == thread.pid and tid not in self._kernel:
            # A program may weigh its autogroup right after its start.
            group = cpu_shares.autogroup_of(tid, self._proc)
            if group is not None:
                self._autogroups[str(tid)] = group
        try:
            status = _text(f"{folder}/status")
            cgroup = cgroups.of_thread(_text(f"{folder}/cgroup"))
            policy = snapshot.policy_of(_text(f"{folder}/stat"))
        except OSError:
            return
        now = time.monotonic_ns()
        _, found, rest = status.partition("Cpus_allowed_list:")
        text = rest.partition("\n")[0].strip()
        if found and text not in self._masks:
            self._masks[text] = cpu_list.parse(text)
        cpus = self._masks[text] if found else None
        if f"\nPPid:\t{_KERNEL_PARENT}\n" in status:
            self._kernel.add(thread.pid)
        read = (cpus, cgroup, policy)
        if thread.since_ns is None or read != thread.read:
            self._rows.append(
                {
                    "pid": thread.pid,
                    "tid": tid,
                    "since_mono_ns": thread.since_ns,
                    "mono_ns": now,
                    "cpus_allowed": cpus,
                    "cgroup": cgroup,
                    "policy": policy,
                }
            )
        thread.since_ns, thread.read = now, read


class _Thread:
    """The last reading of a thread; `since_ns` is its time, None before the first."""

    def __init__(
        self,
        pid: int,
        since_ns: int | None = None,
        read: _Read = (None, None, None),
    ) -> None:
        self.pid = pid
        self.since_ns = since_ns
        self.read = read
        self.born_ns = 0
        self.next_ns = 0


def _numbers(folder: str) -> list[int]:
    try:
        return [int(name) for name in os.listdir(folder) if name.isdigit()]  # noqa: PTH208
    except OSError:
        return []


def _text(path: str) -> str:
    # One open and one read: Path.read_text takes three times as long, for thousands of files.
    handle = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    try:
        return os.read(handle, 65536).decode("utf-8", "replace")
    finally:
        os.close(handle)
