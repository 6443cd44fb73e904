"""Fields of manifest and TraceLogging events match PerfView's published baselines."""

from __future__ import annotations

import json
import lzma
import re
from collections import Counter
from pathlib import Path
from typing import Any

import pytest
from etl_truth import corpus_file, need_shared

from schedlens import _decoders

pytestmark = pytest.mark.slow

EVENT = re.compile(
    r"EVENT (?P<ms>[\d,.]+): (?P<name>\S+)(?: \S+)*? PID=(?P<pid>-?\d+); TID=(?P<tid>-?\d+); "
    r"PName=[^;]*; ProceNum=(?P<cpu>\d+); DataLen=(?P<length>\d+); (?P<fields>.*)"
)
# Providers with schemas in the file. PerfView knows some of their events itself and names some
# of their fields differently.
PROVIDERS = ("Microsoft-Windows-",)
# A field that PerfView truncates, or shows as a date or GUID in its own format.
_CUT = "..."
# Bytes here, text there.
_SOCKET_ADDRESS = "Address"
# EventSource providers whose manifest, XML in chunks, is in the file.
EVENT_SOURCES = (
    "PerfView/",
    "System.Diagnostics.Eventing.FrameworkEventSource/",
    "System.Threading.Tasks.TplEventSource/",
)

Json = dict[str, Any]


def _baseline(name: str) -> list[re.Match[str]]:
    packed = need_shared(f"truth/baselines/{name}") / "truth" / "baselines" / name
    text = lzma.decompress(packed.read_bytes()).decode("utf-8", "replace")
    return [found for line in text.splitlines() if (found := EVENT.match(line))]


def _events(name: str, folder: Path) -> dict[tuple[int, int, int], list[Json]]:
    """Events with fields by pid, tid and time in us."""
    events: dict[tuple[int, int, int], list[Json]] = {}
    for batch in _decoders.events([str(corpus_file(name, folder))]):
        for line in batch.splitlines():
            event = json.loads(line)
            if event["provider"] != "Windows Kernel" and event["fields"] is not None:
                key = (event["pid"], event["tid"], round(event["ts_ns"] / 1000))
                events.setdefault(key, []).append(event)
    return events


def _same(shown: str, value: Any) -> bool | None:
    """Whether a value is the one shown; None if undecidable."""
    if isinstance(value, bool):
        return shown == str(value)
    if isinstance(value, int):
        if shown in ("True", "False"):
            return bool(value) == (shown == "True")
        if re.fullmatch(r"-?[\d,]+", shown):
            return any((int(shown.replace(",", "")) - value) % (1 << n) == 0 for n in (32, 64))
        if re.fullmatch(r"0x[\da-f]+", shown):
            return int(shown, 16) == value
        return None
    if re.match(r"\d\d/\d\d/\d\d ", shown):
        return None
    if isinstance(value, str) and shown.endswith(_CUT):
        return value.startswith(shown.removesuffix(_CUT))
    if isinstance(value, str) and "\r" not in value and "\n" not in value:
        return value == shown
    return None


def _compare(name: str, baseline: str, folder: Path, providers: tuple[str, ...]) -> Counter[str]:
    events = _events(name, folder)
    seen: Counter[str] = Counter()
    for shown in _baseline(baseline):
        if not shown["name"].startswith(providers):
            continue
        at = round(float(shown["ms"].replace(",", "")) * 1000)
        ids = (int(shown["pid"]), int(shown["tid"]))
        near = [e for us in (at - 1, at, at + 1) for e in events.get((*ids, us), [])]
        fields = dict(
            part.split("=", 1) for part in shown["fields"].rstrip("; ").split("; ") if "=" in part
        )
        names = {field.lower() for field in fields}
        fitting = [e for e in near if {field.lower() for field in e["fields"]} >= names]
        if not fitting or not fields:
            continue
        verdicts = []
        for event in fitting:
            lower = {field.lower(): value for field, value in event["fields"].items()}
            verdicts.append(
                [
                    _same(text, lower[field.lower()])
                    for field, text in fields.items()
                    if field != _SOCKET_ADDRESS
                ]
            )
        best = min(verdicts, key=lambda verdict: verdict.count(False))
        seen["events"] += 1
        seen["equal"] += best.count(True)
        seen["different"] += best.count(False)
    return seen


def test_tracelogging_fields_match_baseline(tmp_path: Path) -> None:
    found = _compare(
        "pv_primitive_types", "primitive-types.baseline.txt.xz", tmp_path, ("solar_system",)
    )
    assert found == Counter(events=5, equal=50)


def test_fields_from_embedded_schemas_match_baseline(tmp_path: Path) -> None:
    found = _compare("pv_net452_x64", "net.4.5.2.x64.baseline.txt.xz", tmp_path, PROVIDERS)
    assert found == Counter(events=150, equal=457)


def test_event_sources_decode_with_their_own_manifest(tmp_path: Path) -> None:
    events = _events("pv_net452_x64", tmp_path)
    seen: Counter[str] = Counter()
    for shown in _baseline("net.4.5.2.x64.baseline.txt.xz"):
        if not shown["name"].startswith(EVENT_SOURCES):
            continue
        at = round(float(shown["ms"].replace(",", "")) * 1000)
        ids = (int(shown["pid"]), int(shown["tid"]))
        near = [event for us in (at - 1, at, at + 1) for event in events.get((*ids, us), [])]
        named = [e for e in near if f"{e['provider']}/{e['layout']}" == shown["name"]]
        assert named, shown[0]
        parts = shown["fields"].rstrip("; ").split("; ")
        fields = dict(part.split("=", 1) for part in parts if "=" in part)
        # The length of the chunk is PerfView's own name.
        fields.pop("PayloadLength", None)
        verdicts = [
            [_same(text, event["fields"][field]) for field, text in fields.items()]
            for event in named
            if set(event["fields"]) == set(fields)
        ]
        assert verdicts, shown[0]
        seen["events"] += 1
        best = min(verdicts, key=lambda verdict: verdict.count(False))
        seen["equal"] += best.count(True)
        seen["different"] += best.count(False)
        seen["undecided"] += best.count(None)
    assert seen == Counter({"events": 42, "equal": 111, "undecided": 9})
