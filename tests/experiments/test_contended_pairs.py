"""Kernels of contended data structures as pairs: in every place, with operations and their cost."""

from __future__ import annotations

from pathlib import Path

import pytest
import sysfs_machine as fake
from workloads.test_workloads import recorded

from schedlens.experiments import pairs
from schedlens.machine import topology

KERNELS = ("mpmc_queue", "atomic_counter", "spin_lock", "mutex", "false_sharing")


def test_contended_kernels_run_in_every_place(tmp_path: Path) -> None:
    machine = topology.read(fake.eight_p_eight_e().write(tmp_path))
    only = [f"{kernel}+{kernel}" for kernel in KERNELS]
    made, _ = pairs.plan(machine, full=False, only=only)
    both = {(cell.loads[0].kernel, cell.place) for cell in made if len(cell.loads) == 2}
    places = {place for _, place in both}
    assert {"siblings", "same_llc", "p_beside_e"} <= places
    assert both == {(kernel, place) for kernel in KERNELS for place in places}


@pytest.mark.alone
@pytest.mark.parametrize("kernel", KERNELS)
def test_operations_of_both_workers_are_counted_with_their_cycles(
    kernel: str, tmp_path: Path
) -> None:
    result = recorded(tmp_path, kernel, "--threads", "2", "--seconds", "0.1")
    assert all(proof["ok"] for proof in result["proofs"])
    for worker in result["workers"]:
        # Each batch counts in cycles of the nearest reading of the clock. Of those during the run
        # only the median is known.
        ghz = worker["core_cycles_per_iteration"] / worker["ns_per_iteration"]
        read = [worker[f"core_ghz_{when}"] for when in ("before", "during", "after")]
        known = [value for value in read if value is not None]
        assert 0.8 * min(known) <= ghz <= 1.2 * max(known)
        counts = worker["counts"]
        if kernel != "false_sharing":
            assert counts["handovers"] <= counts["operations"]
    per_s = [
        1e9 * worker["iterations"] / (worker["end_mono_ns"] - worker["start_mono_ns"])
        for worker in result["workers"]
    ]
    assert result["measured"]["iterations_per_s"] == pytest.approx(sum(per_s), rel=1e-6)
