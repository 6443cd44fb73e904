"""Programs with a real-time fault: `real_time_faults.py fifo|deadline|meets`, on a real Linux.

Each sets its policy itself, as a program that `chrt` starts would have it.
"""

from __future__ import annotations

import ctypes
import os
import sys
import time

SYS_SCHED_SETATTR = {"x86_64": 314, "aarch64": 274}
MS = 1_000_000


class Attributes(ctypes.Structure):
    """struct sched_attr of the kernel."""

    _fields_ = (
        ("size", ctypes.c_uint32), ("policy", ctypes.c_uint32), ("flags", ctypes.c_uint64),
        ("nice", ctypes.c_int32), ("priority", ctypes.c_uint32), ("runtime", ctypes.c_uint64),
        ("deadline", ctypes.c_uint64), ("period", ctypes.c_uint64),
    )  # fmt: skip


def deadline(runtime_ms: int, period_ms: int) -> None:
    """Puts the calling thread into SCHED_DEADLINE."""
    wanted = Attributes(
        size=48, policy=6, runtime=runtime_ms * MS, deadline=period_ms * MS, period=period_ms * MS
    )
    call = ctypes.CDLL(None, use_errno=True).syscall
    if call(SYS_SCHED_SETATTR[os.uname().machine], 0, ctypes.byref(wanted), 0) != 0:
        print(f"refused: {os.strerror(ctypes.get_errno())}", flush=True)
        sys.exit(3)


def spin(seconds: float) -> None:
    """Computes without end."""
    until = time.monotonic() + seconds
    while time.monotonic() < until:
        pass


def fifo() -> None:
    """A SCHED_FIFO thread and one that shares its CPU and can only wait."""
    cpu = max(os.sched_getaffinity(0))
    os.sched_setaffinity(0, {cpu})
    child = os.fork()
    if not child:
        spin(1.5)
        os._exit(0)
    try:
        os.sched_setscheduler(0, os.SCHED_FIFO, os.sched_param(50))
    except OSError as error:
        print(f"refused: {error.strerror}", flush=True)
        sys.exit(3)
    spin(1.2)
    os.sched_setscheduler(0, os.SCHED_OTHER, os.sched_param(0))
    os.waitpid(child, 0)


if __name__ == "__main__":
    fault = sys.argv[1]
    if fault == "fifo":
        fifo()
    elif fault == "deadline":
        # Jobs without end, 4 ms of each 20 ms.
        deadline(4, 20)
        spin(0.6)
    else:
        # Jobs of about 1 ms each 20 ms, with a runtime of 10 ms.
        deadline(10, 20)
        for _ in range(20):
            spin(0.001)
            time.sleep(0.019)
        # The end of the interpreter would be a job of 5 to 10 ms.
        os.sched_setscheduler(0, os.SCHED_OTHER, os.sched_param(0))
