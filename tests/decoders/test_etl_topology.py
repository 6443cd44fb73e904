"""`--topology FILE`: how a description of the machine is applied, and what is refused."""

from __future__ import annotations

import ctypes
import json
import struct
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from schedlens.errors import TopologyError
from schedlens.load import described_machine

CORE, NODE, CACHE, PACKAGE, GROUP = range(5)


def _part(relation: int, body: bytes) -> bytes:
    return struct.pack("<II", relation, len(body) + 8) + body


def _affinity(*places: tuple[int, int]) -> bytes:
    """A counted list of GROUP_AFFINITY, followed by 6 reserved bytes."""
    masks = b"".join(struct.pack("<QH6x", mask, group) for group, mask in places)
    return struct.pack("<H", len(places)) + masks


def _core(group: int, mask: int, efficiency: int) -> bytes:
    return _part(
        CORE, bytes([mask.bit_count() > 1, efficiency]) + bytes(20) + _affinity((group, mask))
    )


def _cache(level: int, kind: int, group: int, mask: int) -> bytes:
    head = struct.pack("<BBHII18x", level, 8, 64, 1 << 20, kind)
    return _part(CACHE, head + _affinity((group, mask)))


def _groups(*masks: int) -> bytes:
    body = struct.pack("<HH20x", len(masks), len(masks))
    return _part(
        GROUP, body + b"".join(struct.pack("<BB38xQ", 64, m.bit_count(), m) for m in masks)
    )


def _file(folder: Path, content: object) -> Path:
    path = folder / "machine.json"
    path.write_text(json.dumps(content), encoding="utf-8")
    return path


# Group 0: a P core with two threads (0, 1) and two E cores (2, 3) that share an L2; group 1: a P
# core with two threads (4, 5).
def _machine() -> bytes:
    return b"".join(
        [
            _core(0, 0b0011, 1),
            _core(0, 0b0100, 0),
            _core(0, 0b1000, 0),
            _core(1, 0b0011, 1),
            _cache(1, 2, 0, 0b0011),
            _cache(2, 0, 0, 0b0011),
            _cache(2, 0, 0, 0b1100),
            _cache(2, 0, 1, 0b0011),
            _cache(3, 1, 0, 0b0001),
            _cache(3, 0, 0, 0b1111),
            _cache(3, 0, 1, 0b0011),
            _part(NODE, struct.pack("<I18x", 7) + _affinity((1, 0b0011))),
            _part(PACKAGE, bytes(22) + _affinity((0, 0b1111), (1, 0b0011))),
            _groups(0b1111, 0b0011),
        ]
    )


def test_windows_topology_becomes_cpu_rows(tmp_path: Path) -> None:
    found = described_machine.read(_file(tmp_path, {"slpi": _machine().hex()}))["cpus"]
    columns = ("cpu", "group_no", "number_in_group", "core", "smt_index", "core_type", "l2", "llc")
    assert [tuple(row[column] for column in columns) for row in found] == [
        (0, 0, 0, 0, 0, "P", 0, 0),
        (1, 0, 1, 0, 1, "P", 0, 0),
        (2, 0, 2, 2, 0, "E", 2, 0),
        (3, 0, 3, 3, 0, "E", 2, 0),
        (4, 1, 0, 4, 0, "P", 4, 4),
        (5, 1, 1, 4, 1, "P", 4, 4),
    ]
    assert [row.get("numa_node") for row in found] == [None, None, None, None, 7, 7]
    assert {row["package"] for row in found} == {0}
    assert [row["efficiency_class"] for row in found] == [1, 1, 0, 0, 1, 1]


def test_machine_with_one_class_is_uniform(tmp_path: Path) -> None:
    data = _core(0, 0b11, 0) + _groups(0b11)
    found = described_machine.read(_file(tmp_path, {"slpi": data.hex()}))["cpus"]
    assert [row["core_type"] for row in found] == ["U", "U"]


def test_topology_may_be_written_by_hand(tmp_path: Path) -> None:
    path = _file(tmp_path, {"cpus": [{"cpu": 0, "core": 0}, {"cpu": 1, "core": 0, "l2": None}]})
    assert described_machine.read(path)["cpus"] == [
        {"cpu": 0, "core": 0, "online": True},
        {"cpu": 1, "core": 0, "l2": None, "online": True},
    ]


@pytest.mark.parametrize(
    ("content", "why"),
    [
        ([], "neither cpus nor slpi"),
        ({"cpus": []}, "0 CPUs"),
        ({"cpus": [{}]}, "no `cpu`, a number"),
        ({"cpus": [{"cpu": -1}]}, "no `cpu`, a number"),
        ({"cpus": [{"cpu": True}]}, "no `cpu`, a number"),
        ({"cpus": [{"cpu": 0}, {"cpu": 0}]}, "2 CPUs, but only 1 distinct"),
        ({"cpus": [{"cpu": 0, "kore": 1}]}, "unknown column kore"),
        ({"cpus": [{"cpu": 0, "core": "x"}]}, "core is 'x'"),
        ({"cpus": [{"cpu": 0, "core_type": "Q"}]}, "core_type 'Q'"),
        ({"slpi": "zz"}, "create it again"),
        ({"slpi": _machine()[:-5].hex()}, "create it again"),
        ({"slpi": "00000000ff000000"}, "create it again"),
        ({"slpi": "0000000000000000"}, "create it again"),
        ({"slpi": ""}, "contains no processor core"),
    ],
)
def test_impossible_topology_is_refused_in_one_line(
    tmp_path: Path, content: object, why: str
) -> None:
    with pytest.raises(TopologyError) as raised:
        described_machine.read(_file(tmp_path, content))
    assert why in str(raised.value)
    assert "\n" not in str(raised.value)


def test_invalid_json_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "machine.json"
    path.write_bytes(b"\xff\xfe{")
    with pytest.raises(TopologyError, match="as JSON"):
        described_machine.read(path)


class _Kernel32:
    """GetLogicalProcessorInformationEx of a machine that is drawn above."""

    def GetLogicalProcessorInformationEx(self, relation: int, buffer: Any, length: Any) -> int:
        assert relation == 0xFFFF
        data = _machine()
        if buffer is None:
            length._obj.value = len(data)
            return 0
        buffer.raw = data
        return 1


def test_documented_command_writes_a_topology_file(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    text = (Path(__file__).parents[2] / "docs" / "windows-traces.md").read_text(encoding="utf-8")
    line = next(line for line in text.splitlines() if line.startswith('py -c "'))
    code = line.removeprefix('py -c "').removesuffix('" > machine.json').replace('\\"', '"')
    monkeypatch.setattr(ctypes, "windll", SimpleNamespace(kernel32=_Kernel32()), raising=False)
    exec(code, {})
    path = tmp_path / "machine.json"
    path.write_text(capsys.readouterr().out, encoding="utf-8")
    assert len(described_machine.read(path)["cpus"]) == 6
