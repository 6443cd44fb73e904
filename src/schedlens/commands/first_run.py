"""Called by `make run`: sweeps sha256 on this machine and analyzes the session."""

from __future__ import annotations

import os
import sys
import time
from pathlib import Path

import click

from schedlens.commands import cli


def main() -> int:
    """Records and analyzes a session; returns the exit code of the first command that failed."""
    allowed = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else 1
    # Up to twice the CPUs, to show the cost of more threads than CPUs.
    threads = f"1..{min(20, 2 * allowed)}"
    session = Path(time.strftime("session-%Y%m%d-%H%M%S"))
    steps = [
        ["collect", "--workload", "sha256", "--threads", threads, "--seconds", "0.5",
         "-o", str(session)],
        ["analyze", str(session)],
    ]  # fmt: skip
    for arguments in steps:
        click.echo(f"$ {' '.join(arguments)}")
        code = cli.run(cli.group, arguments, name="schedlens")
        if code == 2:
            return code
    return 0


if __name__ == "__main__":
    sys.exit(main())
