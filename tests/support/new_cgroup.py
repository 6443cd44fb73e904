"""A cgroup that a test makes on this machine."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterator, Mapping
from pathlib import Path

import pytest

from schedlens.machine import cgroups


@contextlib.contextmanager
def new_cgroup(
    name: str | None = None, *, v1: Mapping[str, int], v2: Mapping[str, str]
) -> Iterator[Path]:
    """The folder of a cgroup with these settings of its CPU controller, by the version of the
    hierarchy; skips if none can be made.
    """
    mounts = cgroups.mounts(Path("/proc/self/mountinfo").read_text(encoding="utf-8"))
    mount = next((one for one in mounts if "cpu" in one.controllers), None)
    mount = mount or next((one for one in mounts if one.unified), None)
    if mount is None:
        pytest.skip("no cgroup hierarchy is mounted")
    folder = mount.folder / (name or f"schedlens-test-{os.getpid()}")
    try:
        folder.mkdir()
        for file, value in (v2 if mount.unified else v1).items():
            (folder / file).write_text(str(value), encoding="ascii")
    except OSError as error:
        with contextlib.suppress(OSError):
            folder.rmdir()
        pytest.skip(f"no settings of the CPU controller can be made here: {error}")
    try:
        yield folder
    finally:
        folder.rmdir()
