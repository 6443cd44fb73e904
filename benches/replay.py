"""Processor time and memory of a replay: `replay.py [SECONDS]` of a simulated recording.

Simulates the demo's case `critical_path` for that long, by default until it has about a million
context switches. Reads and replays it on one CPU, without a change and with one.
"""

from __future__ import annotations

import json
import subprocess
import sys
import tempfile
import time
from itertools import pairwise
from pathlib import Path

import duckdb
from timing import one_core

from schedlens.load.arrow_folder.simulated import write_folder
from schedlens.replay import alterations, programs, rerun
from schedlens.simulate import cases

SECONDS = 153.0
CASE = "critical_path"
CHANGE = "priority Worker 0=14"


def recording(folder: Path, seconds: float) -> Path:
    """Analyzes a simulated recording of that length; returns the database."""
    case = next(case for case in cases.CASES if case.name == CASE)
    write_folder(case.play(seconds=seconds), folder / CASE, label=CASE)
    program = Path(sys.executable).parent / "schedlens"
    subprocess.run(
        [program, "analyze", folder / CASE, "-o", folder / "out", "--no-report",
         "--only", "thread_summary"],
        stdout=subprocess.DEVNULL, check=True,
    )  # fmt: skip
    return folder / "out/analysis.duckdb"


def measured(database: Path) -> dict[str, float]:
    """Processor s of each part, and the peak memory of this process in MiB."""
    one_core()
    times = [time.process_time()]
    with duckdb.connect(str(database), read_only=True, config={"threads": 1}) as con:
        recorded = programs.read(con, 1)
    times.append(time.process_time())
    unchanged = rerun.replay(recorded)
    times.append(time.process_time())
    changed = rerun.replay(alterations.changed(recorded, [alterations.parse(CHANGE)]))
    times.append(time.process_time())
    assert changed.frames != unchanged.frames
    read, replay, again = (after - before for before, after in pairwise(times))
    # ru_maxrss is also that of the process which started this one.
    status = Path("/proc/self/status").read_text(encoding="ascii")
    peak = int(status.split("VmHWM:")[1].split()[0]) / 1024
    return {
        "context switches": recorded.switches,
        "read, s": read,
        "replayed, s": replay,
        "replayed with a change, s": again,
        "read and replayed, s": read + replay,
        "peak memory, MiB": peak,
    }


def main() -> int:
    """Prints each figure."""
    if sys.argv[1:2] == ["--measure"]:
        print(json.dumps(measured(Path(sys.argv[2]))))
        return 0
    with tempfile.TemporaryDirectory() as folder:
        database = recording(Path(folder), float(sys.argv[1]) if len(sys.argv) > 1 else SECONDS)
        # A process of its own: the simulation needs memory too.
        done = subprocess.run(
            [sys.executable, __file__, "--measure", database],
            capture_output=True, text=True, check=True,
        )  # fmt: skip
    for name, value in json.loads(done.stdout).items():
        print(f"{name:<28} {value:,.{0 if value > 100 else 1}f}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
