"""What the host and the system count for a run: steal time, cgroup quotas. Times in ns."""

from __future__ import annotations

import random
from collections import defaultdict
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

from schedlens.simulate.scheduler import Simulation
from schedlens.simulate.script import Run, Script, SleepUntil
from schedlens.simulate.thread import Process, Thread

Row = dict[str, Any]

MS = 1_000_000
# Counted from the machine's start until the run begins.
UP_NS = 86_400 * 1_000_000_000


@dataclass
class Quota:
    """A cgroup of one process that may use `quota_ns` of CPU time in each period."""

    cgroup: str
    process: Process
    quota_ns: int
    period_ns: int
    period: int = -1
    used_ns: int = 0
    held_ns: int = 0
    """Time in which its threads were throttled, summed over them."""
    held_periods: set[int] = field(default_factory=set)

    def run(self, thread: Thread, work_ns: float) -> Script:
        """Work of one of its threads, throttled once the quota is used up."""
        before = thread.now_ns
        yield Run(work_ns)
        if thread.now_ns // self.period_ns != self.period:
            self.period, self.used_ns = thread.now_ns // self.period_ns, 0
        self.used_ns += thread.now_ns - before
        if self.used_ns >= self.quota_ns:
            until = (self.period + 1) * self.period_ns
            self.held_ns += until - thread.now_ns
            self.held_periods.add(self.period)
            yield SleepUntil(until)


@dataclass
class Host:
    """Snapshots at both ends of a run, if there are any."""

    has_snapshots: bool = False
    stolen_pct: dict[int, float] = field(default_factory=dict)
    quotas: list[Quota] = field(default_factory=list)
    unread: set[int] = field(default_factory=set)
    """CPUs that the second snapshot lacks."""

    def draw(self, simulation: Simulation, chance: random.Random) -> None:
        """Snapshots of a host that takes little time, and that may lack a CPU."""
        self.has_snapshots = True
        cpus = range(len(simulation.machine.cpus))
        if chance.random() < 0.5:
            self.stolen_pct.update({cpu: chance.uniform(0.0, 0.06) for cpu in cpus})
        if chance.random() < 0.3:
            self.unread.add(chance.choice(cpus))

    def stolen(self) -> dict[int, float]:
        """Percent of the run stolen from each CPU, for CPUs in both snapshots."""
        return {cpu: pct for cpu, pct in self.stolen_pct.items() if cpu not in self.unread}

    def held(self, simulation: Simulation) -> frozenset[int]:
        """Threads of cgroups whose quota was used up."""
        limited = {quota.process for quota in self.quotas if quota.held_ns}
        return frozenset(thread.tid for thread in simulation.threads if thread.process in limited)

    def tables(self, simulation: Simulation) -> dict[str, list[Row]]:
        """Rows of the snapshots, by table."""
        if not self.has_snapshots:
            return {}
        return {
            "snapshot_cpu": list(self._cpus(simulation)),
            "snapshot_cgroup": list(self._cgroups(simulation)),
            "snapshot_thread": list(self._threads(simulation)),
        }

    def _cpus(self, simulation: Simulation) -> Iterator[Row]:
        window = simulation.now
        ran: dict[int, int] = defaultdict(int)
        for slice_ in simulation.truth.slices:
            ran[slice_.cpu] += slice_.end - slice_.start
        for cpu in range(len(simulation.machine.cpus)):
            steal = round(self.stolen_pct.get(cpu, 0.0) * window / 100)
            counted = {"user_ns": ran[cpu], "idle_ns": window - ran[cpu], "steal_ns": steal}
            for edge, ts in (("begin", 0), ("end", window)):
                if edge == "end" and cpu in self.unread:
                    continue
                grown = {name: UP_NS + (edge == "end") * ns for name, ns in counted.items()}
                rest = {"system_ns": UP_NS, "irq_ns": UP_NS, "softirq_ns": UP_NS}
                yield {"ts": ts, "edge": edge, "cpu": cpu, **grown, **rest}

    def _cgroups(self, simulation: Simulation) -> Iterator[Row]:
        owner = {thread.tid: thread.process for thread in simulation.threads}
        used: dict[Process, int] = defaultdict(int)
        for slice_ in simulation.truth.slices:
            used[owner[slice_.tid]] += slice_.end - slice_.start
        for quota in self.quotas:
            for edge, ts in (("begin", 0), ("end", simulation.now)):
                grows = edge == "end"
                yield {
                    "ts": ts,
                    "edge": edge,
                    "cgroup": quota.cgroup,
                    "usage_ns": UP_NS + grows * used[quota.process],
                    "throttled_ns": UP_NS + grows * quota.held_ns,
                    "nr_throttled": 1000 + grows * len(quota.held_periods),
                    "quota_ns": quota.quota_ns,
                    "period_ns": quota.period_ns,
                }

    def _threads(self, simulation: Simulation) -> Iterator[Row]:
        width = len(simulation.machine.cpus)
        cgroups = {quota.process: quota.cgroup for quota in self.quotas}
        for number, thread in enumerate(simulation.threads):
            if thread.process in cgroups:
                for edge, ts in (("begin", 0), ("end", simulation.now)):
                    yield {
                        "ts": ts,
                        "edge": edge,
                        "utid": (1 << 32) + width + number,
                        "tid": thread.tid,
                        "pid": thread.process.pid,
                        "name": thread.name,
                        "cgroup": cgroups[thread.process],
                    }
