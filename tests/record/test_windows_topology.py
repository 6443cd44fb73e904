"""Which logical CPUs share cores and caches, from the bytes that Windows writes."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path
from typing import Any

import pytest
import windows_buffers
from fixture_files import FIXTURES
from windows_buffers import hybrid_8p8e, server_96

from schedlens.errors import TopologyError
from schedlens.load import described_machine
from schedlens.record import workload_program
from schedlens.record.placement import order
from schedlens.record.windows import topology


def parsed(tmp_path: Path, buffer: bytes) -> topology.Topology:
    """The topology that the program reads from a buffer."""
    path = tmp_path / "buffer.bin"
    path.write_bytes(buffer)
    return topology.from_buffer(path)


def column(found: topology.Topology, name: str) -> list[Any]:
    """One column, by CPU number."""
    return [getattr(cpu, name) for cpu in found.cpus]


def test_hybrid_machine_has_p_cores_e_cores_and_siblings(tmp_path: Path) -> None:
    found = parsed(tmp_path, hybrid_8p8e())
    assert column(found, "core_type") == ["P"] * 16 + ["E"] * 8
    assert column(found, "efficiency_class") == [1] * 16 + [0] * 8
    assert column(found, "core") == [cpu - cpu % 2 for cpu in range(16)] + list(range(16, 24))
    assert column(found, "smt_index") == [0, 1] * 8 + [0] * 8
    assert column(found, "l2") == [cpu - cpu % 2 for cpu in range(16)] + [16] * 4 + [20] * 4
    assert column(found, "llc") == [0] * 24
    assert column(found, "number_in_group") == list(range(24))
    # The order of a workload: P cores, then E cores, siblings last.
    assert order(found, "physical") == [*range(0, 16, 2), *range(16, 24), *range(1, 16, 2)]


def test_more_than_64_cpus_are_numbered_over_both_groups(tmp_path: Path) -> None:
    found = parsed(tmp_path, server_96())
    assert column(found, "cpu") == list(range(96))
    assert column(found, "group_no") == [0] * 48 + [1] * 48
    assert column(found, "number_in_group") == [*range(48), *range(48)]
    assert column(found, "core") == [cpu - cpu % 2 for cpu in range(96)]
    assert column(found, "package") == column(found, "numa_node") == [0] * 48 + [1] * 48
    assert column(found, "llc") == [0] * 48 + [48] * 48
    assert column(found, "l2") == [None] * 96
    assert column(found, "core_type") == ["U"] * 96
    assert found.allowed == tuple(range(96))


def test_buffer_recorded_under_wine_matches_its_machine() -> None:
    found = topology.from_buffer(FIXTURES / "topology" / "wine_2c2t.bin")
    assert column(found, "core") == [0, 1]
    assert column(found, "smt_index") == [0, 0]
    assert column(found, "l2") == [0, 1]
    assert column(found, "llc") == [0, 0]
    assert column(found, "core_type") == ["U", "U"]


def test_session_stores_what_the_program_returned(tmp_path: Path) -> None:
    path = tmp_path / "buffer.bin"
    path.write_bytes(hybrid_8p8e())
    raw = subprocess.run(
        [workload_program.program(), "topology", "--buffer", str(path)],
        capture_output=True,
        check=True,
    )
    value = json.loads(raw.stdout)
    assert value["source"] == "GetLogicalProcessorInformationEx"
    assert topology.from_buffer(path).as_json() == value


def test_analyze_and_collect_read_the_same_from_a_buffer(tmp_path: Path) -> None:
    buffer = hybrid_8p8e()
    file = tmp_path / "machine.json"
    file.write_text(json.dumps({"slpi": buffer.hex()}), encoding="utf-8")
    unknown = {"capacity": None, "base_khz": None, "max_khz": None}
    described = [row | unknown for row in described_machine.read(file)["cpus"]]
    assert parsed(tmp_path, buffer).as_json()["cpus"] == described


@pytest.mark.parametrize(
    ("buffer", "why"),
    [
        (b"", "it contains no processor core"),
        (b"\0" * 8, "the record at byte 0 has size 0, but only 8 bytes remain"),
        (hybrid_8p8e()[:-1], "but only 79 bytes remain"),
        (windows_buffers.groups(*[1] * 33), "33 processor groups, but Windows has at most 32"),
        (b"\0" * ((1 << 20) + 1), "more than 1048576 bytes"),
    ],
)
def test_invalid_buffer_is_refused_in_one_line(tmp_path: Path, buffer: bytes, why: str) -> None:
    with pytest.raises(TopologyError, match=why) as caught:
        parsed(tmp_path, buffer)
    assert "\n" not in str(caught.value)
