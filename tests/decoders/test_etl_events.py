"""Base rows of a drawn Windows recording, in every clock, pointer width, and compression."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from decoded import decoded
from etl_truth import SHARED, corpus_file, need_shared

FILES = [
    "synth_cycle64",
    "synth_lznt1",
    "synth_qpc32",
    "synth_qpc64",
    "synth_systime64",
    "synth_xpress",
    "synth_xpresshuff",
]

Rows = dict[str, list[dict[str, Any]]]


@pytest.fixture(params=FILES)
def drawn(request: pytest.FixtureRequest, tmp_path: Path) -> tuple[list[Any], Rows]:
    """The events that were drawn, and the rows read."""
    name = request.param
    need_shared(f"synthetic/{name}.expected.json")
    expected = json.loads((SHARED / "synthetic" / f"{name}.expected.json").read_text("utf-8"))
    tables = decoded(corpus_file(name, tmp_path))
    return expected["events_sorted_by_ns"], {t: rows.to_pylist() for t, rows in tables.items()}


def _tids(rows: Rows) -> dict[int, int]:
    return {row["utid"]: row["tid"] for row in rows["thread"]}


def _of(events: list[Any], hook: str) -> list[Any]:
    return [event for event in events if event.get("hook") == hook]


def test_switches_match_the_script(drawn: tuple[list[Any], Rows]) -> None:
    events, rows = drawn
    tids = _tids(rows)
    switches = sorted(rows["context_switch"], key=lambda row: (row["ts"], row["cpu"], row["seq"]))
    drawn_switches = sorted(_of(events, "0524"), key=lambda event: (event["ns"], event["cpu"]))
    assert [
        (
            row["ts"],
            row["cpu"],
            tids[row["prev_utid"]],
            row["prev_priority"],
            row["prev_state"],
            row["prev_wait_reason"],
            row["prev_wait_mode"],
            row["prev_ideal_cpu"],
            row["prev_cstate"],
        )
        for row in switches
    ] == [
        (
            event["ns"],
            event["cpu"],
            event["fields"]["old_tid"],
            event["fields"]["old_prio"],
            event["fields"]["old_state"],
            event["fields"]["wait_reason"],
            event["fields"]["wait_mode"],
            event["fields"]["ideal"],
            event["fields"]["prev_cstate"] if event["fields"]["old_tid"] == 0 else None,
        )
        for event in drawn_switches
    ]
    # If the plan was changed, the incoming thread is the next outgoing one and has no priority.
    for row, event in zip(switches, drawn_switches, strict=True):
        planned = event["fields"]["new_tid"]
        if row["next_priority"] is None:
            assert tids[row["next_utid"]] != planned
        else:
            assert (tids[row["next_utid"]], row["next_priority"]) == (
                planned,
                event["fields"]["new_prio"],
            )


def test_wakeups_name_the_thread_running_on_their_cpu(drawn: tuple[list[Any], Rows]) -> None:
    events, rows = drawn
    tids = _tids(rows)
    running: dict[int, int] = {}
    expected = []
    for event in events:
        if event.get("hook") == "0524":
            running[event["cpu"]] = event["fields"]["new_tid"]
        if event.get("hook") == "0532":
            waker = event["tid"] if event["kind"] == "system" else running.get(event["cpu"])
            flags = event["fields"].get("flag", 0)
            expected.append(
                (event["ns"], event["cpu"], event["fields"]["tid_"], waker, bool(flags & 1))
            )
    found = [
        (
            row["ts"],
            row["cpu"],
            tids[row["utid"]],
            tids.get(row["waker_utid"]),
            row["in_interrupt"],
        )
        for row in sorted(rows["wakeup"], key=lambda row: (row["ts"], row["cpu"]))
    ]
    assert found == expected


def test_counters_match_record_headers(drawn: tuple[list[Any], Rows]) -> None:
    events, rows = drawn
    # One switch carries one counter more than the names record lists.
    names = [*_of(events, "0f30")[0]["fields"]["counters"], "counter 2"]
    expected = sorted(
        (event["ns"], event["cpu"], names[number], value)
        for event in _of(events, "0524")
        for number, value in enumerate(event["pmc"])
    )
    found = [
        (row["ts"], row["cpu"], row["counter"], row["value"]) for row in rows["counter_sample"]
    ]
    assert sorted(found) == expected


def test_interrupts_end_at_their_record(drawn: tuple[list[Any], Rows]) -> None:
    events, rows = drawn
    kinds = {"0f42": "dpc", "0f43": "isr", "0f44": "dpc", "0f45": "dpc", "0f32": "isr"}
    expected = sorted(
        (event["ns"], event["cpu"], kinds[event["hook"]])
        for event in events
        if event.get("hook") in kinds
    )
    found = [(row["ts"] + row["dur"], row["cpu"], row["kind"]) for row in rows["interrupt_slice"]]
    assert sorted(found) == expected
    assert all(row["dur"] > 0 for row in rows["interrupt_slice"])


def test_processes_threads_and_names_match_the_script(drawn: tuple[list[Any], Rows]) -> None:
    events, rows = drawn
    expected = {
        (event["fields"]["pid_"], event["fields"]["image"])
        for event in events
        if event.get("hook") in ("0301", "0302", "0303", "0304")
    }
    assert {(row["pid"], row["name"]) for row in rows["process"]} - {(0, "Idle")} == expected
    lives = [e for e in events if e.get("hook") in ("0501", "0502", "0503", "0504")]
    tids = {event["fields"]["tid_"]: event["fields"] for event in lives}
    for row in rows["thread"]:
        if not row["is_idle"] and row["tid"] in tids:
            assert row["base_priority"] == tids[row["tid"]]["base_prio"]
    pids = {row["upid"]: row["pid"] for row in rows["process"]}
    assert {
        (row["tid"], pids.get(row["upid"])) for row in rows["thread"] if not row["is_idle"]
    } >= {(event["fields"]["tid_"], event["fields"]["pid_"]) for event in lives}


def test_power_provider_gives_classes_parking_and_frequency(
    drawn: tuple[list[Any], Rows],
) -> None:
    _, rows = drawn
    parking = [
        (row["ts"], row["cpu"], row["parked"], row["soft_parked"]) for row in rows["cpu_parking"]
    ]
    assert parking == [
        (8000, 0, False, None),
        (530_000, 3, True, True),
        (540_000, 3, False, False),
    ]
    assert [(row["ts"], row["cpu"], row["khz"]) for row in rows["cpu_frequency"]] == [
        (550_000, 2, 2_400_000)
    ]
    classes = [
        (row["cpu"], row["valid_from_ns"], row["efficiency_class"], row["core_type"])
        for row in rows["cpu"]
    ]
    # CPUs 2 and 3 are not described, so no type can be named.
    assert classes == [
        (0, None, None, None),
        (0, 7000, 1, None),
        (1, None, None, None),
        (1, 7000, 0, None),
        (2, None, None, None),
        (3, None, None, None),
    ]


def test_threads_have_affinity_and_names(drawn: tuple[list[Any], Rows]) -> None:
    _, rows = drawn
    tids = _tids(rows)
    assert sorted((tids[row["utid"]], row["cpus"], row["source"]) for row in rows["affinity"]) == [
        (8, [0, 1, 2, 3], "rundown"),
        (1001, [0, 1, 2, 3], "rundown"),
        (1002, [0, 1], "rundown"),
    ]
    named = {(tids[row["utid"]], row["ts"], row["name"]) for row in rows["thread_name"]}
    assert {entry for entry in named if entry[0]} == {
        (1001, None, "Main Thread"),
        (1002, 575_000, "Render"),
    }
    changes = [
        (tids[row["utid"]], row["ts"], row["old_priority"], row["new_priority"], row["kind"])
        for row in rows["priority_change"]
    ]
    assert changes == [(1001, 570_000, 8, 9, "dynamic")]
    qos = [
        (tids[row["utid"]], row["ts"], row["old_qos"], row["new_qos"]) for row in rows["qos_change"]
    ]
    assert qos == [(1001, 330_000, "0", "1"), (1001, 350_000, "1", "0")]
