"""Starts a process, pins it with `taskset -p`, fails to pin it, and prints what it did, as JSON."""

from __future__ import annotations

import json
import os
import subprocess
import sys


def main() -> None:
    cpu = min(os.sched_getaffinity(0))
    asleep = [sys.executable, "-c", "import sys; sys.stdin.read()"]
    with subprocess.Popen(asleep, stdin=subprocess.PIPE) as sleeper:
        command = ["taskset", "-p", "-c"]
        set_by = subprocess.Popen([*command, str(cpu), str(sleeper.pid)], stdout=subprocess.DEVNULL)
        assert set_by.wait() == 0
        # No machine has this CPU.
        failed = subprocess.run(
            [*command, "1000", str(sleeper.pid)], capture_output=True, check=False
        )
        assert failed.returncode != 0
        own = subprocess.Popen(["taskset", "-c", str(cpu), "sleep", "0.05"])
        assert own.wait() == 0
        assert sleeper.stdin is not None
        sleeper.stdin.close()
    print(
        json.dumps({"cpu": cpu, "pinned": sleeper.pid, "taskset": set_by.pid, "own": own.pid}),
        flush=True,
    )


if __name__ == "__main__":
    main()
