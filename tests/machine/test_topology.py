"""Topology from sysfs: copies of machines, exact answers, and `lscpu` as a second reader."""

from __future__ import annotations

import os
import shutil
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest
import sysfs_machine as fake

from schedlens.errors import TopologyError
from schedlens.machine import topology

Machine = Callable[[], fake.FakeMachine]

EVERY: list[Machine] = [
    fake.ten_cores_twenty_threads,
    fake.eight_p_eight_e,
    fake.three_types,
    fake.favoured_cores,
    fake.two_packages,
    fake.big_little,
    fake.no_smt,
    lambda: fake.ten_cores_twenty_threads(offline=(3, 14)),
]


def column(machine: topology.Topology, name: str) -> list[object]:
    return [getattr(cpu, name) for cpu in machine.cpus]


def test_siblings_on_ten_cores_differ_by_ten(tmp_path: Path) -> None:
    machine = topology.read(fake.ten_cores_twenty_threads().write(tmp_path))
    assert column(machine, "core") == [*range(10), *range(10)]
    assert column(machine, "smt_index") == [0] * 10 + [1] * 10
    assert column(machine, "core_type") == ["U"] * 20
    assert column(machine, "efficiency_class") == [0] * 20
    assert column(machine, "l2") == [*range(10), *range(10)]
    assert column(machine, "llc") == [0] * 20
    assert column(machine, "package") == [0] * 20
    assert column(machine, "max_khz") == [4_600_000] * 20
    assert column(machine, "base_khz") == [3_100_000] * 20
    assert column(machine, "capacity") == [None] * 20
    assert machine.allowed == tuple(range(20))
    assert machine.has_smt


def test_hybrid_core_types_come_from_pmu_folders(tmp_path: Path) -> None:
    machine = topology.read(fake.eight_p_eight_e().write(tmp_path))
    assert column(machine, "core_type") == ["P"] * 16 + ["E"] * 8
    assert column(machine, "efficiency_class") == [1] * 16 + [0] * 8
    assert column(machine, "core") == [2 * (cpu // 2) for cpu in range(16)] + [*range(16, 24)]
    assert column(machine, "smt_index") == [0, 1] * 8 + [0] * 8
    assert column(machine, "l2")[16:] == [16] * 4 + [20] * 4
    assert machine.pmus == {"cpu_atom": tuple(range(16, 24)), "cpu_core": tuple(range(16))}


def test_three_types_have_three_names(tmp_path: Path) -> None:
    machine = topology.read(fake.three_types().write(tmp_path))
    assert column(machine, "core_type") == ["P"] * 6 + ["E"] * 8 + ["LP-E"] * 2
    assert column(machine, "efficiency_class") == [2] * 6 + [1] * 8 + [0] * 2
    assert column(machine, "llc") == [0] * 14 + [14] * 2
    assert not machine.has_smt


def test_favored_cores_are_not_a_separate_type(tmp_path: Path) -> None:
    machine = topology.read(fake.favoured_cores().write(tmp_path))
    assert set(column(machine, "core_type")) == {"U"}


def test_types_come_from_capacity_without_pmu_folders(tmp_path: Path) -> None:
    machine = topology.read(fake.big_little().write(tmp_path))
    assert column(machine, "core_type") == ["E"] * 4 + ["P"] * 4
    assert column(machine, "capacity") == [446] * 4 + [1024] * 4


def test_types_by_frequency_need_a_clear_difference(tmp_path: Path) -> None:
    made = fake.no_smt()
    # 3.0, 3.3, 3.6 rise by a tenth each: one type; 4.2 is 16.7 % above 3.6: another.
    for cpu, khz in zip(made.cpus, (3000, 3300, 3600, 4200, 4200, 4200), strict=True):
        cpu.max_khz = khz * 1000
    machine = topology.read(made.write(tmp_path))
    assert column(machine, "core_type") == ["E"] * 3 + ["P"] * 3


def test_more_types_than_names_keep_their_numbers(tmp_path: Path) -> None:
    made = fake.no_smt()
    for cpu, capacity in zip(made.cpus, (100, 200, 400, 800, 800, 800), strict=True):
        cpu.capacity = capacity
    machine = topology.read(made.write(tmp_path))
    assert column(machine, "core_type") == ["0", "1", "2", "3", "3", "3"]


def test_type_is_unknown_without_any_source(tmp_path: Path) -> None:
    machine = topology.read(fake.no_smt().write(tmp_path))
    assert column(machine, "core_type") == [None] * 6
    assert column(machine, "efficiency_class") == [None] * 6


def test_one_cpu_without_capacity_falls_back_to_next_source(tmp_path: Path) -> None:
    made = fake.no_smt()
    for cpu in made.cpus:
        cpu.capacity, cpu.max_khz = 1024, 2_000_000
    made.cpus[2].capacity = None
    machine = topology.read(made.write(tmp_path))
    assert column(machine, "core_type") == ["U"] * 6
    assert column(machine, "capacity") == [1024, 1024, None, 1024, 1024, 1024]


def test_offline_cpus_are_listed_with_unknown_values(tmp_path: Path) -> None:
    machine = topology.read(fake.ten_cores_twenty_threads(offline=(3, 14)).write(tmp_path))
    assert [cpu.cpu for cpu in machine.cpus if not cpu.online] == [3, 14]
    assert machine.cpus[3] == topology.Cpu(3, online=False)
    # Core 3 has only CPU 13 left, which is now its first.
    assert (machine.cpus[13].core, machine.cpus[13].smt_index) == (13, 0)
    assert (machine.cpus[4].core, machine.cpus[4].smt_index) == (4, 0)


def test_packages_and_numa_nodes_are_read(tmp_path: Path) -> None:
    machine = topology.read(fake.two_packages().write(tmp_path))
    assert column(machine, "package") == [0, 0, 0, 0, 1, 1, 1, 1] * 2
    assert column(machine, "numa_node") == [0, 0, 0, 0, 1, 1, 1, 1] * 2
    assert column(machine, "llc") == [0, 0, 0, 0, 4, 4, 4, 4] * 2
    assert column(machine, "core") == [*range(8), *range(8)]


def test_folder_without_cpus_is_refused(tmp_path: Path) -> None:
    with pytest.raises(TopologyError, match="lists no CPU: is sysfs mounted"):
        topology.read(tmp_path)


def test_damaged_list_is_named(tmp_path: Path) -> None:
    root = fake.no_smt().write(tmp_path)
    (root / "sys/devices/system/cpu/cpu2/topology/core_cpus_list").write_text("2-\n")
    with pytest.raises(TopologyError, match=r"cpu2/topology/core_cpus_list: '2-' is not a CPU"):
        topology.read(root)


def test_hidden_cores_are_unknown(tmp_path: Path) -> None:
    root = fake.no_smt().write(tmp_path)
    for cpu in range(6):
        shutil.rmtree(root / f"sys/devices/system/cpu/cpu{cpu}/topology")
    machine = topology.read(root)
    assert column(machine, "core") == [None] * 6
    assert column(machine, "smt_index") == [None] * 6
    assert column(machine, "package") == [None] * 6


def groups(values: list[object]) -> list[list[int]]:
    """CPUs by equal value, so that two numberings of the same groups compare equal."""
    found: dict[object, list[int]] = {}
    for cpu, value in enumerate(values):
        if value is not None:
            found.setdefault(value, []).append(cpu)
    return sorted(found.values())


def lscpu(root: Path) -> dict[str, list[object]]:
    program = shutil.which("lscpu")
    if program is None:
        pytest.skip("lscpu is not installed")
    columns = ["cpu", "core", "socket", "node", "online", "cache"]
    text = subprocess.run(
        [program, "--sysroot", os.fspath(root), "--all", f"--parse={','.join(columns)}"],
        capture_output=True,
        text=True,
        check=True,
    ).stdout
    header = [line for line in text.splitlines() if line.startswith("# ")][-1]
    names = [name.strip().lower() for name in header[2:].split(",")]
    # The row of an offline CPU ends early.
    rows = [
        line.split(",") + [""] * len(names) for line in text.splitlines() if line and line[0] != "#"
    ]
    return {name: [row[index] or None for row in rows] for index, name in enumerate(names) if name}


@pytest.mark.parametrize("make", EVERY)
def test_lscpu_sees_the_same_groups(make: Machine, tmp_path: Path) -> None:
    root = make().write(tmp_path)
    machine, other = topology.read(root), lscpu(root)
    assert [int(str(cpu)) for cpu in other["cpu"]] == column(machine, "cpu")
    assert [name == "Y" for name in other["online"]] == column(machine, "online")
    assert groups(other["core"]) == groups(column(machine, "core"))
    assert groups(other["socket"]) == groups(column(machine, "package"))
    assert groups(other["l2"]) == groups(column(machine, "l2"))
    assert groups(other["l3"]) == groups(column(machine, "llc"))


def test_this_machine_agrees_with_lscpu() -> None:
    if not Path("/sys/devices/system/cpu/online").exists():
        pytest.skip("no sysfs here")
    machine, other = topology.read(), lscpu(Path("/"))
    here = {int(str(cpu)): index for index, cpu in enumerate(other["cpu"])}
    known = [cpu for cpu in machine.cpus if cpu.cpu in here]
    assert [other["online"][here[cpu.cpu]] == "Y" for cpu in known] == [cpu.online for cpu in known]
    assert groups([other["core"][here[cpu.cpu]] for cpu in known]) == groups(
        [cpu.core for cpu in known]
    )
    assert machine.allowed == tuple(sorted(os.sched_getaffinity(0)))
