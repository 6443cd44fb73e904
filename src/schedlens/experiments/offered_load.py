"""How many requests a second a CPU of this machine can serve: what open loops are offered by."""

from __future__ import annotations

import json
import subprocess

from schedlens.errors import WorkloadError
from schedlens.record import workload_program

PROBE_S = 0.3
# Busy half of the time: a queue, but no overload.
SHARE = 0.5


def capacity_per_s(cpu: int, seconds: float = PROBE_S) -> float:
    """Requests a second of `serve closed` alone on a CPU; raises `WorkloadError`."""
    command = [
        workload_program.program(), "run", "serve", "--cpus", str(cpu),
        "--seconds", f"{seconds:g}", "--json",
    ]  # fmt: skip
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=120, check=False)
        took_ns = float(json.loads(done.stdout)["workers"][0]["ns_per_iteration"])
    except (OSError, ValueError, KeyError, IndexError, TypeError, subprocess.TimeoutExpired):
        raise WorkloadError(
            "the probe of the service did not run: try `workloads verify`"
        ) from None
    return 1e9 / took_ns


def rate(cpu: int) -> float:
    """Requests a second to offer each worker, as a whole number."""
    return max(10.0, float(round(SHARE * capacity_per_s(cpu))))
