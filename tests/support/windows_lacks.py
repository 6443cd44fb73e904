"""Runs a command of schedlens without what Python on Windows lacks; the arguments are the command.

It resembles Windows only in this: modules and names that are missing there are missing here.
"""

from __future__ import annotations

import importlib
import importlib.abc
import os
import pkgutil
import shutil
import signal
import sys
import time
from collections.abc import Sequence
from importlib.machinery import ModuleSpec
from pathlib import Path
from types import ModuleType

MODULES = {"fcntl", "grp", "pwd", "resource", "termios", "tty", "pty", "syslog", "posix"}
NAMES: dict[ModuleType, tuple[str, ...]] = {
    os: (
        "chown", "fork", "forkpty", "getegid", "geteuid", "getgid", "getpgid", "getuid", "killpg",
        "mkfifo", "openpty", "pathconf", "posix_spawn", "sched_getaffinity", "sched_setaffinity",
        "setsid", "statvfs", "sysconf", "O_CLOEXEC", "O_NONBLOCK",
    ),
    signal: ("SIGHUP", "SIGKILL", "SIGUSR1", "SIGALRM", "SIGCHLD", "pthread_sigmask", "alarm"),
    time: ("clock_gettime", "clock_gettime_ns", "CLOCK_MONOTONIC"),
}  # fmt: skip
# Python's own modules and the dependencies, which handle this themselves.
BEFORE = (
    "click", "pydoc", "rich.console", "rich.progress", "rich.table", "rich.markup", "duckdb",
    "pyarrow", "pyarrow.compute",
    "plotly.graph_objects", "subprocess", "tempfile", "shutil", "pathlib", "platform", "logging",
    "multiprocessing", "gzip", "lzma", "tarfile", "zipfile", "http.server", "urllib.request",
    "xml.etree.ElementTree", "selectors", "socket", "asyncio", "importlib.resources",
    "mcp.server", "mcp.server.stdio",
)  # fmt: skip


class _Missing(importlib.abc.MetaPathFinder):
    def find_spec(
        self, fullname: str, path: Sequence[str] | None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        if fullname in MODULES:
            raise ModuleNotFoundError(f"No module named {fullname!r}", name=fullname)
        return None


def main() -> int:
    """Imports all of schedlens, then runs the command in the arguments."""
    for name in BEFORE:
        importlib.import_module(name)
    for name in MODULES:
        sys.modules.pop(name, None)
    sys.meta_path.insert(0, _Missing())
    statvfs = os.statvfs

    def disk_usage(path: str | Path) -> shutil._ntuple_diskusage:
        """Windows' own calls."""
        found = statvfs(path)
        total, free = found.f_blocks * found.f_frsize, found.f_bavail * found.f_frsize
        return shutil._ntuple_diskusage(total, total - free, free)

    shutil.disk_usage = disk_usage  # type: ignore[assignment]
    for module, names in NAMES.items():
        for name in names:
            if hasattr(module, name):
                delattr(module, name)
    import schedlens
    from schedlens.machine import operating_system

    operating_system.name = lambda: "windows"

    found = [info.name for info in pkgutil.walk_packages(schedlens.__path__, "schedlens.")]
    for name in found:
        importlib.import_module(name)
    from schedlens.commands import cli

    print(f"{len(found)} modules")
    return cli.run(cli.group, sys.argv[1:], name="schedlens")


if __name__ == "__main__":
    sys.exit(main())
