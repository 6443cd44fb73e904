"""Payloads of Windows events, synthetic and real: every field matches another decoder."""

from __future__ import annotations

import json
from collections import Counter
from typing import Any

from etl_truth import ABSENT, HEADER_IDS, NOT_TAKEN, load, load_table, ours, same

from schedlens import _decoders

# A batch of compact switches has no published layout: it is refused in one line.
_REFUSED = {"ThreadCompCS"}

# Vectors that the other decoder reads wrongly, by its README or by the format's description.
_WRONG_THERE = {
    ("Process", 0, "ParentID"): "v0: the pid is taken from the parent's place",
    ("Process", 4, "KernelImageFileName"): "bytes that are no UTF-8 become U+FFFD there",
    ("KernelQueueEnqueue", 2, "Entry"): "entries of 8 bytes in 32-bit records",
    ("KernelQueueDequeue", 2, "items"): "entries of 8 bytes in 32-bit records",
    ("Thread", 1, "StackBase"): "v1 is not decoded there",
    ("Thread", 1, "StackLimit"): "v1 is not decoded there",
    ("Thread", 1, "StartAddr"): "v1 is not decoded there",
}


def _read(vector: dict[str, Any]) -> tuple[str, dict[str, Any]] | None:
    event, number = vector.get("hook"), None
    if event is None:
        number, code = int(vector["guid"][:8], 16), vector["opcode"]
    else:
        code = int(event, 16)
    found = _decoders.etl_payload(
        code,
        vector["version"],
        bytes.fromhex(vector["payload_hex"]),
        vector["pointer_size"],
        number,
    )
    return None if found is None else (found[0], json.loads(found[1]))


def test_every_vector_matches_other_decoder() -> None:
    wrong: list[str] = []
    absent: set[tuple[str, int, str]] = set()
    seen: Counter[str] = Counter()
    for vector in load("traceevent/vectors.json"):
        found = _read(vector)
        if found is None:
            assert vector["event"] in _REFUSED, vector["event"]
            continue
        event, fields = found
        version = vector["version"]
        for name, value in vector.get("fields", {}).items():
            if name in vector.get("past_end", []) or name in HEADER_IDS:
                continue
            here = ours(event, version, name, fields)
            if here is ABSENT:
                if (event, name) not in NOT_TAKEN:
                    absent.add((event, version, name))
            elif same(name, value, here):
                seen["equal"] += 1
            elif (event, version, name) in _WRONG_THERE:
                seen["wrong there"] += 1
            else:
                wrong.append(f"{vector['event']} v{version} {name}: {value} / {here}")
    assert wrong == []
    # Defaults of the other decoder for fields that the payload lacks.
    assert {(event, version) for event, version, _ in absent} == {
        ("Thread", 1),
        ("Thread", 2),
        ("Thread", 3),
    }
    assert seen == {"equal": 1864, "wrong there": 11}


# Published field names, and their names here if they differ.
_CALLED = {
    "pid": "processid",
    "tid": "tthreadid",
    "oldprio": "oldthreadpriority",
    "newprio": "newthreadpriority",
    "newtid": "newthreadid",
    "oldtid": "oldthreadid",
    "oldwaitreason": "oldthreadwaitreason",
    "oldwaitmode": "oldthreadwaitmode",
    "oldstate": "oldthreadstate",
    "oldidealprocessor": "oldthreadwaitidealprocessor",
    "oldwaitidealprocessor": "oldthreadwaitidealprocessor",
    "newwaittime": "newthreadwaittime",
    "oldremainingquantumorreserved": "reserved",
    "unknownv5u32": "unknown",
    "oldqos": "oldthreadqos",
    "newqos": "newthreadqos",
    "spare": "sparebyte",
    "teb": "tebbase",
}


_PARTS = {
    "driveletter",
    "flags",
    "maxfilesize",
    "osversionmajor",
    "osversionminor",
    "processid",
    "reserved",
    "spare",
    "spversionmajor",
    "spversionminor",
    "stacksize",
    "threadflags",
    "threadid",
    "usersidtokenuser",
    "volumeextent",
}


def test_published_payloads_match_published_values() -> None:
    vectors = {vector["name"]: vector for vector in load("payload_vectors.json")["vectors"]}
    compared: Counter[str] = Counter()
    missing: set[str] = set()
    for vector in load("traceevent/vectors.json"):
        name = vector["event"].removeprefix("payload_vectors.json/")
        if name == vector["event"]:
            continue
        found = _read(vector)
        assert found is not None, name
        fields = {field.lower(): value for field, value in found[1].items()}
        for key, value in vectors[name]["expected"].items():
            plain = key.replace("_", "").lower()
            here = fields.get(_CALLED.get(plain, plain))
            if here is None:
                missing.add(plain)
                continue
            given = value.replace("\\\\", "\\") if isinstance(value, str) else value
            assert here == given, (name, key)
            compared["equal"] += 1
    assert compared == {"equal": 287}
    # Parts of fields that are read whole, or not at all, here: lists, texts, the time zone.
    assert not {name for name in missing if "(" not in name} - _PARTS


# Events that the other decoder has no class for: their layouts as Windows itself describes them.
_POINTERS = {"Affinity", "Lock", "LockAddress", "ImageBase", "Entry", "Routine", "Key"}


def test_events_without_other_decoder_follow_windows_description() -> None:
    tables = {
        (event["hook"], event["version"]): event["fields"]
        for event in load_table("kernel_mof.json")["events"]
    }
    checked: set[str] = set()
    for vector in load("traceevent/vectors.json"):
        fields = tables.get((vector.get("hook"), vector["version"]))
        found = _read(vector)
        if vector.get("decoded", True) or fields is None or found is None:
            continue
        payload, at = bytes.fromhex(vector["payload_hex"]), 0
        for name, kind in fields:
            width = {"UInt8": 1, "UInt16": 2, "UInt32": 4, "UInt64": 8, "SInt8": 1}.get(kind)
            width = vector["pointer_size"] if name in _POINTERS else width
            if width is None:
                break
            value = int.from_bytes(payload[at : at + width], "little")
            at += width
            # Another description has two numbers of 16 bits there.
            if name == "BoostBitmap":
                continue
            if name in found[1] and isinstance(found[1][name], int):
                assert found[1][name] == value, (vector["event"], name)
                checked.add(vector["event"])
    assert checked == {
        "AntiStarvation",
        "AutoBoostClearFloor",
        "AutoBoostSetFloor",
        "ImageKernelBase",
        "LastDroppedTimes",
        "PartitionInfo",
        "PmcCounterConfig",
        "PmcCounterCorruption",
        "ProcessTerminate",
        "SetPriority0530",
        "SetPriority0531",
        "SetPriority0533",
        "SetPriority0534",
        "SystemConfig0b18",
        "SystemConfig0b1a",
        "SystemConfig0b1b",
        "SystemConfig0b23",
        "SystemConfig0b24",
        "SystemConfig0b25",
        "ThreadAffinity",
        "ThreadMigration",
        "payload_vectors.json/Kernel_PerfinfoV2PmcCounterConfigEventView",
    }
