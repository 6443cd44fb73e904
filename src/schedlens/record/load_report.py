"""What a live service has served so far, as a command that the user names reports it.

The command prints one JSON object: `requests`, their number since any time in the past, and
optionally `latency_ns`, a list of [upper end of a bucket in ns, requests in it] since the same
time, as a load generator or the service counts them. It runs before and after each interval; the
growth is what was served in it.
"""

from __future__ import annotations

import json
import subprocess
import time
from dataclasses import dataclass

from schedlens.errors import WorkloadError
from schedlens.load.step_file import Served

# A report that takes longer cannot say when it counted.
LIMIT_S = 10.0
_MOST_BYTES = 1 << 20
_MOST = (1 << 63) - 1


@dataclass(frozen=True, slots=True)
class Report:
    """The counts at `mono_ns`; `latency` is requests by bucket, None: not reported."""

    mono_ns: int
    requests: int
    latency: dict[int, int] | None


def read(command: str) -> Report:
    """Runs the command in a shell. Raises `WorkloadError` if it prints no valid report."""
    begin = time.monotonic_ns()
    try:
        done = subprocess.run(
            ["/bin/sh", "-c", command],
            stdin=subprocess.DEVNULL,
            capture_output=True,
            timeout=LIMIT_S,
            check=False,
        )
    except OSError as error:
        raise WorkloadError(f"--load-report: cannot run /bin/sh: {error.strerror}") from None
    except subprocess.TimeoutExpired:
        raise WorkloadError(f"--load-report: no answer within {LIMIT_S:g} s") from None
    # It counted at some time while it ran.
    at = (begin + time.monotonic_ns()) // 2
    if done.returncode != 0:
        said = done.stderr.decode("utf-8", "replace").strip().splitlines()
        why = f": {said[-1][:200]}" if said else ""
        raise WorkloadError(f"--load-report: the command exited with code {done.returncode}{why}")
    return parsed(done.stdout, at)


def parsed(text: bytes, mono_ns: int) -> Report:
    """The report in a text. Raises `WorkloadError`, which says what is wrong with it."""
    if len(text) > _MOST_BYTES:
        raise WorkloadError(f"--load-report: printed more than {_MOST_BYTES >> 20} MiB")
    try:
        value = json.loads(text)
    except (ValueError, RecursionError):
        raise WorkloadError("--load-report: printed no JSON object") from None
    if not isinstance(value, dict) or not _is_count(value.get("requests")):
        raise WorkloadError("--load-report: `requests` is not a number of requests")
    buckets = value.get("latency_ns")
    if buckets is None:
        return Report(mono_ns, value["requests"], None)
    latency: dict[int, int] = {}
    for row in buckets if isinstance(buckets, list) else [None]:
        if not isinstance(row, list) or len(row) != 2 or not all(map(_is_count, row)):
            raise WorkloadError("--load-report: `latency_ns` is not a list of [ns, requests]")
        latency[row[0]] = min(latency.get(row[0], 0) + row[1], _MOST)
    return Report(mono_ns, value["requests"], latency)


def growth(before: Report, after: Report) -> Served:
    """What was served between two reports; the reason if their counts fell."""
    requests = after.requests - before.requests
    latency = None
    fell = requests < 0
    if before.latency is not None and after.latency is not None:
        old, new = before.latency, after.latency
        rows = [(upper, new.get(upper, 0) - old.get(upper, 0)) for upper in sorted(old | new)]
        fell = fell or any(count < 0 for _, count in rows)
        latency = tuple(row for row in rows if row[1])
    if fell:
        return Served(why="the counts of --load-report fell: whatever counts was restarted")
    return Served(requests, after.mono_ns - before.mono_ns, latency)


def _is_count(value: object) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and 0 <= value <= _MOST
