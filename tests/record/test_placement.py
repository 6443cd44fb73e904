"""Which CPU each worker gets, on machines that are not here."""

from __future__ import annotations

from pathlib import Path

import pytest
import sysfs_machine as fake
from hypothesis import given
from hypothesis import strategies as st

from schedlens.errors import PlanError, TopologyError
from schedlens.machine import cpu_list, topology
from schedlens.record import placement, plan, thread_range


def read(machine: fake.FakeMachine, root: Path) -> topology.Topology:
    return topology.read(machine.write(root))


def test_physical_uses_fast_cores_then_other_cores_then_siblings(tmp_path: Path) -> None:
    machine = read(fake.eight_p_eight_e(), tmp_path)
    assert placement.order(machine, "physical") == [
        *range(0, 16, 2),
        *range(16, 24),
        *range(1, 16, 2),
    ]


def test_siblings_fill_core_by_core(tmp_path: Path) -> None:
    assert placement.order(read(fake.eight_p_eight_e(), tmp_path), "siblings") == [*range(24)]


def test_siblings_need_not_be_adjacent_numbers(tmp_path: Path) -> None:
    machine = read(fake.ten_cores_twenty_threads(), tmp_path)
    assert placement.order(machine, "physical") == [*range(20)]
    assert placement.order(machine, "siblings") == [
        cpu for core in range(10) for cpu in (core, core + 10)
    ]


def test_packages_are_filled_one_after_the_other(tmp_path: Path) -> None:
    machine = read(fake.two_packages(), tmp_path)
    assert placement.order(machine, "physical") == [*range(16)]
    assert placement.order(machine, "siblings") == [
        cpu for core in range(8) for cpu in (core, core + 8)
    ]


def test_big_cores_come_first(tmp_path: Path) -> None:
    machine = read(fake.big_little(), tmp_path)
    assert placement.order(machine, "physical") == [4, 5, 6, 7, 0, 1, 2, 3]


def test_offline_cpus_get_no_worker(tmp_path: Path) -> None:
    machine = read(fake.ten_cores_twenty_threads(offline=(3, 14)), tmp_path)
    # Core 3 has only CPU 13 left, the first of its core: it comes before any sibling.
    assert placement.order(machine, "physical") == [
        0, 1, 2, 4, 5, 6, 7, 8, 9, 13, 10, 11, 12, 15, 16, 17, 18, 19,
    ]  # fmt: skip


def test_rank_counts_allowed_siblings_only(tmp_path: Path) -> None:
    root = fake.ten_cores_twenty_threads().write(tmp_path)
    machine = topology.read(root, allowed=(10, 11, 1, 2))
    assert placement.order(machine, "physical") == [10, 1, 2, 11]


def test_default_placement_has_no_affinity(tmp_path: Path) -> None:
    assert placement.planned(read(fake.no_smt(), tmp_path), "default", 3) is None


def test_more_threads_than_cpus_wrap_around(tmp_path: Path) -> None:
    machine = read(fake.no_smt(), tmp_path)
    assert placement.planned(machine, "physical", 8) == [0, 1, 2, 3, 4, 5, 0, 1]


def test_manual_pinning_keeps_order_and_repeats(tmp_path: Path) -> None:
    machine = read(fake.no_smt(), tmp_path)
    assert placement.pinned(machine, cpu_list.parse_in_order("5,1,1"), 4) == [5, 1, 1, 5]
    with pytest.raises(PlanError, match="CPU 9 is not online and allowed here; choose from 0-5"):
        placement.pinned(machine, [0, 9], 2)
    with pytest.raises(PlanError, match="the list is empty"):
        placement.pinned(machine, [], 2)


def test_hidden_cores_refuse_placement_by_core(tmp_path: Path) -> None:
    cpus = (topology.Cpu(0, online=True), topology.Cpu(1, online=True))
    machine = topology.Topology(cpus, (0, 1), {})
    with pytest.raises(PlanError, match="does not report which logical CPUs share a core"):
        placement.order(machine, "physical")
    assert placement.planned(machine, "default", 2) is None


def test_equal_plans_run_once_and_keep_both_names(tmp_path: Path) -> None:
    machine = read(fake.no_smt(), tmp_path)
    steps = plan.sweep(machine, "sha256", [1, 7], placement.PLACEMENTS, 1, None)
    assert [(step.name, step.placements, step.oversubscribed) for step in steps] == [
        ("sha256-default-t01-r1", ("default",), False),
        ("sha256-physical-t01-r1", ("physical", "siblings"), False),
        ("sha256-default-t07-r1", ("default",), True),
        ("sha256-physical-t07-r1", ("physical", "siblings"), True),
    ]


def test_sweep_with_siblings_has_all_its_steps(tmp_path: Path) -> None:
    machine = read(fake.ten_cores_twenty_threads(), tmp_path)
    steps = plan.sweep(machine, "sha256", range(1, 21), placement.PLACEMENTS, 2, None)
    # At one thread both pinned plans are CPU 0; at all others they differ.
    assert len(steps) == 2 * (20 * 3 - 1)
    assert len({step.name for step in steps}) == len(steps)
    assert not any(step.oversubscribed for step in steps)
    fourteen = next(step for step in steps if step.name == "sha256-siblings-t14-r2")
    assert fourteen.planned_cpus == tuple(cpu for core in range(7) for cpu in (core, core + 10))


def test_two_workers_on_one_cpu_are_oversubscribed(tmp_path: Path) -> None:
    machine = read(fake.no_smt(), tmp_path)
    (step,) = plan.sweep(machine, "spin_handoff", [2], placement.PLACEMENTS, 1, [1, 1])
    assert (step.placement, step.planned_cpus, step.oversubscribed) == ("pinned", (1, 1), True)


@pytest.mark.parametrize(
    ("text", "numbers"),
    [
        ("1..20", [*range(1, 21)]),
        ("1,2,4", [1, 2, 4]),
        ("1..20:2", [*range(1, 20, 2)]),
        ("max", [6]),
        ("1..max", [1, 2, 3, 4, 5, 6]),
        ("4,1..3,2", [1, 2, 3, 4]),
    ],
)
def test_thread_counts_are_parsed(text: str, numbers: list[int]) -> None:
    assert thread_range.parse(text, 6) == numbers


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "'' is not a thread count"),
        ("0", "'0' is outside the range 1 to 4096"),
        ("3..1", "'3..1' runs backwards"),
        ("1..4:0", "'1..4:0' has a stride of 0"),
        ("1-4", "'1-4' is not a thread count; write 1..20"),
        ("1..99999999999999999999", "outside the range"),
        ("1e3", "'1e3' is not a thread count"),
        ("-1", "'-1' is not a thread count"),
    ],
)
def test_invalid_thread_counts_are_refused(text: str, message: str) -> None:
    with pytest.raises(PlanError) as caught:
        thread_range.parse(text, 6)
    assert message in str(caught.value)


@given(st.sets(st.integers(0, 2000)))
def test_cpu_list_round_trips(cpus: set[int]) -> None:
    assert cpu_list.parse(cpu_list.text(cpus)) == sorted(cpus)


def test_kernel_cpu_lists_are_parsed() -> None:
    assert cpu_list.parse("0-3,8,10-11\n") == [0, 1, 2, 3, 8, 10, 11]
    assert cpu_list.parse("0-15:2/8") == [0, 1, 8, 9]
    assert cpu_list.parse("\n") == []
    for wrong in ("0-", "a", "3-1", "0-99999999", "1:2", "--"):
        with pytest.raises(TopologyError):
            cpu_list.parse(wrong)
