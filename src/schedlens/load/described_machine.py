"""`--topology FILE`: the machine of a recording, described by hand or by Windows.

The file is JSON: `{"cpus": [{"cpu": 0, "core": 0, ...}, ...]}` with columns of the table `cpu`, or
`{"slpi": "HEX"}`, the bytes that `GetLogicalProcessorInformationEx(RelationAll)` returns.
"""

from __future__ import annotations

import json
import struct
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from schedlens import _decoders
from schedlens.errors import TopologyError

_NUMBERS = (
    "group_no", "number_in_group", "core", "smt_index", "efficiency_class", "capacity", "l2", "llc",
    "package", "numa_node", "base_khz", "max_khz",
)  # fmt: skip
_TYPES = ("U", "P", "E", "LP-E")
_MOST_CPUS = 1 << 13

# LOGICAL_PROCESSOR_RELATIONSHIP
_CORE, _NODE, _CACHE, _PACKAGE, _GROUP = range(5)
_NODE_EX = 6
# PROCESSOR_CACHE_TYPE: unified, instruction, data, trace
_INSTRUCTION = 1

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
            rows = _of_windows(bytes.fromhex(value["slpi"]))
        except (ValueError, struct.error, IndexError):
            raise TopologyError(
                f"{path}: slpi is not output of GetLogicalProcessorInformationEx: create it again"
            ) from None
    elif isinstance(value, dict) and isinstance(value.get("cpus"), list):
        rows = [_row(path, number, cpu) for number, cpu in enumerate(value["cpus"])]
    else:
        raise TopologyError(f"{path} contains neither cpus nor slpi: see docs/windows-traces.md")
    numbers = [row["cpu"] for row in rows]
    if not rows or len(set(numbers)) != len(numbers):
        raise TopologyError(f"{path}: {len(rows)} CPUs, but only {len(set(numbers))} distinct ones")
    return {"cpus": rows}


def _row(path: Path, number: int, cpu: Any) -> Row:
    where = f"{path}: entry {number} of cpus"
    if not isinstance(cpu, dict) or not _is_number(cpu.get("cpu")) or cpu["cpu"] >= _MOST_CPUS:
        raise TopologyError(f"{where} has no `cpu`, a number from 0 on")
    unknown = sorted(set(cpu) - {"cpu", "core_type", "online", *_NUMBERS})
    if unknown:
        known = ", ".join(("cpu", "core_type", "online", *_NUMBERS))
        raise TopologyError(f"{where}: unknown column {unknown[0]}, choose from {known}")
    for name in _NUMBERS:
        if cpu.get(name) is not None and not _is_number(cpu[name]):
            raise TopologyError(f"{where}: {name} is {cpu[name]!r}, not a number from 0 on")
    if cpu.get("core_type") not in (None, *_TYPES):
        raise TopologyError(f"{where}: core_type {cpu['core_type']!r} is not one of {_TYPES}")
    return {"online": True} | cpu


def _is_number(value: Any) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and 0 <= value < 1 << 31


def _of_windows(data: bytes) -> list[Row]:
    """Rows from SYSTEM_LOGICAL_PROCESSOR_INFORMATION_EX in its 64-bit layout.

    Windows numbers its processors group by group.
    """
    parts = list(_parts(data))
    places = [
        (group, number)
        for relation, body in parts
        if relation == _GROUP
        for group, mask in enumerate(_group_masks(body))
        for number in range(64)
        if mask >> number & 1
    ]
    rows: list[Row] = [
        {"cpu": cpu, "online": True, "group_no": group, "number_in_group": number}
        for cpu, (group, number) in enumerate(places)
    ]
    index = {place: cpu for cpu, place in enumerate(places)}
    last = max((body[0] for relation, body in parts if relation == _CACHE), default=0)
    packages = 0
    for relation, body in parts:
        if relation == _CORE:
            for rank, cpu in enumerate(_cpus(body[22:], index)):
                first = _cpus(body[22:], index)[0]
                rows[cpu] |= {"core": first, "smt_index": rank, "efficiency_class": body[1]}
        elif relation in (_NODE, _NODE_EX):
            (node,) = struct.unpack_from("<I", body)
            for cpu in _cpus(body[22:], index):
                rows[cpu]["numa_node"] = node
        elif relation == _PACKAGE:
            for cpu in _cpus(body[22:], index):
                rows[cpu]["package"] = packages
            packages += 1
        elif relation == _CACHE and struct.unpack_from("<I", body, 8)[0] != _INSTRUCTION:
            cpus = _cpus(body[30:], index)
            for cpu in cpus:
                if body[0] == 2:
                    rows[cpu]["l2"] = cpus[0]
                if body[0] == last:
                    rows[cpu]["llc"] = cpus[0]
    _name_types(rows)
    return rows


def _parts(data: bytes) -> Iterator[tuple[int, bytes]]:
    """Relation and body of each structure. Raises `ValueError` if one does not fit."""
    at = 0
    while at < len(data):
        relation, size = struct.unpack_from("<II", data, at)
        if size < 8 or at + size > len(data):
            raise ValueError
        yield relation, data[at + 8 : at + size]
        at += size


def _group_masks(body: bytes) -> list[int]:
    """Active processors of each group: GROUP_RELATIONSHIP."""
    (groups,) = struct.unpack_from("<H", body, 2)
    return [struct.unpack_from("<Q", body, 24 + 48 * n + 40)[0] for n in range(groups)]


def _cpus(body: bytes, index: dict[tuple[int, int], int]) -> list[int]:
    """The CPUs of a counted list of GROUP_AFFINITY, ascending; a count of 0 means 1."""
    (count,) = struct.unpack_from("<H", body)
    found = []
    for number in range(max(count, 1)):
        mask, group = struct.unpack_from("<QH", body, 2 + 16 * number)
        found += [
            index[group, bit] for bit in range(64) if mask >> bit & 1 and (group, bit) in index
        ]
    return sorted(found)


def _name_types(rows: list[Row]) -> None:
    """Names the core types, if every CPU has an efficiency class."""
    classes = [row.get("efficiency_class") for row in rows]
    known = [value for value in classes if value is not None and value >= 0]
    if not known or len(known) < len(rows):
        return
    for row, name in zip(rows, _decoders.core_types(known), strict=True):
        row["core_type"] = name
