"""Compares the decoding of Windows .etl files with two Python readers, in one run.

`make bench` writes 1 GB of context switches, plain and XPRESS, and 100 MB and 20 MB of the same.
Each measurement runs in its own process on one core and is timed by its own CPU clock (user and
system), so other programs do not count. MB/s refers to the records' content, not the file size.
dissect.etl and etl-parser are installed in a virtual environment in a temporary folder. They walk
the 20 MB file for at most `PATIENCE` seconds, and what they have read by then counts.
"""

from __future__ import annotations

import json
import os
import shutil
import statistics
import subprocess
import sys
import tempfile
import venv
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parent.parent
ROUNDS = 5
LARGE, MIDDLE, SMALL = 1000, 100, 20
PATIENCE = 60

OURS = """
import json, resource, sys, time
from schedlens import _decoders
start, wall = time.process_time(), time.perf_counter()
records, rows, _ = _decoders.decode_only(sys.argv[1])
print(json.dumps({
    "records": records,
    "rows": rows,
    "seconds": time.process_time() - start,
    "wall": time.perf_counter() - wall,
    "peak_mb": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024,
}))
"""

# Both walk all records, header by header, which is less work than decoding them. Time is checked
# between two records.
DISSECT = """
import json, sys, time
from dissect.etl import ETL
start, patience, records = time.process_time(), float(sys.argv[2]), 0
with open(sys.argv[1], "rb") as file:
    for record in ETL(file):
        records += 1
        if records % 1000 == 0 and time.process_time() - start > patience:
            break
print(json.dumps({"records": records, "seconds": time.process_time() - start}))
"""

ETL_PARSER = """
import json, sys, time
from etl.etl import IEtlFileObserver, build_from_stream

class Enough(Exception):
    pass

class Walk(IEtlFileObserver):
    records = 0

    def count(self, record):
        self.records += 1
        if self.records % 1000 == 0 and time.process_time() - start > patience:
            raise Enough

    on_event_record = on_trace_record = on_win_trace = count
    on_perfinfo_trace = on_system_trace = count

start, patience, walk = time.process_time(), float(sys.argv[2]), Walk()
with open(sys.argv[1], "rb") as file:
    try:
        build_from_stream(file.read()).parse(walk)
    except Enough:
        pass
print(json.dumps({"records": walk.records, "seconds": time.process_time() - start}))
"""


def one_core() -> None:
    """Pins the process to the last core it may use."""
    if hasattr(os, "sched_setaffinity"):
        os.sched_setaffinity(0, {max(os.sched_getaffinity(0))})


def go(python: str, code: str, *arguments: str) -> dict[str, Any]:
    """Runs one measurement in a process; returns what it printed last."""
    done = subprocess.run(
        [python, "-c", code, *arguments],
        check=True, capture_output=True, text=True, preexec_fn=one_core,
    )  # fmt: skip
    found: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])
    return found


def flood(program: Path, megabytes: int, target: Path, compression: str) -> int:
    """Writes a file; returns the number of its records."""
    command = [str(program), "flood", str(megabytes), str(target), compression]
    done = subprocess.run(command, check=True, capture_output=True, text=True)
    return int(done.stdout)


def ours(trace: Path, content_mb: float) -> dict[str, Any]:
    """Median and best of several rounds over one file, which is in the page cache."""
    with trace.open("rb") as file:
        while file.read(1 << 24):
            pass
    rounds = [go(sys.executable, OURS, str(trace)) for _ in range(ROUNDS)]
    seconds = statistics.median(one["seconds"] for one in rounds)
    best = min(one["seconds"] for one in rounds)
    return {
        "file_mb": round(trace.stat().st_size / 1e6),
        "records": rounds[0]["records"],
        "arrow_rows": rounds[0]["rows"],
        "cpu_seconds": round(seconds, 3),
        "wall_seconds": round(statistics.median(one["wall"] for one in rounds), 3),
        "mb_per_s": round(content_mb / seconds),
        "best_mb_per_s": round(content_mb / best),
        "peak_memory_mb": round(max(one["peak_mb"] for one in rounds)),
    }


def others(folder: Path, trace: Path, records: int, content_mb: float) -> dict[str, Any]:
    """Measures the two Python readers, if a package index is reachable."""
    venv.create(folder / "others", with_pip=True)
    python = str(folder / "others" / "bin" / "python")
    installed = subprocess.run(
        [python, "-m", "pip", "install", "--quiet", "dissect.etl", "etl-parser"],
        check=False, capture_output=True, text=True,
    )  # fmt: skip
    if installed.returncode:
        return {"not compared": installed.stderr.strip().splitlines()[-1]}
    found: dict[str, Any] = {}
    for name, code in (("dissect.etl", DISSECT), ("etl-parser", ETL_PARSER)):
        result = go(python, code, str(trace), str(PATIENCE))
        speed = content_mb * result["records"] / records / result["seconds"]
        found[name] = {"records_read": result["records"], "mb_per_s": round(speed, 3)}
    return found


def main() -> int:
    """Prints one JSON object."""
    subprocess.run(
        ["cargo", "build", "--release", "--locked", "-p", "schedlens-test-writer"],
        cwd=ROOT, check=True,
    )  # fmt: skip
    program = ROOT / "target" / "release" / "schedlens-test-writer"
    folder = Path(tempfile.mkdtemp(prefix="schedlens-bench-"))
    try:
        traces = {
            (size, how): folder / f"{how}{size}.etl"
            for size in (SMALL, MIDDLE, LARGE)
            for how in ("none", "xpress")
        }
        counts = {key: flood(program, *_order(key, path)) for key, path in traces.items()}
        plain = {size: traces[size, "none"].stat().st_size / 1e6 for size in (SMALL, MIDDLE, LARGE)}
        results: dict[str, Any] = {"cpus": os.cpu_count()}
        for (size, how), trace in traces.items():
            results[f"{how} {size} MB"] = ours(trace, plain[size])
        small = plain[SMALL]
        compared = others(folder, traces[SMALL, "none"], counts[SMALL, "none"], small)
        for other in compared.values():
            if isinstance(other, dict):
                own = results[f"none {SMALL} MB"]["mb_per_s"]
                other["times_slower"] = round(own / other["mb_per_s"])
        print(json.dumps(results | {"others, 20 MB": compared}, indent=2))
    finally:
        shutil.rmtree(folder)
    return 0


def _order(key: tuple[int, str], path: Path) -> tuple[int, Path, str]:
    return key[0], path, key[1]


if __name__ == "__main__":
    sys.exit(main())
