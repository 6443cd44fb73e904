"""What the scheduler of a recorded Linux knows: its clock, and the groups that share CPU time."""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from pathlib import PurePosixPath
from typing import TYPE_CHECKING, Any

from schedlens.machine import cpu_shares

if TYPE_CHECKING:
    import duckdb

# Shares of a cgroup or an autogroup whose weight is not recorded: the kernel's default.
DEFAULT_SHARES = 1024.0
# Each nice value changes the weight by this factor.
STEP = 1.25
# The slice of a fair thread on one CPU (Documentation/scheduler/sched-eevdf.rst); the kernel
# multiplies it by 1 + log2 of the CPUs, of 8 at most.
BASE_SLICE_NS = 700_000
DEFAULT_HZ = 250
# Without its own scheduling class, a kernel thread's parent is kthreadd.
_KTHREADD = 2
_DEADLINE, _FAIR = 0, 100


@dataclass(frozen=True)
class Group:
    """A cgroup or an autogroup; the first one is the root."""

    name: str
    parent: int | None
    shares: float = DEFAULT_SHARES
    quota_ns: int | None = None
    period_ns: int | None = None


@dataclass
class LinuxRules:
    """Rules of one machine; times in ns."""

    slice_ns: float
    tick_ns: int
    groups: list[Group] = field(default_factory=lambda: [Group("/", None)])
    of_thread: dict[int, int] = field(default_factory=dict)
    """Index of the group, by thread; the root for others."""
    round_robin: set[int] = field(default_factory=set)
    """Real-time threads that take turns with those of their priority."""
    background: set[int] = field(default_factory=set)
    """Threads of SCHED_IDLE, whose weight is not that of their nice value."""

    def has_quota(self, utid: int) -> bool:
        """Whether a quota limits a thread: that of its cgroup or of one that contains it."""
        place: int | None = self.of_thread.get(utid, 0)
        while place is not None:
            if self.groups[place].quota_ns is not None:
                return True
            place = self.groups[place].parent
        return False

    def packed(self, utids: list[int]) -> tuple[Any, ...]:
        """The rules as the extension takes them."""
        groups = [
            (
                group.parent,
                group.shares,
                (float(group.quota_ns), group.period_ns)
                if group.quota_ns and group.period_ns
                else None,
            )
            for group in self.groups
        ]
        threads = [
            (self.of_thread.get(utid, 0), utid in self.round_robin, utid in self.background)
            for utid in utids
        ]
        return self.slice_ns, self.tick_ns, groups, threads


def read(con: duckdb.DuckDBPyConnection, trace_id: int, cpus: int) -> LinuxRules:
    """The rules of a recording with so many CPUs."""
    settings = dict(
        con.execute("SELECT key, value FROM machine_setting WHERE trace_id = ?", [trace_id])
        .fetchall()
    )  # fmt: skip
    hz = str(settings.get("hz") or "")
    rate = int(hz) if hz.isdigit() and 50 <= int(hz) <= 10_000 else DEFAULT_HZ
    scale = 1 + min(cpus, 8).bit_length() - 1
    rules = LinuxRules(float(BASE_SLICE_NS * scale), 1_000_000_000 // rate)
    _cgroups(con, trace_id, rules, _pairs(settings.get("cpu_shares")))
    if settings.get("autogroup") == "1":
        known = _pairs(settings.get("autogroups"))
        _autogroups(con, trace_id, rules, settings.get("command_pid"), known)
    policies = dict(
        con.execute(
            "SELECT utid, policy FROM scheduling_policy(p_trace_id := $trace_id)",
            {"trace_id": trace_id},
        ).fetchall()
    )
    rules.round_robin = _round_robin(con, trace_id, policies)
    rules.background = {utid for utid, policy in policies.items() if policy == "idle"}
    return rules


def _pairs(text: str | None) -> dict[str, Any]:
    """The object of a setting; empty if there is none."""
    try:
        found = json.loads(text or "{}")
    except ValueError:
        return {}
    return found if isinstance(found, dict) else {}


def _cgroups(
    con: duckdb.DuckDBPyConnection, trace_id: int, rules: LinuxRules, shares: dict[str, Any]
) -> None:
    """The cgroups of threads, each after the one that contains it, with their quotas."""
    quotas = {
        name: (quota, period)
        for name, quota, period in con.execute(
            "SELECT cgroup, arg_max(quota_ns, ts), arg_max(period_ns, ts) FROM snapshot_cgroup "
            "WHERE trace_id = ? GROUP BY cgroup",
            [trace_id],
        ).fetchall()
    }
    places = {"/": 0}

    def place(path: PurePosixPath) -> int:
        name = str(path)
        if name not in places:
            parent = place(path.parent) if path.parent != path else 0
            quota, period = quotas.get(name, (None, None))
            places[name] = len(rules.groups)
            known = shares.get(name)
            own = float(known) if isinstance(known, int) and known > 1 else DEFAULT_SHARES
            rules.groups.append(Group(name, parent, own, quota, period))
        return places[name]

    for utid, cgroup in con.execute(
        "SELECT utid, arg_max(cgroup, ts) FROM thread_cgroup "
        "WHERE trace_id = ? AND utid IS NOT NULL GROUP BY utid ORDER BY utid",
        [trace_id],
    ).fetchall():
        rules.of_thread[utid] = place(PurePosixPath("/") / cgroup)


def _autogroups(
    con: duckdb.DuckDBPyConnection,
    trace_id: int,
    rules: LinuxRules,
    command: str | None,
    known: dict[str, Any],
) -> None:
    """The kernel makes a group of each session of processes in the root cgroup. Where a process
    ended before its session was read, it is in that of its parent; the command that `collect`
    started has one of its own. Without readings, each process below the first one has one, with its
    children."""
    rows = con.execute(
        # The last process of a group has its latest nice value.
        "SELECT upid, pid, parent_pid FROM process WHERE trace_id = ? ORDER BY upid",
        [trace_id],
    ).fetchall()
    parents = {pid: parent for _, pid, parent in rows}

    def session(pid: int) -> tuple[str, int] | None:
        """Name and nice value of the group of a process; None for threads of the kernel."""
        seen: set[int] = set()
        found = (f"session of {pid}", 0)
        while pid not in seen:
            seen.add(pid)
            parent = parents.get(pid)
            if _KTHREADD in {pid, parent}:
                return None
            found = (f"session of {pid}", 0)
            read = cpu_shares.autogroup(str(known.get(str(pid), "")))
            if read is not None:
                return read
            if str(pid) == command or parent in {0, 1, None}:
                break
            pid = parent
        return found

    sessions = {upid: session(pid) for upid, pid, _ in rows}
    nice = dict(found for found in sessions.values() if found is not None)
    places: dict[str, int] = {}
    for utid, upid in con.execute(
        "SELECT utid, upid FROM thread WHERE trace_id = ? AND NOT is_idle ORDER BY utid",
        [trace_id],
    ).fetchall():
        found = sessions.get(upid)
        if rules.of_thread.get(utid, 0) != 0 or found is None:
            continue
        name = found[0]
        if name not in places:
            places[name] = len(rules.groups)
            rules.groups.append(Group(name, 0, DEFAULT_SHARES * STEP ** -nice[name]))
        rules.of_thread[utid] = places[name]


def _round_robin(
    con: duckdb.DuckDBPyConnection, trace_id: int, policies: dict[int, str]
) -> set[int]:
    """Threads with the policy SCHED_RR; where it was not read, real-time threads that the next one
    of their priority took over from while they could run."""
    rows = con.execute(
        "SELECT DISTINCT prev_utid FROM context_switch WHERE trace_id = ? "
        "AND prev_priority = next_priority AND prev_priority >= ? AND prev_priority < ? "
        "AND prev_preempted",
        [trace_id, _DEADLINE, _FAIR],
    ).fetchall()
    took_turns = {utid for (utid,) in rows if utid not in policies}
    return took_turns | {utid for utid, policy in policies.items() if policy == "rr"}
