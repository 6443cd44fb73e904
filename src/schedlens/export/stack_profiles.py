"""Stacks in the formats of flame graph viewers: folded text, speedscope, and Firefox Profiler."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, BinaryIO, Literal

import duckdb

from schedlens.errors import NothingToReadError
from schedlens.output import whole_file

Form = Literal["folded", "speedscope", "firefox"]
Measure = Literal["samples", "waiting", "ready", "wakeups"]

# The view, its column of weights, and their unit in speedscope.
_SOURCES: dict[Measure, tuple[str, str, str]] = {
    "samples": ("sample_stack", "samples", "none"),
    "waiting": ("off_cpu_stack", "wait_ns", "nanoseconds"),
    "ready": ("off_cpu_stack", "ready_ns", "nanoseconds"),
    "wakeups": ("waker_stack", "wakings", "none"),
}
SUFFIXES: dict[Form, str] = {
    "folded": ".folded.txt",
    "speedscope": ".speedscope.json",
    "firefox": ".firefox.json",
}
_NO_STACK = "[no stack]"
# Versions of the processed profile format that Firefox Profiler upgrades when it loads a file.
_GECKO_VERSION, _PROCESSED_VERSION = 29, 48


@dataclass
class _Thread:
    """One thread: its stacks from the outermost function inwards, with weights."""

    process: str
    name: str
    tid: int
    stacks: list[tuple[list[str], int]] = field(default_factory=list)


@dataclass(frozen=True)
class Selection:
    """The stacks of one recording: all, or those of a process, a thread, or a window in ns."""

    trace_id: int
    process: str | None = None
    tid: int | None = None
    from_ns: int | None = None
    to_ns: int | None = None

    @property
    def is_part(self) -> bool:
        """Whether other stacks of the recording may be left out."""
        return any(
            value is not None for value in (self.process, self.tid, self.from_ns, self.to_ns)
        )


def of_finding(con: duckdb.DuckDBPyConnection, number: int) -> Selection:
    """The window and the thread of a finding. Raises `NothingToReadError` if it has neither."""
    found = con.execute(
        "SELECT f.trace_id, t.tid, f.start_ns, f.end_ns FROM finding AS f "
        "LEFT JOIN thread AS t USING (utid) WHERE f.finding_id = ?",
        [number],
    ).fetchone()
    if found is None:
        raise NothingToReadError(f"there is no finding {number}: `FROM finding` lists all")
    trace_id, tid, from_ns, to_ns = found
    if trace_id is None:
        raise NothingToReadError(f"finding {number} is about several recordings: use --trace")
    return Selection(trace_id, None, tid, from_ns, to_ns)


def save(
    con: duckdb.DuckDBPyConnection,
    file: Path,
    form: Form,
    measure: Measure,
    chosen: Selection,
) -> None:
    """Writes the chosen stacks. Raises `NothingToReadError` if there are none."""
    threads = _threads(con, measure, chosen)
    if not threads:
        where = "in what was chosen" if chosen.is_part else "in this recording"
        raise NothingToReadError(
            f"no {measure} with a stack {where}: record with `collect --stacks`"
        )
    name, unit = file.name, _SOURCES[measure][2]
    if form == "folded":
        text = "".join(_folded(threads))
    elif form == "speedscope":
        text = json.dumps(_speedscope(threads, name, unit))
    else:
        text = json.dumps(_firefox(threads, name, measure))

    def written(out: BinaryIO) -> None:
        out.write(text.encode("utf-8"))

    whole_file.write(file, written)


def _threads(con: duckdb.DuckDBPyConnection, measure: Measure, chosen: Selection) -> list[_Thread]:
    view, weight, _ = _SOURCES[measure]
    rows = con.execute(
        f"SELECT s.utid, s.process, s.thread, t.tid, s.folded, s.{weight} "
        f"FROM {view}(p_trace_id := ?, p_from_ns := ?, p_to_ns := ?, p_process := ?) AS s "
        f"JOIN thread AS t USING (utid) WHERE s.{weight} > 0 AND (? IS NULL OR t.tid = ?) "
        "ORDER BY s.utid, s.folded NULLS FIRST",
        [chosen.trace_id, chosen.from_ns, chosen.to_ns, chosen.process, chosen.tid, chosen.tid],
    ).fetchall()
    found: dict[int, _Thread] = {}
    for utid, owner, name, tid, folded, value in rows:
        thread = found.setdefault(utid, _Thread(owner or "?", name or "?", tid))
        stack = folded.split(";") if folded else [_NO_STACK]
        thread.stacks.append((stack, value))
    return list(found.values())


def _folded(threads: list[_Thread]) -> Iterator[str]:
    """One line for each stack: `process;thread;caller;...;function weight`."""
    for thread in threads:
        head = [thread.process.replace(";", ":"), f"{thread.name.replace(';', ':')} ({thread.tid})"]
        for stack, weight in thread.stacks:
            words = (" ".join(word.split()) for word in (*head, *stack))
            yield f"{';'.join(words)} {weight}\n"


class _Numbered:
    """Texts numbered by first appearance."""

    def __init__(self) -> None:
        self.texts: list[str] = []
        self._numbers: dict[str, int] = {}

    def number(self, text: str) -> int:
        known = self._numbers.get(text)
        if known is None:
            known = self._numbers[text] = len(self.texts)
            self.texts.append(text)
        return known


def _speedscope(threads: list[_Thread], name: str, unit: str) -> dict[str, Any]:
    frames = _Numbered()
    profiles = []
    for thread in threads:
        samples = [[frames.number(word) for word in stack] for stack, _ in thread.stacks]
        weights = [weight for _, weight in thread.stacks]
        profiles.append(
            {
                "type": "sampled",
                "name": f"{thread.process}: {thread.name} ({thread.tid})",
                "unit": unit,
                "startValue": 0,
                "endValue": sum(weights),
                "samples": samples,
                "weights": weights,
            }
        )
    return {
        "$schema": "https://www.speedscope.app/file-format-schema.json",
        "exporter": "schedlens",
        "name": name,
        "activeProfileIndex": 0,
        "shared": {"frames": [{"name": text} for text in frames.texts]},
        "profiles": profiles,
    }


def meta(name: str, categories: list[tuple[str, str]]) -> dict[str, Any]:
    """The head of a processed profile, with (name, color) of its categories."""
    return {
        "version": _GECKO_VERSION,
        "preprocessedProfileVersion": _PROCESSED_VERSION,
        "interval": 1,
        "startTime": 0,
        "processType": 0,
        "product": name,
        "stackwalk": 1,
        "debug": False,
        "categories": [
            {"name": each, "color": color, "subcategories": ["Other"]} for each, color in categories
        ],
        "markerSchema": [],
        "symbolicated": True,
    }


def empty_tables() -> dict[str, Any]:
    """The tables of stacks, frames, functions and libraries of a thread without any."""
    columns = {
        "stackTable": "prefix frame category subcategory",
        "frameTable": "func address inlineDepth category subcategory nativeSymbol innerWindowID "
        "implementation line column",
        "funcTable": "name isJS relevantForJS resource fileName lineNumber columnNumber",
        "resourceTable": "lib name host type",
        "nativeSymbols": "libIndex address name functionSize",
    }
    return {
        table: {"length": 0, **{name: [] for name in names.split()}}
        for table, names in columns.items()
    }


def _firefox(threads: list[_Thread], name: str, measure: Measure) -> dict[str, Any]:
    is_time = _SOURCES[measure][2] == "nanoseconds"
    return {
        "meta": meta(name, [("Other", "grey")]),
        "libs": [],
        "threads": [_firefox_thread(thread, is_time) for thread in threads],
    }


def _firefox_thread(thread: _Thread, is_time: bool) -> dict[str, Any]:
    names = _Numbered()
    prefixes: list[int | None] = []
    frames: list[int] = []
    nodes: dict[tuple[int | None, int], int] = {}
    stacks: list[int | None] = []
    for stack, _ in thread.stacks:
        node: int | None = None
        for word in stack:
            key = (node, names.number(word))
            if key not in nodes:
                nodes[key] = len(prefixes)
                prefixes.append(node)
                frames.append(key[1])
            node = nodes[key]
        stacks.append(node)
    weights = [weight / 1e6 if is_time else weight for _, weight in thread.stacks]
    functions = len(names.texts)
    return empty_tables() | {
        "name": thread.name,
        "processName": thread.process,
        "processType": "default",
        "processStartupTime": 0,
        "processShutdownTime": None,
        "registerTime": 0,
        "unregisterTime": None,
        "pausedRanges": [],
        "isMainThread": False,
        "pid": str(thread.tid),
        "tid": thread.tid,
        "samples": {
            "length": len(stacks),
            "stack": stacks,
            "time": list(range(len(stacks))),
            "weight": weights,
            "weightType": "tracing-ms" if is_time else "samples",
        },
        "markers": {
            "length": 0, "category": [], "data": [], "endTime": [], "name": [], "phase": [],
            "startTime": [],
        },
        "stackTable": {
            "length": len(prefixes),
            "prefix": prefixes,
            "frame": frames,
            "category": [0] * len(prefixes),
            "subcategory": [0] * len(prefixes),
        },
        "frameTable": {
            "length": functions,
            "func": list(range(functions)),
            "address": [-1] * functions,
            "inlineDepth": [0] * functions,
            "category": [0] * functions,
            "subcategory": [0] * functions,
            "nativeSymbol": [None] * functions,
            "innerWindowID": [None] * functions,
            "implementation": [None] * functions,
            "line": [None] * functions,
            "column": [None] * functions,
        },
        "funcTable": {
            "length": functions,
            "name": list(range(functions)),
            "isJS": [False] * functions,
            "relevantForJS": [False] * functions,
            "resource": [-1] * functions,
            "fileName": [None] * functions,
            "lineNumber": [None] * functions,
            "columnNumber": [None] * functions,
        },
        "stringArray": names.texts,
    }  # fmt: skip
