"""What a fleet run costs: recordings per minute, CPU time and bytes each, and fleet queries.

`make bench-fleet` makes small recordings from a fixture, analyzes them with 1 and with 2 workers,
then adds some to a lake that is empty and to one with many recordings, and asks the larger one.
docs/scale.md uses the figures.
"""

from __future__ import annotations

import argparse
import json
import lzma
import os
import resource
import shutil
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

import synthetic_fleet

from schedlens.lake import checkpoint
from schedlens.lake.file_access import LakeFiles

ROOT = Path(__file__).resolve().parents[1]
FIXTURE = ROOT / "fixtures" / "perf" / "plain.perf.data.xz"
BIN = Path(sys.executable).parent
QUERIES = (
    "fleet_distribution", "fleet_regression", "fleet_finding", "fleet_outlier",
    "fleet_machine_class",
)  # fmt: skip


def make(folder: Path, number: int, seed: int) -> Path:
    """`number` recordings with different content."""
    content = lzma.decompress(FIXTURE.read_bytes())
    folder.mkdir(parents=True)
    for place in range(number):
        (folder / f"{place}.perf.data").write_bytes(content + f"{seed} {place}".encode())
    return folder


def fleet(sources: Path, lake: Path, workers: int) -> dict[str, Any]:
    """Runs the command: its JSON, with wall and CPU time (s) of all its processes."""
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    began = time.monotonic()
    done = subprocess.run(
        [str(BIN / "schedlens"), "fleet", str(sources), "--lake", str(lake),
         "--workers", str(workers), "--json"],
        capture_output=True, text=True, check=False,
    )  # fmt: skip
    wall = time.monotonic() - began
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    cpu = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
    if done.returncode:
        sys.exit(done.stderr)
    return {**json.loads(done.stdout), "wall_s": wall, "cpu_s": cpu}


def busy_cpus() -> float:
    """How many CPUs other programs used during one second: 0 on a machine at rest."""

    def used() -> float:
        fields = [int(word) for word in Path("/proc/stat").read_text().split("\n")[0].split()[1:]]
        return (sum(fields[:8]) - fields[3] - fields[4]) / os.sysconf("SC_CLK_TCK")

    first = used()
    time.sleep(1)
    return used() - first


def main() -> None:
    """Prints one line per figure."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--recordings", type=int, default=40)
    parser.add_argument("--lake-size", type=int, default=1000)
    chosen = parser.parse_args()
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        os.environ["SCHEDLENS_CACHE_DIR"] = str(folder / "cache")
        print(f"CPUs {os.cpu_count()}, used by other programs before: {busy_cpus():.1f}")
        # The empty database that all later ones are copies of.
        fleet(make(folder / "first", 1, 0), folder / "lake0", 1)
        rates = {}
        for workers in (1, 2):
            sources = make(folder / f"rate{workers}", chosen.recordings, workers)
            result = fleet(sources, folder / f"lake{workers}", workers)
            rates[workers] = 60 * result["new"] / result["seconds"]
            print(
                f"{workers} workers: {rates[workers]:.0f} recordings per minute, "
                f"{result['cpu_s'] / result['new']:.2f} CPU s each, start and end "
                f"{result['wall_s'] - result['seconds']:.1f} s"
            )
        print(f"2 workers are {rates[2] / rates[1]:.2f} times as fast as 1")
        files = [path for path in (folder / "lake2").rglob("*") if path.is_file()]
        print(
            f"lake: {len(files) / chosen.recordings:.0f} files and "
            f"{sum(path.stat().st_size for path in files) / chosen.recordings / 1024:.0f} KiB per "
            f"recording of {next((folder / 'rate2').iterdir()).stat().st_size / 1024:.0f} KiB"
        )
        big = folder / "big"
        synthetic_fleet.write(
            big, machines=chosen.lake_size // 20, builds=10, per_build=2, slow_from=5
        )
        checkpoint.write(LakeFiles(big))
        for lake, size in ((folder / "empty", 0), (big, chosen.lake_size)):
            result = fleet(make(folder / f"more{size}", 10, 10 + size), lake, 2)
            print(
                f"10 recordings into a lake of {size}: {result['seconds'] / 10:.2f} s, "
                f"{result['cpu_s'] / 10:.2f} CPU s each"
            )
        began = time.monotonic()
        fleet(folder / f"more{chosen.lake_size}", big, 2)
        print(f"a run without anything new: {time.monotonic() - began:.2f} s")
        for query in QUERIES:
            began = time.monotonic()
            subprocess.run(
                [str(BIN / "schedlens"), "sql", str(big), query, "--csv"],
                stdout=subprocess.DEVNULL, check=True,
            )  # fmt: skip
            print(f"{query} over {chosen.lake_size + 10}: {time.monotonic() - began:.2f} s")
        shutil.rmtree(folder, ignore_errors=True)


if __name__ == "__main__":
    main()
