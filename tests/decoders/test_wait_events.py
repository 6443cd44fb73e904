"""`collect --waits`: page faults and disk requests, recorded here while a program reads a disk."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from pathlib import Path
from typing import Any, NamedTuple

import disk_program
import duckdb
import pytest
from conftest import command, needs_tracing

from schedlens.record.changes import tracefs_mount

pytestmark = pytest.mark.records

PAGES = 100
# Everything is read from a disk whose requests the kernel counts in blocks of 512 bytes.
BLOCKS_OF_A_PAGE = disk_program.PAGE // 512


class Recorded(NamedTuple):
    trace: Path
    con: duckdb.DuckDBPyConnection
    printed: dict[str, int]


@pytest.fixture(scope="module")
def recorded(tmp_path_factory: pytest.TempPathFactory) -> Recorded:
    needs_tracing()
    mount = tracefs_mount()
    if mount is None or not (mount / "events/block/block_rq_issue").is_dir():
        pytest.skip("this kernel has no tracepoints of disk requests, or hides them")
    folder = tmp_path_factory.mktemp("waits")
    done = command(
        "collect", "--waits", "-o", str(folder / "session"), "--",
        sys.executable, disk_program.__file__, str(folder / "file"), str(PAGES),
    )  # fmt: skip
    printed = next(json.loads(line) for line in done.stdout.splitlines() if line[:1] == "{")
    if printed["blocks_faulted"] < PAGES * BLOCKS_OF_A_PAGE:
        pytest.skip("the temporary folder is not on a disk, or its cache could not be emptied")
    found = command("analyze", str(folder / "session"), "--no-report", check=False)
    assert found.returncode in (0, 1), found.stderr
    (trace,) = (folder / "session").glob("*/perf.data")
    database = folder / "session" / "analysis.duckdb"
    return Recorded(trace, duckdb.connect(str(database), read_only=True), printed)


def rows(recorded: Recorded, sql: str) -> list[tuple[Any, ...]]:
    return recorded.con.execute(sql).fetchall()


def test_every_request_and_fault_is_a_row(recorded: Recorded) -> None:
    text = subprocess.run(
        ["perf", "script", "-i", str(recorded.trace), "-F", "event"],
        capture_output=True, text=True, check=True,
    ).stdout  # fmt: skip
    found = dict(rows(recorded, "SELECT kind, count(*) FROM wait_event GROUP BY kind"))
    assert found == {
        "page_fault": text.count("page_fault_user:") + text.count("page_fault_kernel:"),
        "disk_issue": text.count("block_rq_issue:"),
        "disk_done": text.count("block_rq_complete:"),
    }
    kinds = "kind IN ('disk_requests', 'page_faults', 'pressure')"
    assert rows(recorded, f"SELECT bool_and(recorded) FROM recorded_kind WHERE {kinds}") == [
        (True,)
    ]


OWN = "utid IN (SELECT utid FROM command_thread)"


def pairs_of_perf(trace: Path) -> int:
    """The requests whose end perf prints, which is the next event of their place on the disk."""
    text = subprocess.run(
        ["perf", "script", "-i", str(trace), "-F", "event,trace"],
        capture_output=True, text=True, check=True,
    ).stdout  # fmt: skip
    event = re.compile(r"block_rq_(issue|complete): (\d+,\d+) .*\) (\d+) \+ \d+")
    open_at: set[tuple[str, str]] = set()
    pairs = 0
    for what, device, sector in event.findall(text):
        if what == "issue":
            open_at.add((device, sector))
        elif (device, sector) in open_at:
            open_at.remove((device, sector))
            pairs += 1
    return pairs


def test_requests_are_paired_as_in_the_text_of_perf(recorded: Recorded) -> None:
    # The kernel misses an event now and then, and the last requests end after the recording.
    everything = "disk_request(p_from_ns := 0, p_to_ns := 1000000000000)"
    found = rows(recorded, f"SELECT count(dur_ns) FROM {everything}")
    assert found == [(pairs_of_perf(recorded.trace),)]


def test_requests_of_the_program_are_complete(recorded: Recorded) -> None:
    page = f"{OWN} AND bytes = {disk_program.PAGE}"
    [(requests, done, shortest)] = rows(
        recorded, f"SELECT count(*), count(dur_ns), min(dur_ns) FROM disk_request WHERE {page}"
    )
    # One request for each page that was read and one for each that was mapped.
    assert requests >= 2 * PAGES
    assert done >= 0.95 * requests
    assert shortest > 0


def test_waits_for_pages_and_for_reads_are_distinguished(recorded: Recorded) -> None:
    waits = dict(rows(recorded, f"SELECT cause, waits FROM wait_cause WHERE {OWN}"))
    printed = recorded.printed
    assert printed["major_faults"] >= PAGES
    # A disk may answer before the thread has left its CPU: the kernel counts the waits.
    assert 0.9 * printed["waits_in_faults"] <= waits["page_fault"], (waits, printed)
    assert waits["page_fault"] <= 1.1 * printed["major_faults"], (waits, printed)
    assert waits["disk"] >= 0.9 * printed["waits_in_reads"], (waits, printed)


def test_pressure_of_the_step_is_read(recorded: Recorded) -> None:
    found = rows(recorded, "SELECT resource, some_ns, full_ns, step_ns, some_pct FROM pressure")
    if not Path("/proc/pressure").is_dir():
        assert found == []
        return
    assert {"cpu", "io", "memory"} <= {row[0] for row in found}
    for _, some_ns, full_ns, step_ns, some_pct in found:
        # The kernel adds up every 2 s, so that time from before the step may be counted in it.
        assert 0 <= (full_ns or 0) <= some_ns <= step_ns + 2_100_000_000
        assert some_pct is None
