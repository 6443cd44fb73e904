"""Runs a command of schedlens as an ordinary user: `python unprivileged.py collect ...`, as root.

All modules are imported first: the ordinary user may not be allowed to read their folder.
"""

from __future__ import annotations

import importlib
import os
import sys

MODULES = (
    "ask.disturbed_steps",
    "commands.analyze",
    "commands.collect",
    "commands.doctor",
    "commands.self_test",
    "record.examination",
    "record.linux.platform",
    "record.loop",
    "record.request",
    "record.targets",
    "experiments.conduct",
    "collectors.perf",
)
NOBODY = 65534


def main() -> int:
    """Gives up root for good, then runs the command."""
    for name in MODULES:
        importlib.import_module(f"schedlens.{name}")
    cli = importlib.import_module("schedlens.commands.cli")
    os.setgroups([])
    os.setresgid(NOBODY, NOBODY, NOBODY)
    os.setresuid(NOBODY, NOBODY, NOBODY)
    code: int = cli.run(cli.group, sys.argv[1:], name="schedlens")
    return code


if __name__ == "__main__":
    sys.exit(main())
