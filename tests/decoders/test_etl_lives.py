"""Processes and threads of the Windows corpus match an independent reader."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from etl_truth import corpus_file, load

from schedlens import _decoders

FILES = [
    "airbus_ShutdownPerfDiagLogger",
    "pv_diaghub_kernel",
    "pv_net452_x64",
    "saw_image_data_64_v2",
    "saw_process_data_32_v3",
    "saw_process_data_64_v2",
    "saw_process_data_64_v3",
    "tx_KernelNetwork",
]


def _tables(path: Path) -> dict[str, list[dict[str, Any]]]:
    rows: dict[str, list[dict[str, Any]]] = {}
    with _decoders.load(str(path), 1, None, None, path.name) as loader:
        for table, batch in loader:
            if table in ("process", "thread", "thread_name"):
                rows.setdefault(table, []).extend(batch.to_pylist())
    return rows


@pytest.mark.parametrize("name", FILES)
def test_processes_and_threads_match_reference(name: str, tmp_path: Path) -> None:
    truth = load(f"{name}.etl.json")
    path = corpus_file(name, tmp_path)
    rows = _tables(path)
    expected = {(process["pid"], process["image"]) for process in truth["processes"]}
    found = {(row["pid"], row["name"]) for row in rows["process"]}
    # The idle threads' process exists whether or not a record mentions it.
    assert found - {(0, "Idle")} == expected - {(0, "Idle")}
    pids = {row["upid"]: row["pid"] for row in rows["process"]}
    threads: dict[str, set[int]] = {}
    for row in rows["thread"]:
        if not row["is_idle"]:
            threads.setdefault(str(pids[row["upid"]]), set()).add(row["tid"])
    # The reference counts the idle threads' id 0 as one thread of process 0.
    walk = {pid: count for pid, count in truth["threads"]["per_pid"].items() if pid != "0"}
    assert {pid: len(tids) for pid, tids in threads.items() if pid != "0"} == walk
    names = {row["utid"]: row["name"] for row in rows["thread"]}
    tids = {row["utid"]: (pids[row["upid"]], row["tid"]) for row in rows["thread"]}
    named = {(*tids[utid], name) for utid, name in names.items() if name and tids[utid][1]}
    assert {tuple(entry) for entry in truth["threads"]["named"] if entry[1]} <= named
    facts = json.loads(_decoders.inspect(str(path)))
    assert {(p["pid"], p["name"]) for p in facts["processes"]} == expected


def test_process_has_its_start_and_end_times(tmp_path: Path) -> None:
    truth = load("pv_diaghub_kernel.etl.json")
    rows = _tables(corpus_file("pv_diaghub_kernel", tmp_path))["process"]
    started = {p["pid"] for p in truth["processes"] if "start" in p["events"]}
    ended = {p["pid"] for p in truth["processes"] if "end" in p["events"]}
    assert {row["pid"] for row in rows if row["start_ns"] is not None} == started
    assert {row["pid"] for row in rows if row["end_ns"] is not None and row["end_ns"] >= 0} >= ended
    assert len(started) == 18
    assert len(ended) == 3
