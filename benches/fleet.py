"""What a fleet run costs: recordings per minute, CPU time and bytes each, and fleet queries.

`make bench-fleet` measures all parts: `rates` analyzes small recordings made from a fixture with 1
and with 2 workers; `costs` adds some to an empty lake and to one with many recordings; `questions`
asks the latter. Wall times need a machine at rest. docs/scale.md uses the figures.
"""

from __future__ import annotations

import argparse
import json
import lzma
import os
import resource
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

import synthetic_fleet

from schedlens.ask import blank_database
from schedlens.fleet import job
from schedlens.lake import checkpoint, manifest
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


def rates(folder: Path, number: int) -> None:
    """Recordings per minute with 1 and with 2 workers, and what each takes in the lake."""
    found = {}
    for workers in (1, 2):
        sources = make(folder / f"rate{workers}", number, workers)
        result = fleet(sources, folder / f"lake{workers}", workers)
        found[workers] = 60 * result["new"] / result["seconds"]
        print(
            f"{workers} workers: {found[workers]:.0f} recordings per minute, "
            f"{result['cpu_s'] / result['new']:.2f} CPU s each with all of the command"
        )
    print(f"2 workers are {found[2] / found[1]:.2f} times as fast as 1")


def costs(folder: Path, number: int, sizes: tuple[int, ...]) -> None:
    """CPU time of a job, by the number of recordings that its lake has already."""
    for size in sizes:
        lake = prefilled(folder / f"into{size}", size)
        sources = make(folder / f"more{size}", number, 10 + size)
        began = time.process_time()
        for path in sources.iterdir():
            job.run(job.Job(str(lake), (str(path),), (), None, None, 1 << 30, 1))
        spent = (time.process_time() - began) / number
        print(f"a job into a lake of {size}: {spent:.2f} CPU s")
    names = set(manifest.listed(LakeFiles(lake))) - set(range(size + 1))
    entries = manifest.read_all(LakeFiles(lake), sorted(names))
    files = sum(len(entry.tables) for entry in entries) / len(entries)
    kib = (
        sum(part.size for entry in entries for part in entry.tables.values()) / len(entries) / 1024
    )
    source = sum(entry.source_bytes for entry in entries) / len(entries) / 1024
    print(f"lake: {files:.0f} files and {kib:.0f} KiB per recording of {source:.0f} KiB")
    began = time.process_time()
    checkpoint.write(LakeFiles(lake))
    print(f"checkpoint of {size + number}: {time.process_time() - began:.2f} CPU s")


def prefilled(lake: Path, size: int) -> Path:
    """A lake with `size` synthetic recordings."""
    if size:
        synthetic_fleet.write(
            lake, machines=size // 20, builds=10, per_build=2, slow_from=5, slow_machine=3
        )
        checkpoint.write(LakeFiles(lake))
    return lake


def questions(folder: Path, size: int) -> None:
    """Wall and CPU time of fleet queries, from the start of the process to its last row."""
    lake = prefilled(folder / "asked", size)
    for query in QUERIES:
        before = resource.getrusage(resource.RUSAGE_CHILDREN)
        began = time.monotonic()
        subprocess.run(
            [str(BIN / "schedlens"), "sql", str(lake), query, "--csv"],
            stdout=subprocess.DEVNULL, check=True,
        )  # fmt: skip
        after = resource.getrusage(resource.RUSAGE_CHILDREN)
        cpu = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
        wall = time.monotonic() - began
        print(f"{query} over {size} recordings: {wall:.2f} s, {cpu:.2f} CPU s")


def main() -> None:
    """Prints one line per figure."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("parts", nargs="*", default=["rates", "costs", "questions"])
    parser.add_argument("--recordings", type=int, default=40)
    parser.add_argument("--lake-size", type=int, default=1000)
    chosen = parser.parse_args()
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        os.environ.setdefault("SCHEDLENS_CACHE_DIR", str(folder / "cache"))
        print(f"CPUs {os.cpu_count()}, used by other programs before: {busy_cpus():.1f}")
        # The empty database that all later ones are copies of.
        blank_database.place(folder / "blank.duckdb")
        if "rates" in chosen.parts:
            rates(folder, chosen.recordings)
        if "costs" in chosen.parts:
            costs(folder, min(10, chosen.recordings), (0, chosen.lake_size))
        if "questions" in chosen.parts:
            questions(folder, chosen.lake_size)


if __name__ == "__main__":
    main()
