"""Drawn steps of a workload on two cores of two siblings, and what their cores did."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import duckdb
from drawn_trace import add

MS = 1_000_000
LENGTH = 100 * MS


@dataclass(frozen=True)
class Step:
    """A step on 2 cores x 2 siblings: CPUs 0, 1 share core 0; CPUs 2, 3 share core 2."""

    placements: Sequence[str]
    cpus: Sequence[int] | None
    per_batch: Sequence[int]
    workload: str = "sha256"
    repeat: int = 1
    status: str = "ok"
    threads: int | None = None


def fill(con: duckdb.DuckDBPyConnection, steps: Sequence[Step]) -> None:
    """Adds the steps as recordings 1, 2, ..., each of `LENGTH` ns."""
    for trace_id, step in enumerate(steps, start=1):
        threads = step.threads or len(step.per_batch)
        add(con, "trace", trace_id=trace_id, label=f"step-{trace_id}", source="perf",
            start_clock=0, clock_hz=1_000_000_000, first_ns=0, duration_ns=LENGTH,
            schema_version=1, tool_version="test")  # fmt: skip
        add(con, "analysis_window", trace_id=trace_id, start_ns=0, end_ns=LENGTH, kind="workers")
        add(con, "run", trace_id=trace_id, step=f"step-{trace_id}", workload=step.workload,
            variant=None, placement=step.placements[0], placements=list(step.placements),
            threads=threads, repeat=step.repeat, oversubscribed=threads > 4, recorded=True,
            start_ns=0, end_ns=LENGTH, status=step.status,
            planned_cpus=list(step.cpus) if step.cpus else None)  # fmt: skip
        for cpu in range(4):
            add(con, "cpu", trace_id=trace_id, cpu=cpu, core=cpu // 2 * 2, smt_index=cpu % 2,
                core_type="U", efficiency_class=0, online=True)  # fmt: skip
        for worker, work in enumerate(step.per_batch):
            add(con, "run_worker", trace_id=trace_id, worker=worker, tid=100 + worker,
                cpu=step.cpus[worker] if step.cpus else None, start_ns=0, end_ns=LENGTH,
                cpu_time_ns=LENGTH // 2, iterations=4 * work, bytes=4 * work)  # fmt: skip
            # Four batches of 1 ms; the fourth was interrupted and took 10 ms.
            for batch in range(4):
                start = batch * 20 * MS
                add(con, "run_sample", trace_id=trace_id, worker=worker, start_ns=start,
                    end_ns=start + (10 if batch == 3 else 1) * MS, cpu=0, end_cpu=0,
                    iterations=work, bytes=work)  # fmt: skip


def core_state(con: duckdb.DuckDBPyConnection, core: int, *pieces: tuple[int, int]) -> None:
    """Pieces (share of the window in percent, busy CPUs) of a core of step 1, in order."""
    now = 0
    for share, busy in pieces:
        dur = share * LENGTH // 100
        add(con, "core_state", trace_id=1, core=core, ts=now, dur=dur, online=2, unknown=0,
            busy=busy, threads=busy)  # fmt: skip
        now += dur
