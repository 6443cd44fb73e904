"""`--topology FILE`: the machine of a recording, described by hand or by Windows.

The file is JSON: `{"cpus": [{"cpu": 0, "core": 0, ...}, ...]}` with columns of the table `cpu`, or
`{"slpi": "HEX"}`, the bytes that `GetLogicalProcessorInformationEx(RelationAll)` returns.
"""

from __future__ import annotations

import json
from functools import cache
from pathlib import Path
from typing import Any

import pyarrow as pa

from schedlens import _decoders
from schedlens.errors import TopologyError
from schedlens.machine.topology import SavedTopology
from schedlens.output import typed_json

_TYPES = ("U", "P", "E", "LP-E")
_MOST_CPUS = 1 << 13

Row = dict[str, Any]


def read(path: Path) -> dict[str, Any]:
    """The description in `path` as `{"cpus": [row, ...]}`, rows of the table `cpu`.

    Raises `TopologyError`.
    """
    try:
        value = json.loads(path.read_text(encoding="utf-8-sig"))
    except (OSError, ValueError) as error:
        raise TopologyError(f"cannot read {path} as JSON: {error}") from None
    if isinstance(value, dict) and isinstance(value.get("slpi"), str):
        try:
            rows = _decoders.windows_cpus(bytes.fromhex(value["slpi"]))
        except ValueError as error:
            raise TopologyError(
                f"{path}: slpi is not output of GetLogicalProcessorInformationEx ({error}): "
                "create it again"
            ) from None
    elif isinstance(value, dict) and isinstance(value.get("cpus"), list):
        rows = [_row(path, number, cpu) for number, cpu in enumerate(value["cpus"])]
    else:
        raise TopologyError(f"{path} contains neither cpus nor slpi: see docs/windows-traces.md")
    numbers = [row["cpu"] for row in rows]
    if not rows or len(set(numbers)) != len(numbers):
        raise TopologyError(f"{path}: {len(rows)} CPUs, but only {len(set(numbers))} distinct ones")
    return {"cpus": rows}


def topology(path: Path) -> SavedTopology:
    """The machine that a file describes. Raises `TopologyError`."""
    try:
        return typed_json.parsed(SavedTopology, read(path))
    except typed_json.FieldError as error:
        raise TopologyError(f"{path}: {error}") from None


def _row(path: Path, number: int, cpu: Any) -> Row:
    where = f"{path}: entry {number} of cpus"
    if not isinstance(cpu, dict) or not _is_number(cpu.get("cpu")) or cpu["cpu"] >= _MOST_CPUS:
        raise TopologyError(f"{where} has no `cpu`, a number from 0 on")
    unknown = sorted(set(cpu) - {"cpu", "core_type", "online", *_numbers()})
    if unknown:
        known = ", ".join(("cpu", "core_type", "online", *_numbers()))
        raise TopologyError(f"{where}: unknown column {unknown[0]}, choose from {known}")
    for name in _numbers():
        if cpu.get(name) is not None and not _is_number(cpu[name]):
            raise TopologyError(f"{where}: {name} is {cpu[name]!r}, not a number from 0 on")
    if cpu.get("core_type") not in (None, *_TYPES):
        raise TopologyError(f"{where}: core_type {cpu['core_type']!r} is not one of {_TYPES}")
    return {"online": True} | cpu


@cache
def _numbers() -> tuple[str, ...]:
    """The columns of `cpu` that contain a number about the CPU."""
    others = ("trace_id", "cpu", "valid_from_ns")
    fields = _decoders.schemas()["cpu"]
    return tuple(f.name for f in fields if pa.types.is_integer(f.type) and f.name not in others)


def _is_number(value: Any) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and 0 <= value < 1 << 31
