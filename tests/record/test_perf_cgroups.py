"""The cgroups in perf.data are those that the kernel states for the thread itself."""

from __future__ import annotations

import contextlib
import os
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest
from conftest import needs_tracing
from decoded import decoded

from schedlens.machine import cgroups

pytestmark = pytest.mark.records

_EVENTS = "sched:sched_switch,cgroup:cgroup_attach_task"
# Moves itself into the cgroup, and starts a child there, which prints what the kernel says.
_PROGRAM = (
    'echo $$; echo $$ > "$1/cgroup.procs"; sh -c "echo \\$\\$; cat /proc/self/cgroup; sleep 0.05"'
)


@pytest.fixture
def folder() -> Iterator[Path]:
    """A new cgroup of the unified hierarchy."""
    needs_tracing()
    mountinfo = Path("/proc/self/mountinfo").read_text()
    unified = [mount for mount in cgroups.mounts(mountinfo) if mount.unified]
    made = unified[0].folder / f"schedlens-test-{os.getpid()}" if unified else None
    try:
        if made is not None:
            made.mkdir()
    except OSError as error:
        pytest.skip(f"no cgroup can be made here: {error}")
    if made is None:
        pytest.skip("this machine mounts no unified cgroup hierarchy")
    yield made
    with contextlib.suppress(OSError):
        made.rmdir()


@pytest.mark.parametrize("options", [[], ["--all-cgroups"]], ids=["moves", "moves and samples"])
def test_cgroups_are_those_that_the_kernel_states(
    options: list[str], folder: Path, tmp_path: Path
) -> None:
    trace = tmp_path / "perf.data"
    command = ["perf", "record", "-a", *options, "-e", _EVENTS, "-o", str(trace), "--", "sh", "-c"]
    done = subprocess.run(
        [*command, _PROGRAM, "sh", str(folder)], check=False, capture_output=True, text=True
    )
    if "not permitted" in done.stderr or "not supported" in done.stderr:
        pytest.skip(f"perf cannot record this here: {done.stderr.splitlines()[0]}")
    assert done.returncode == 0, done.stderr
    mover, child, *lines = done.stdout.split()
    stated = next(line.removeprefix("0::") for line in lines if line.startswith("0::"))
    assert stated.endswith(folder.name)
    tables = decoded(trace)
    rows = tables["thread_cgroup"].to_pylist()
    of_child = [row for row in rows if row["tid"] == int(child)]
    # The child began where its creator was.
    assert [(row["cgroup"], row["source"]) for row in of_child] == [(stated, "birth")]
    of_mover = [row for row in rows if row["tid"] == int(mover)]
    # The sample of the move itself already has the new cgroup.
    *before, after = of_mover
    assert (after["cgroup"], after["source"]) == (stated, "sample" if options else "move")
    assert bool(before) == bool(options)
