"""Shares of cgroups, from files as the kernel writes them and from the kernel of this machine."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from schedlens.machine import cgroups, cpu_shares

V2 = "30 20 0:27 / {root} rw - cgroup2 cgroup2 rw\n"


@pytest.mark.parametrize(("weight", "shares"), [("100", 1024), ("1", 10), ("0", 3), ("max", None)])
def test_weight_of_version_2_counts_as_the_shares_that_the_kernel_makes_of_it(
    weight: str, shares: int | None, tmp_path: Path
) -> None:
    (tmp_path / "batch").mkdir()
    (tmp_path / "batch" / "cpu.weight").write_text(f"{weight}\n", encoding="ascii")
    hierarchies = cgroups.mounts(V2.format(root=tmp_path))
    assert cpu_shares.of_cgroup("/batch", hierarchies) == shares


# cpu.idle makes all threads of a cgroup what SCHED_IDLE makes of one.
@pytest.mark.alone
def test_idle_cgroup_of_this_kernel_has_the_shares_of_sched_idle() -> None:
    hierarchies = cgroups.mounts(Path("/proc/self/mountinfo").read_text("utf-8", "replace"))
    name = f"/schedlens-test-{os.getpid()}"
    for mount in hierarchies:
        folder = mount.path(name)
        if not (mount.unified or "cpu" in mount.controllers) or not os.access(
            folder.parent, os.W_OK
        ):
            continue
        folder.mkdir()
        try:
            if not (folder / "cpu.idle").exists():
                continue
            assert cpu_shares.of_cgroup(name, hierarchies) == 1024
            (folder / "cpu.idle").write_text("1", encoding="ascii")
            assert cpu_shares.of_cgroup(name, hierarchies) == 3
            return
        finally:
            folder.rmdir()
    pytest.skip("no cgroup with cpu.idle can be made here")
