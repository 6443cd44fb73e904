"""Windows .etl files: decoding, and two Python readers that walk the same records.

Generated context switches, plain and XPRESS. Each measurement runs in its own process on one core.
The Python readers are slow: they walk the smallest file for at most `PATIENCE` seconds.
"""

from __future__ import annotations

import subprocess
from collections.abc import Iterator
from pathlib import Path

from timing import Row, code, in_page_cache

OURS = "schedlens"
ROOT = Path(__file__).resolve().parents[1]
PATIENCE = 30

DECODE = """
import json, resource, sys, time
from schedlens import _decoders
start = time.process_time()
records, rows, _ = _decoders.decode_only(sys.argv[1])
spent = time.process_time() - start
peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
print(json.dumps([spent, records, peak]))
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


def rows(folder: Path, sizes: tuple[int, ...], rounds: int, python: str | None) -> Iterator[Row]:
    """All rows about .etl files of these sizes in MB; `python` has the other readers, if any."""
    subprocess.run(
        ["cargo", "build", "--quiet", "--release", "--locked", "-p", "schedlens-test-writer"],
        cwd=ROOT, check=True,
    )  # fmt: skip
    program = ROOT / "target" / "release" / "schedlens-test-writer"
    for megabytes in sizes:
        job = f"decode .etl, {megabytes} MB"
        for packing in ("none", "xpress"):
            trace = folder / f"{packing}{megabytes}.etl"
            _flood(program, megabytes, trace, packing)
            in_page_cache(trace)
            content_mb = (folder / f"none{megabytes}.etl").stat().st_size / 1e6
            found = [code(DECODE, str(trace), pinned=True) for _ in range(rounds)]
            seconds = tuple(one[0] for one in found)
            speed = content_mb / sorted(seconds)[len(seconds) // 2]
            peak = max(one[2] for one in found)
            note = f"{found[0][1]:,} records, {speed:,.0f} MB of content/s, {peak:.0f} MB of memory"
            same = job if packing == "none" else f"{job}, XPRESS"
            yield Row(same, OURS, seconds, note)
    smallest = min(sizes)
    trace, job = folder / f"none{smallest}.etl", f"decode .etl, {smallest} MB"
    records = code(DECODE, str(trace))[1]
    for name, source in (("dissect.etl", DISSECT), ("etl-parser", ETL_PARSER)):
        yield _walked(name, source, trace, job, records, python)


def _walked(name: str, source: str, trace: Path, job: str, records: int, python: str | None) -> Row:
    """Another reader's time; if it had to stop, the time that all records would take."""
    if python is None:
        return Row(job, name, missing="not installed: no package index, or --no-others")
    try:
        found = code(source, str(trace), str(PATIENCE), python=python, pinned=True)
    except subprocess.CalledProcessError as error:
        return Row(job, name, missing=f"failed: {error.stderr.strip().splitlines()[-1]}")
    share = found["records"] / records
    note = "walked, not decoded; one round"
    if share < 1:
        note += f", {100 * share:.2g} % of the records, extrapolated"
    return Row(job, name, (found["seconds"] / share,), note)


def _flood(program: Path, megabytes: int, target: Path, packing: str) -> None:
    command = [str(program), "flood", str(megabytes), str(target), packing]
    subprocess.run(command, check=True, stdout=subprocess.DEVNULL)
