"""Threads that Linux binds to a CPU: their names say so, and where they ran must agree."""

from __future__ import annotations

from pathlib import Path

import duckdb
import pytest
from loaded_recording import loaded

from schedlens.load import schema

MS = 1_000_000


def _switch(ms: int, cpu: int, before: tuple[str, int], after: tuple[str, int]) -> str:
    return (
        f" {before[0]} {before[1]} [{cpu:03}] {1 + ms / 1000:.9f}: sched:sched_switch: "
        f"prev_comm={before[0]} prev_pid={before[1]} prev_prio=120 prev_state=S ==> "
        f"next_comm={after[0]} next_pid={after[1]} next_prio=120\n"
    )


def test_thread_has_the_cpu_in_its_name_unless_it_ran_elsewhere(tmp_path: Path) -> None:
    text = tmp_path / "text"
    idle = [("swapper/0", 0), ("swapper/1", 0)]
    # pool/1 has the name of a bound thread, but ran on both CPUs.
    ran = [
        (0, ("ksoftirqd/0", 10)), (1, ("kworker/1:2", 11)), (0, ("kworker/u8:1", 12)),
        (1, ("rcuop/1", 13)), (0, ("pool/1", 14)), (1, ("pool/1", 14)), (1, ("program", 15)),
    ]  # fmt: skip
    lines = []
    for number, (cpu, thread) in enumerate(ran):
        lines.append(_switch(2 * number, cpu, idle[cpu], thread))
        lines.append(_switch(2 * number + 1, cpu, thread, idle[cpu]))
    text.write_text("".join(lines))
    with loaded(text, tmp_path) as con:
        assert con.execute(
            "SELECT thread.name, cpus, source FROM affinity JOIN thread USING (utid) ORDER BY tid"
        ).fetchall() == [
            ("ksoftirqd/0", [0], "kernel_thread"),
            ("kworker/1:2", [1], "kernel_thread"),
        ]


@pytest.mark.parametrize(
    ("source", "name", "cpu"),
    [
        ("perf", "migration/12", 12),
        ("perf", "kworker/3:1H", 3),
        ("perfetto", "kworker/0:2-events", 0),
        ("perf", "kworker/u16:2", None),
        ("perf", "rcuog/4", None),
        ("perf", "irq/24-nvme0q1", None),
        ("perf", None, None),
        # Programs on Windows may have any names.
        ("etw", "worker/3", None),
    ],
)
def test_name_says_the_cpu(source: str, name: str | None, cpu: int | None) -> None:
    with duckdb.connect() as con:
        schema.create(con)
        found = con.execute("SELECT kernel_bound_cpu(?, ?)", [source, name]).fetchall()
    assert found == [(cpu,)]


@pytest.mark.parametrize(
    ("source", "name", "cpus", "own"),
    [
        ("perf", "ksoftirqd/1", [1], True),
        ("perf", "ksoftirqd/1", [0, 1], False),
        ("trace_cmd", "irq/24-nvme0q1", [3], True),
        ("perf", "irq/9-acpi", [0, 1, 2, 3], True),
        ("perf", "render", [3], False),
        ("perf", None, [3], False),
        ("perf", "render", None, False),
        ("etw", "irq/24-nvme0q1", [3], False),
    ],
)
def test_affinity_that_linux_itself_gives_is_nobodys_choice(
    source: str, name: str | None, cpus: list[int] | None, own: bool
) -> None:
    with duckdb.connect() as con:
        schema.create(con)
        found = con.execute(
            "SELECT is_kernel_affinity(?, ?, ?::INTEGER[])", [source, name, cpus]
        ).fetchall()
    assert found == [(own,)]
