"""How many requests a second one CPU can serve, which sets the load of open loops."""

from __future__ import annotations

import json
import subprocess

from schedlens.errors import WorkloadError
from schedlens.record import workload_program

PROBE_S = 0.3
# Busy half of the time: this causes queues, but no overload.
SHARE = 0.5


def capacity_per_s(cpu: int, seconds: float = PROBE_S) -> float:
    """Requests a second of `serve closed` alone on a CPU. Raises `WorkloadError`."""
    command = [
        workload_program.program(), "run", "serve", "--cpus", str(cpu),
        "--seconds", f"{seconds:g}", "--json",
    ]  # fmt: skip
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=120, check=False)
        took_ns = float(json.loads(done.stdout)["workers"][0]["ns_per_iteration"])
    except (OSError, ValueError, KeyError, IndexError, TypeError, subprocess.TimeoutExpired):
        raise WorkloadError(
            "cannot measure the service rate: try `schedlens workloads verify`"
        ) from None
    return 1e9 / took_ns


def rate(cpu: int) -> float:
    """Requests a second to offer each worker, as a whole number."""
    return max(10.0, float(round(SHARE * capacity_per_s(cpu))))
