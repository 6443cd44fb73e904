"""Measures decoding and loading, as ratios to `perf sched timehist` in the same run.

`make bench` records about 12 M records of two pipes and a message storm (or uses the given
perf.data). It then times each of these three times, in turn: timehist printing to a file, one core
decoding to Arrow, and loading into a finished database with all derived tables.
"""

from __future__ import annotations

import json
import os
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

import duckdb

from schedlens import _decoders
from schedlens.load import store
from schedlens.load.recording import Recording

ROUNDS = 3
EVENTS = ",".join(
    (
        "sched:sched_switch",
        "sched:sched_waking",
        "sched:sched_wakeup_new",
        "sched:sched_migrate_task",
        "sched:sched_process_fork",
        "sched:sched_process_exit",
        "sched:sched_process_exec",
    )
)


def record(target: Path, loops: int) -> None:
    """Makes a recording with about eight records per loop of the pipe benchmark."""
    load = (
        f"perf bench sched pipe -l {loops} & perf bench sched pipe -l {loops} & "
        "perf bench sched messaging -g 5 -l 2000; wait"
    )
    subprocess.run(
        ["perf", "record", "--no-bpf-event", "-B", "-N", "-a", "-m", "16M", "-k",
         "CLOCK_MONOTONIC", "-o", str(target), "-e", EVENTS, "--", "bash", "-c", load],
        check=True, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
    )  # fmt: skip


def seconds(job: Callable[[], None]) -> tuple[float, float]:
    """Wall time and processor time of one run, including its child processes."""
    start, used = time.perf_counter(), sum(os.times()[:4])
    job()
    return time.perf_counter() - start, sum(os.times()[:4]) - used


def main(arguments: list[str]) -> int:
    """Prints one JSON object: medians in seconds, ratios to timehist."""
    folder = Path(tempfile.mkdtemp(prefix="schedlens-bench-"))
    try:
        trace = Path(arguments[0]) if arguments else folder / "perf.data"
        if not arguments:
            record(trace, 1_900_000)
        times: dict[str, list[tuple[float, float]]] = {"timehist": [], "decode": [], "load": []}
        printed = folder / "timehist.txt"

        def timehist() -> None:
            with printed.open("wb") as out:
                subprocess.run(
                    ["perf", "sched", "timehist", "-i", str(trace)],
                    check=True, stdout=out, stderr=subprocess.DEVNULL,
                )  # fmt: skip

        def decode() -> None:
            _decoders.decode_only(str(trace))

        def load() -> None:
            with store.create(folder / "bench.duckdb") as con:
                con.begin()
                store.load_base_and_derived(con, Recording("bench", trace), 1)
                con.commit()

        records, rows, _ = _decoders.decode_only(str(trace))
        for _ in range(ROUNDS):
            trace.read_bytes()  # Refill the page cache, which shrinks under memory pressure.
            times["timehist"].append(seconds(timehist))
            times["decode"].append(seconds(decode))
            times["load"].append(seconds(load))
        with duckdb.connect(str(folder / "bench.duckdb"), read_only=True) as con:
            tables = {
                name: (con.execute(f"SELECT count(*) FROM {name}").fetchone() or (0,))[0]
                for name in ("context_switch", "wakeup", "sched_slice", "thread_state", "cpu_state")
            }
        median, used = (
            {name: statistics.median(one[kind] for one in goes) for name, goes in times.items()}
            for kind in (0, 1)
        )
        print(
            json.dumps(
                {
                    "records": records,
                    "arrow_rows": rows,
                    "file_mb": round(trace.stat().st_size / 1e6),
                    "cpus": os.cpu_count(),
                    "seconds": {name: round(value, 3) for name, value in median.items()},
                    "processor_seconds": {name: round(value, 3) for name, value in used.items()},
                    "decode_records_per_s": round(records / median["decode"]),
                    "decode_times_faster_than_timehist": round(
                        median["timehist"] / median["decode"], 1
                    ),
                    "load_times_faster_than_timehist": round(
                        median["timehist"] / median["load"], 2
                    ),
                    "rows": tables,
                },
                indent=2,
            )
        )
    finally:
        shutil.rmtree(folder)
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
