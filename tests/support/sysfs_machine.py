"""Copies of sysfs for machines that are not here, written file by file as the kernel does."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path

from schedlens.machine import cpu_list


@dataclass
class FakeCpu:
    """One logical CPU; `core`, `l2` and `l3` are any keys that its group shares."""

    cpu: int
    core: int
    core_id: int
    package: int = 0
    node: int = 0
    l2: int | None = None
    l3: int = 0
    capacity: int | None = None
    highest_perf: int | None = None
    max_khz: int | None = None
    base_khz: int | None = None
    online: bool = True


@dataclass
class FakeMachine:
    """All CPUs of a machine and the PMU folders of hybrid parts."""

    cpus: list[FakeCpu]
    pmus: dict[str, str] = field(default_factory=dict)

    def write(self, root: Path) -> Path:
        """Writes the folders below `root`; returns it."""
        base = root / "sys/devices/system/cpu"
        online = [cpu for cpu in self.cpus if cpu.online]
        every = cpu_list.text(cpu.cpu for cpu in self.cpus)
        _put(base / "possible", every)
        _put(base / "present", every)
        _put(base / "online", cpu_list.text(cpu.cpu for cpu in online))
        _put(base / "offline", cpu_list.text(cpu.cpu for cpu in self.cpus if not cpu.online))
        _put(base / "kernel_max", "511")
        for cpu in self.cpus:
            self._write_cpu(base / f"cpu{cpu.cpu}", cpu, online)
        for node in sorted({cpu.node for cpu in self.cpus}):
            here = [cpu.cpu for cpu in online if cpu.node == node]
            folder = root / f"sys/devices/system/node/node{node}"
            _put(folder / "cpulist", cpu_list.text(here))
            _put(folder / "cpumap", _mask(here))
        for name, cpus in self.pmus.items():
            _put(root / "sys/devices" / name / "cpus", cpus)
        # lscpu shows only CPUs whose model it can read.
        head = "vendor_id\t: none\ncpu family\t: 6\nmodel\t\t: 1\nmodel name\t: made by code\n"
        blocks = [f"processor\t: {cpu.cpu}\n{head}" for cpu in online]
        _put(root / "proc/cpuinfo", "\n".join(blocks))
        return root

    def _write_cpu(self, folder: Path, cpu: FakeCpu, online: Sequence[FakeCpu]) -> None:
        if cpu.cpu != 0:
            _put(folder / "online", "1" if cpu.online else "0")
        folder.mkdir(parents=True, exist_ok=True)
        if not cpu.online:
            return
        siblings = [other.cpu for other in online if other.core == cpu.core]
        package = [other.cpu for other in online if other.package == cpu.package]
        for name in ("core_cpus", "thread_siblings"):
            _put(folder / "topology" / f"{name}_list", cpu_list.text(siblings))
            _put(folder / "topology" / name, _mask(siblings))
        for name in ("package_cpus", "core_siblings"):
            _put(folder / "topology" / f"{name}_list", cpu_list.text(package))
            _put(folder / "topology" / name, _mask(package))
        _put(folder / "topology/core_id", str(cpu.core_id))
        _put(folder / "topology/physical_package_id", str(cpu.package))
        key = cpu.core if cpu.l2 is None else cpu.l2
        l2 = [
            other.cpu for other in online
            if (other.core if other.l2 is None else other.l2) == key
        ]  # fmt: skip
        l3 = [other.cpu for other in online if other.l3 == cpu.l3]
        for index, (level, kind, shared) in enumerate(
            [
                (1, "Data", siblings),
                (1, "Instruction", siblings),
                (2, "Unified", l2),
                (3, "Unified", l3),
            ]
        ):
            _put(folder / f"cache/index{index}/level", str(level))
            _put(folder / f"cache/index{index}/type", kind)
            _put(folder / f"cache/index{index}/shared_cpu_list", cpu_list.text(shared))
            _put(folder / f"cache/index{index}/shared_cpu_map", _mask(shared))
        for name, value in (
            ("cpu_capacity", cpu.capacity),
            ("acpi_cppc/highest_perf", cpu.highest_perf),
            ("cpufreq/cpuinfo_max_freq", cpu.max_khz),
            ("cpufreq/base_frequency", cpu.base_khz),
        ):
            if value is not None:
                _put(folder / name, str(value))


def ten_cores_twenty_threads(offline: Sequence[int] = ()) -> FakeMachine:
    """w5-2445: CPU n and n + 10 share core n; one package, one L3."""
    return FakeMachine(
        [
            FakeCpu(
                cpu, cpu % 10, cpu % 10, max_khz=4_600_000, base_khz=3_100_000,
                online=cpu not in offline,
            )
            for cpu in range(20)
        ]
    )  # fmt: skip


def eight_p_eight_e() -> FakeMachine:
    """i9-12900K: CPUs 0 to 15 are pairs of P siblings, 16 to 23 E cores with an L2 for four."""
    fast = [
        FakeCpu(cpu, cpu // 2, 4 * (cpu // 2), max_khz=5_100_000 + 100_000 * (cpu in range(8, 12)))
        for cpu in range(16)
    ]
    slow = [
        FakeCpu(cpu, cpu, 16 + cpu, l2=100 + (cpu - 16) // 4, max_khz=3_900_000)
        for cpu in range(16, 24)
    ]
    return FakeMachine(fast + slow, {"cpu_core": "0-15", "cpu_atom": "16-23"})


def three_types() -> FakeMachine:
    """Six P without siblings, eight E, two LP-E outside the L3, identified by PMU folders."""
    cpus = [FakeCpu(cpu, cpu, cpu) for cpu in range(6)]
    cpus += [FakeCpu(cpu, cpu, cpu, l2=100 + cpu // 4) for cpu in range(6, 14)]
    cpus += [FakeCpu(cpu, cpu, cpu, l2=200, l3=1) for cpu in range(14, 16)]
    pmus = {"cpu_core": "0-5", "cpu_atom": "6-13", "cpu_lowpower": "14-15"}
    return FakeMachine(cpus, pmus)


def favoured_cores() -> FakeMachine:
    """Eight cores with siblings, two of them favored by 4 %: one type."""
    return FakeMachine(
        [
            FakeCpu(
                cpu, cpu // 2, cpu // 2, highest_perf=208 if cpu in (4, 5, 10, 11) else 200,
                max_khz=5_200_000 if cpu in (4, 5, 10, 11) else 5_000_000,
            )
            for cpu in range(16)
        ]
    )  # fmt: skip


def two_packages() -> FakeMachine:
    """Two packages of four cores with siblings; `core_id` begins anew in each."""
    return FakeMachine(
        [
            FakeCpu(cpu, cpu % 8, cpu % 4, (cpu % 8) // 4, node=(cpu % 8) // 4, l3=(cpu % 8) // 4)
            for cpu in range(16)
        ]
    )


def big_little() -> FakeMachine:
    """Four small and four big cores by capacity, no siblings, clusters that reuse core ids."""
    return FakeMachine(
        [
            FakeCpu(cpu, cpu, cpu % 4, l2=cpu // 4, capacity=446 if cpu < 4 else 1024)
            for cpu in range(8)
        ]
    )


def no_smt() -> FakeMachine:
    """Six cores with one thread each, without speed information."""
    return FakeMachine([FakeCpu(cpu, cpu, cpu) for cpu in range(6)])


def _mask(cpus: Sequence[int]) -> str:
    """The kernel's hex groups of 32, of a kernel built for 512 CPUs."""
    bits = sum(1 << cpu for cpu in cpus)
    return ",".join(f"{bits >> (32 * group) & 0xFFFFFFFF:08x}" for group in reversed(range(16)))


def _put(path: Path, text: str) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text + "\n", encoding="utf-8")
