"""Each form of perf.data: decoded rows match what perf itself prints."""

from __future__ import annotations

import json
import re
import shutil
import subprocess
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from decoded import decoded, record_counts
from fixture_files import FIXTURES, fixture, qemu_session

needs_perf = pytest.mark.skipif(
    shutil.which("perf") is None, reason="perf is not installed, and it is the oracle"
)

MANIFEST: dict[str, dict[str, Any]] = json.loads((FIXTURES / "MANIFEST.json").read_text())
SAMPLES: dict[str, dict[str, int]] = {
    name: entry["samples"] for name, entry in MANIFEST.items() if entry.get("samples") is not None
}
# perf cannot read these two; it counted the others when they were made.
CUT_OFF = ("killed", "truncated")
SWITCH = "sched:sched_switch"
WAKING_KINDS = {
    "sched:sched_waking": "waking",
    "sched:sched_wakeup": "wakeup",
    "sched:sched_wakeup_new": "wakeup_new",
}
# Letters of `prev_state` in the event's print format.
STATES = {0: "R", 1: "S", 2: "D", 4: "T", 8: "t", 16: "X", 32: "Z", 64: "P", 128: "I"}
LINE = re.compile(
    r"(?P<pid>-?\d+)/(?P<tid>-?\d+)\s+\[(?P<cpu>\d+)\]\s+(?P<s>\d+)\.(?P<ns>\d{9}):\s+"
    r"(?P<period>\d+)\s+(?P<event>\S+):\s*(?P<fields>.*)"
)
FIELD = re.compile(r"(\w+)=(.*?)(?= \w+=| ==>|$)")


@dataclass(frozen=True)
class Printed:
    """A sample as perf prints it; `ns` of the recording's clock."""

    ns: int
    cpu: int
    tid: int
    event: str
    period: int
    fields: dict[str, str]


@cache
def perf_script(trace: Path) -> list[Printed]:
    """The samples of a recording as perf prints them."""
    text = subprocess.run(
        ["perf", "script", "--ns", "-i", str(trace),
         "-F", "comm,pid,tid,cpu,time,period,event,trace"],
        check=True, capture_output=True, timeout=300,
    ).stdout.decode("utf-8", "replace")  # fmt: skip
    found = []
    for line in text.splitlines():
        match = LINE.search(line)
        assert match, line
        fields = {key: text.strip() for key, text in FIELD.findall(match["fields"])}
        ns = int(match["s"]) * 1_000_000_000 + int(match["ns"])
        found.append(
            Printed(ns, int(match["cpu"]), int(match["tid"]), match["event"],
                    int(match["period"]), fields)
        )  # fmt: skip
    return found


def path_of(name: str, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The unpacked recording of a line in the manifest."""
    folder, _, rest = name.partition("/")
    if folder == "qemu":
        return qemu_session(tmp_path_factory) / rest.removesuffix(".xz")
    return fixture(re.split(r"\.(?:perf\.data|tar)\.xz$", rest)[0], tmp_path_factory)


def opened(name: str, tmp_path_factory: pytest.TempPathFactory) -> dict[str, pa.Table]:
    """The tables of a recording in fixtures/perf."""
    return decoded(fixture(name, tmp_path_factory))


def threads_of(tables: dict[str, pa.Table]) -> dict[int, dict[str, Any]]:
    """Rows of `thread` by utid."""
    return {row["utid"]: row for row in tables["thread"].to_pylist()}


def start_clock(tables: dict[str, pa.Table]) -> int:
    """Raw clock at ns 0."""
    found: int = tables["trace"]["start_clock"][0].as_py()
    return found


def state_text(row: dict[str, Any]) -> str:
    """`prev_state` of a switch in perf's letters."""
    letter: str = STATES[row["prev_state"] & 0xFF]
    return f"{letter}+" if row["prev_preempted"] else letter


def problems_of(tables: dict[str, pa.Table]) -> list[dict[str, Any]]:
    """What the reader could not read, without the repairs of the state machine."""
    # An interrupt that is active where the recording starts, ends, or lost records does not count.
    repaired = ("states", "interrupts")
    return [row for row in rows_of(tables, "problem") if row["place"] not in repaired]


def rows_of(tables: dict[str, pa.Table], table: str) -> list[dict[str, Any]]:
    return tables[table].to_pylist() if table in tables else []


@pytest.mark.parametrize("name", SAMPLES)
def test_event_counts_match_perf(name: str, tmp_path_factory: pytest.TempPathFactory) -> None:
    tables = decoded(path_of(name, tmp_path_factory))
    counts = record_counts(tables)
    # perf script prints each counter of a group as its own sample: the leader's count.
    counters = {event for event in SAMPLES[name] if event == "msr/tsc/"}
    expected = {e: count for e, count in SAMPLES[name].items() if e not in counters}
    found = {e: count for e, count in counts.items() if not e.startswith("PERF_RECORD_")}
    assert found == expected
    switches = [row for row in rows_of(tables, "context_switch") if row["source"] == "switch"]
    assert len(switches) == expected.get(SWITCH, 0)
    wakings = [row for row in rows_of(tables, "wakeup") if row["kind"] == "waking"]
    assert len(wakings) == expected.get("sched:sched_waking", 0)
    assert len(rows_of(tables, "migration")) == expected.get("sched:sched_migrate_task", 0)
    samples = rows_of(tables, "counter_sample")
    assert len(samples) == sum(SAMPLES[name][event] for event in counters)
    # Recorded without -a.
    of_tree = ["PERF_RECORD_THREAD_MAP"] if "own_tree" in name else []
    assert [row["place"] for row in problems_of(tables)] == of_tree


@needs_perf
# `perf report --stats` cannot read a pipe's contents from a file.
@pytest.mark.parametrize("name", [name for name in SAMPLES if "/pipe." not in name])
def test_record_type_counts_match_perf(name: str, tmp_path_factory: pytest.TempPathFactory) -> None:
    trace = path_of(name, tmp_path_factory)
    text = subprocess.run(
        ["perf", "report", "-i", str(trace), "--stats"],
        check=True, capture_output=True, text=True, timeout=120,
    ).stdout.partition("stats:")[2]  # fmt: skip
    kinds = re.findall(r"^\s+(\w+) events:\s+(\d+)", text.split("stats:")[0], re.MULTILINE)
    expected = {kind: int(count) for kind, count in kinds if kind not in ("TOTAL", "SAMPLE")}
    found = {
        kind.removeprefix("PERF_RECORD_"): count
        for kind, count in record_counts(decoded(trace)).items()
        if kind.startswith("PERF_RECORD_")
    }
    # The kernel's records; perf counts some of its own records twice or under other names.
    of_kernel = {"MMAP", "MMAP2", "COMM", "FORK", "EXIT", "SWITCH", "SWITCH_CPU_WIDE", "LOST"}
    assert {kind: found.get(kind, 0) for kind in of_kernel} == {
        kind: expected.get(kind, 0) for kind in of_kernel
    }


@needs_perf
@pytest.mark.parametrize("name", [name for name in SAMPLES if SAMPLES[name].get(SWITCH)])
def test_scheduler_record_fields_match_perf(
    name: str, tmp_path_factory: pytest.TempPathFactory
) -> None:
    trace = path_of(name, tmp_path_factory)
    tables = decoded(trace)
    threads = threads_of(tables)
    start = start_clock(tables)
    printed = perf_script(trace)

    def tid(utid: int | None) -> int | None:
        return None if utid is None else threads[utid]["tid"]

    by_exec = name.startswith("perf/exec_by_thread")
    switches = [row for row in printed if row.event == SWITCH]
    expected = sorted(
        (row.ns - start, row.cpu, int(row.fields["prev_pid"]), int(row.fields["next_pid"]),
         int(row.fields["prev_prio"]), int(row.fields["next_prio"]), row.fields["prev_state"])
        for row in switches
    )  # fmt: skip
    found = sorted(
        (row["ts"], row["cpu"], tid(row["prev_utid"]), tid(row["next_utid"]),
         row["prev_priority"], row["next_priority"], state_text(row))
        for row in rows_of(tables, "context_switch") if row["source"] == "switch"
    )  # fmt: skip
    if by_exec:
        # The tid changes during the recording; `thread` has the last one.
        assert [row[:2] + row[4:] for row in found] == [row[:2] + row[4:] for row in expected]
    else:
        assert found == expected
    wakings = [row for row in printed if row.event in WAKING_KINDS]
    expected_wakings = sorted(
        (row.ns - start, row.cpu, int(row.fields["pid"]), int(row.fields["target_cpu"]),
         WAKING_KINDS[row.event])
        for row in wakings
    )  # fmt: skip
    found_wakings = sorted(
        (row["ts"], row["cpu"], tid(row["utid"]),
         # A waking is logged before a CPU is chosen: perf's target is where the thread last ran.
         row["prev_cpu"] if row["kind"] == "waking" else row["target_cpu"], row["kind"])
        for row in rows_of(tables, "wakeup")
    )  # fmt: skip
    if not by_exec:
        assert found_wakings == expected_wakings


@needs_perf
@pytest.mark.parametrize("name", ["counters", "host_counters"])
def test_counter_values_grow_as_perf_prints(
    name: str, tmp_path_factory: pytest.TempPathFactory
) -> None:
    trace = fixture(name, tmp_path_factory)
    tables = decoded(trace)
    start = start_clock(tables)
    printed: dict[int, list[tuple[int, int]]] = {}
    for sample in perf_script(trace):
        if sample.event == "msr/tsc/":
            printed.setdefault(sample.cpu, []).append((sample.ns - start, sample.period))
    found: dict[int, list[tuple[int, int]]] = {}
    before: dict[int, int] = {}
    for row in sorted(rows_of(tables, "counter_sample"), key=lambda row: row["ts"]):
        assert row["counter"] == "msr/tsc/"
        delta = row["value"] - before.get(row["cpu"], 0)
        before[row["cpu"]] = row["value"]
        found.setdefault(row["cpu"], []).append((row["ts"], delta))
    assert found == printed


@pytest.mark.parametrize("name", CUT_OFF)
def test_truncated_file_gives_its_records(
    name: str, tmp_path_factory: pytest.TempPathFactory
) -> None:
    tables = opened(name, tmp_path_factory)
    counts = record_counts(tables)
    # The formats of tracepoints are written at the end: samples are counted, switches are read.
    assert counts["tracepoint 314"] == {"killed": 1871, "truncated": 98}[name]
    assert counts["PERF_RECORD_SWITCH_CPU_WIDE"] == {"killed": 3800, "truncated": 290}[name]
    assert {row["source"] for row in rows_of(tables, "context_switch")} == {"switch_event"}
    # Every CPU with records is unknown from its last one to the end.
    cut = {
        (row["cpu"], row["end_ns"])
        for row in rows_of(tables, "loss")
        if row["signalled_by"] in ("damaged", "truncated")
    }
    assert cut >= {(row["cpu"], None) for row in rows_of(tables, "context_switch")}
    places = [row["place"] for row in problems_of(tables)]
    assert "HEADER_TRACING_DATA" in places
    first = {"killed": "perf_file_header", "truncated": "byte 119536"}[name]
    assert first in places


def test_switch_records_alone_have_no_state(
    tmp_path_factory: pytest.TempPathFactory,
) -> None:
    tables = opened("switch_only", tmp_path_factory)
    rows = rows_of(tables, "context_switch")
    # A switch-out and a switch-in each, except the first of a CPU, which only switches in.
    assert {row["source"] for row in rows} == {"switch_event"}
    assert {row["prev_state"] for row in rows} == {None}
    records = record_counts(tables)["PERF_RECORD_SWITCH_CPU_WIDE"]
    assert records / 2 <= len(rows) <= records / 2 + len({row["cpu"] for row in rows})
    assert "wakeup" not in tables


def test_recording_of_own_processes_without_sample_ids_is_read(
    tmp_path_factory: pytest.TempPathFactory,
) -> None:
    tables = opened("own_tree", tmp_path_factory)
    assert record_counts(tables)["PERF_RECORD_SWITCH"] == 159
    names = {row["name"] for row in rows_of(tables, "process")}
    assert "sched-pipe" in names


def test_file_without_scheduler_events_has_no_switches(
    tmp_path_factory: pytest.TempPathFactory,
) -> None:
    tables = opened("no_sched", tmp_path_factory)
    assert record_counts(tables)["cpu-clock"] == 104
    assert [table for table in ("context_switch", "wakeup", "sched_slice") if table in tables] == []


@needs_perf
def test_loss_is_counted_once_at_the_place_perf_reports(
    tmp_path_factory: pytest.TempPathFactory,
) -> None:
    trace = fixture("loss", tmp_path_factory)
    text = subprocess.run(
        ["perf", "script", "--ns", "--show-lost-events", "-i", str(trace)],
        check=True, capture_output=True, text=True, timeout=300,
    ).stdout  # fmt: skip
    found = re.findall(r"\[(\d+)\]\s+(\d+)\.(\d{9}): PERF_RECORD_LOST lost (\d+)", text)
    lost: dict[int, int] = {}
    for cpu, _, _, count in found:
        lost[int(cpu)] = lost.get(int(cpu), 0) + int(count)
    assert len(found) == 189
    tables = decoded(trace)
    assert tables["trace"]["events_lost"].to_pylist() == [sum(lost.values())]
    rows = [r for r in rows_of(tables, "loss") if r["signalled_by"] == "PERF_RECORD_LOST"]
    by_cpu: dict[int, int] = {}
    for row in rows:
        by_cpu[row["cpu"]] = by_cpu.get(row["cpu"], 0) + row["events"]
    assert by_cpu == lost
    # Each is between two records of its CPU and contains the time at which perf places it.
    start = start_clock(tables)
    for cpu, seconds, ns, _ in found:
        at = int(seconds) * 1_000_000_000 + int(ns) - start
        around = [r for r in rows if r["cpu"] == int(cpu) and r["start_ns"] <= at <= r["end_ns"]]
        assert len(around) in (1, 2), (cpu, at)
    switches = rows_of(tables, "context_switch")
    for row in rows:
        inside = [
            s for s in switches
            if s["cpu"] == row["cpu"] and row["start_ns"] < s["ts"] < row["end_ns"]
        ]  # fmt: skip
        assert inside == []


def test_exec_by_non_leader_continues_the_same_thread(
    tmp_path_factory: pytest.TempPathFactory,
) -> None:
    trace = fixture("exec_by_thread", tmp_path_factory)
    tables = decoded(trace)
    breaks = [r for r in rows_of(tables, "loss") if r["signalled_by"] == "chain_break"]
    assert breaks == []
    if shutil.which("perf") is None:
        pytest.skip("perf is not installed, and only perf shows which thread executed")
    execs = [row for row in perf_script(trace) if row.event == "sched:sched_process_exec"]
    (other,) = [row for row in execs if row.fields["pid"] != row.fields["old_pid"]]
    start = start_clock(tables)
    at = other.ns - start
    threads = threads_of(tables)
    rows = [
        row for row in rows_of(tables, "context_switch")
        if row["cpu"] == other.cpu and row["source"] == "switch"
    ]  # fmt: skip
    entered = [row for row in rows if row["ts"] <= at][-1]
    leaves = next(row for row in rows if row["ts"] > at)
    assert entered["next_utid"] == leaves["prev_utid"]
    assert threads[entered["next_utid"]]["tid"] == int(other.fields["pid"])


def test_yields_belong_to_the_threads_that_yield(
    tmp_path_factory: pytest.TempPathFactory,
) -> None:
    tables = opened("sched_yield", tmp_path_factory)
    rows = rows_of(tables, "sched_yield")
    assert len(rows) == SAMPLES["perf/sched_yield.perf.data.xz"]["syscalls:sys_enter_sched_yield"]
    threads = threads_of(tables)
    assert None not in {threads[row["utid"]]["name"] for row in rows}


def test_rows_keep_the_order_of_each_cpu_stream(
    tmp_path_factory: pytest.TempPathFactory,
) -> None:
    for name in ("plain", "zstd", "pipe", "threads", "loss"):
        tables = opened(name, tmp_path_factory)
        for table in ("context_switch", "wakeup", "migration"):
            rows = rows_of(tables, table)
            assert [r["ts"] for r in rows] == sorted(r["ts"] for r in rows), (name, table)
            for cpu in {row["cpu"] for row in rows}:
                numbers = [row["seq"] for row in rows if row["cpu"] == cpu]
                assert numbers == sorted(set(numbers)), (name, table, cpu)
