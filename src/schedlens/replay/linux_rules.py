"""What the scheduler of a recorded Linux knows: its clock, and the groups that share CPU time."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from schedlens.load import sharing_groups

if TYPE_CHECKING:
    import duckdb

# Shares of a cgroup or an autogroup whose weight is not recorded: the kernel's default.
DEFAULT_SHARES = 1024.0
# The slice of a fair thread on one CPU (Documentation/scheduler/sched-eevdf.rst); the kernel
# multiplies it by 1 + log2 of the CPUs, of 8 at most.
BASE_SLICE_NS = 700_000
DEFAULT_HZ = 250
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
    _groups(con, trace_id, rules)
    policies = dict(
        con.execute(
            "SELECT utid, policy FROM scheduling_policy(p_trace_id := $trace_id)",
            {"trace_id": trace_id},
        ).fetchall()
    )
    rules.round_robin = _round_robin(con, trace_id, policies)
    rules.background = {utid for utid, policy in policies.items() if policy == "idle"}
    return rules


def _groups(con: duckdb.DuckDBPyConnection, trace_id: int, rules: LinuxRules) -> None:
    """The groups that share CPU time, with their quotas."""
    quotas = {
        name: (quota, period)
        for name, quota, period in con.execute(
            "SELECT cgroup, arg_max(quota_ns, ts), arg_max(period_ns, ts) FROM snapshot_cgroup "
            "WHERE trace_id = ? GROUP BY cgroup",
            [trace_id],
        ).fetchall()
    }
    found = sharing_groups.read(con, trace_id)
    rules.of_thread = found.of_thread
    for group in found.groups[1:]:
        quota, period = quotas.get(group.name, (None, None))
        rules.groups.append(Group(group.name, group.parent, group.weight, quota, period))


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
