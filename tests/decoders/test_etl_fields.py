"""Each event of the Windows corpus: samples and sums of its fields match another decoder."""

from __future__ import annotations

import json
import zlib
from collections import Counter
from pathlib import Path
from typing import Any

import pytest
from etl_truth import ABSENT, HEADER_IDS, NOT_TAKEN, corpus_file, load, ours, same

from schedlens import _decoders

# Files of the corpus; those that a test program wrote are read separately.
FILES = [
    "airbus_AMSITrace",
    "airbus_ShutdownPerfDiagLogger",
    "airbus_lxcore_kernel",
    "hw3d_trace",
    "krabs_powershell",
    "monogame_PerfViewData",
    "pv_diaghub_kernel",
    "pv_diaghub_user_injected",
    "pv_diaghub_user_paged",
    "pv_gcevents",
    "pv_gcrundown",
    "pv_net452_x64",
    "pv_primitive_types",
    "pv_selfdescribing_compressed",
    "pv_small_32bit_compressed",
    "pyetwkit_sample",
    "tx_HTTP_Server",
    "tx_KernelNetwork",
]

# What the other decoder cannot do off Windows, or stores differently: (event, property).
_NOT_COMPARED = {
    ("WinSAT", "Xml"): "asks Windows to unpack it",
    ("BuildInfo", "InstallDate"): "summed as text",
}
# Numbers that it reads as signed: those with the top bit set add nothing to its upper sum.
_SIGNED = {"PhysicalAddr", "IRQAffinity"}
_LOW = 1 << 32


def _key(event: dict[str, Any], classes: dict[str, Any]) -> str | None:
    key = f"{event['id']} v{event['version']}"
    return next((k for k in (key, f"{key} ptr{event['pointer']}") if k in classes), None)


def _add(sums: dict[str, list[Any]], name: str, value: Any) -> None:
    """Sums values as the other decoder does: low halves, and the upper half of positive ones."""
    if isinstance(value, bool):
        sums.setdefault(name, [0])[0] += int(value)
    elif isinstance(value, str):
        entry = sums.setdefault(name, ["crc", 0])
        entry[1] += zlib.crc32(value.encode())
    elif isinstance(value, list):
        for item in value:
            _add(sums, name, item)
    elif isinstance(value, int):
        entry = sums.setdefault(name, [0, 0])
        entry[0] += value % _LOW
        positive = value > 0 and not (name in _SIGNED and value >> 63)
        entry[1] += value >> 32 if positive else 0


def _agree(theirs: Any, here: Any) -> bool:
    """Samples show the first three items of a list, and the start of a long text."""
    if isinstance(theirs, list):
        return isinstance(here, list) and len(theirs) <= len(here) and theirs == here[: len(theirs)]
    if isinstance(theirs, str) and isinstance(here, str) and "...(" in theirs:
        begin, _, length = theirs.rpartition("...(")
        return here.startswith(begin) and length == f"{len(here)} chars)"
    return False


@pytest.mark.parametrize("name", FILES)
def test_sums_and_samples_match_other_decoder(name: str, tmp_path: Path) -> None:
    truth = load("traceevent/corpus.json")["files"][name]
    path = corpus_file(name, tmp_path)
    classes = truth["classes"]
    counts: Counter[str] = Counter()
    names: dict[str, str] = {}
    wrong: list[str] = []
    sums: dict[str, dict[str, list[Any]]] = {}
    places: list[tuple[int, int, int]] = []
    candidates: dict[tuple[int, int, int], dict[str, Any]] = {}
    times = {sample["ts"] for known in classes.values() for sample in known.get("samples", [])}
    for batch in _decoders.events([str(path)]):
        for line in batch.splitlines():
            event = json.loads(line)
            place = (event["place"][0], event["place"][1], event["place"][2])
            places.append(place)
            if event["clock"] in times:
                candidates[place] = event
            key = _key(event, classes)
            if key is None:
                continue
            counts[key] += 1
            if event["fields"] is not None:
                names[key] = event["layout"]
            for prop in classes[key]["sums"] if event["fields"] is not None else ():
                here = ours(event["layout"], event["version"], prop, event["fields"])
                if here is not ABSENT:
                    _add(sums.setdefault(key, {}), prop, here)
    places.sort()
    for key, known in classes.items():
        for sample in known.get("samples", []):
            event = candidates[places[sample["rec"]]]
            assert _key(event, classes) == key
            assert (event["clock"], event["cpu"] or 0) == (sample["ts"], sample["cpu"])
            for prop, value in sample["f"].items() if event["fields"] is not None else ():
                here = ours(event["layout"], event["version"], prop, event["fields"])
                if (event["layout"], prop) in _NOT_COMPARED or here is ABSENT:
                    continue
                if not same(prop, value, here) and not _agree(value, here):
                    wrong.append(f"{key} {prop} in record {sample['rec']}: {value} / {here}")
    for key, known in classes.items():
        if counts[key] != known["count"]:
            wrong.append(f"{key}: {known['count']} / {counts[key]} events")
        for prop, value in known["sums"].items():
            skipped = (names.get(key, ""), prop)
            if prop in HEADER_IDS or skipped in _NOT_COMPARED or skipped in NOT_TAKEN:
                continue
            here = sums.get(key, {}).get(prop)
            if here is None:
                wrong.append(f"{key} {prop}: no such field")
            elif here not in (value, [*value, 0]):
                wrong.append(f"{key} {prop}: sums {value} / {here}")
    assert wrong == []
