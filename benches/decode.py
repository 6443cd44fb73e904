"""perf.data: decoding, loading and analyzing, and the programs that print or query the same.

Records two pipes and a message storm, or takes a given perf.data. Times of `perf sched timehist`
and `perf script` include printing to a file.
"""

from __future__ import annotations

import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path

import engine
import startup
from timing import Row, code, in_page_cache, other_s, program_s, row_of_other

OURS, TIMEHIST = "schedlens", "perf sched timehist"
EVENTS = ",".join(
    f"sched:{name}"
    for name in (
        "sched_switch", "sched_waking", "sched_wakeup_new", "sched_migrate_task",
        "sched_process_fork", "sched_process_exit", "sched_process_exec",
    )
)  # fmt: skip

# On one core, as the .etl files.
DECODE = """
import json, sys, time
from schedlens import _decoders
start = time.process_time()
records, rows, _ = _decoders.decode_only(sys.argv[1])
print(json.dumps([time.process_time() - start, records]))
"""
# The database is complete: with all derived tables, but without the views.
LOAD = """
import json, sys, time
from pathlib import Path
from schedlens.load import recording_rows, store
from schedlens.load.recording import Recording
start = time.process_time()
with store.create(Path(sys.argv[2])) as con:
    con.begin()
    recording_rows.load_base_and_derived(con, Recording("bench", Path(sys.argv[1])), 1)
    con.commit()
print(json.dumps(time.process_time() - start))
"""
QUERY = """
import json, sys, time
import duckdb
start = time.process_time()
with duckdb.connect(sys.argv[1], read_only=True) as con:
    answers = [con.execute(sql).fetchall() for sql in sys.argv[2:]]
spent = time.process_time() - start
print(json.dumps([spent, [[list(map(int, row)) for row in rows] for rows in answers]]))
"""


def record(target: Path, loops: int) -> None:
    """Makes a recording with about eight records per loop of the pipe benchmark."""
    load = (
        f"perf bench sched pipe -l {loops} & perf bench sched pipe -l {loops} & "
        f"perf bench sched messaging -g 5 -l {max(1, loops // 950)}; wait"
    )
    subprocess.run(
        ["perf", "record", "--no-bpf-event", "-B", "-N", "-a", "-m", "16M", "-k",
         "CLOCK_MONOTONIC", "-o", str(target), "-e", EVENTS, "--", "bash", "-c", load],
        check=True, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
    )  # fmt: skip


def rows(
    folder: Path, given: Path | None, rounds: int, loops: int, other: engine.Engine | str
) -> Iterator[Row]:
    """All rows about perf.data; `other` is trace_processor, or why it is not there."""
    if shutil.which("perf") is None:
        yield Row("perf.data", "all", missing="perf is not installed")
        return
    trace = given or folder / "perf.data"
    if given is None:
        record(trace, loops)
    database = folder / "bench.duckdb"
    decoded, loaded, analyzed = [], [], []
    timehist: list[float | str] = []
    script: list[float | str] = []
    records = 0
    for _ in range(rounds):
        # The page cache shrinks under memory pressure.
        in_page_cache(trace)
        spent, records = code(DECODE, str(trace), pinned=True)
        decoded.append(spent)
        loaded.append(code(LOAD, str(trace), str(database)))
        analyzed.append(_analyze(trace, folder))
        timehist.append(other_s(["perf", "sched", "timehist", "-i", trace], folder / "text"))
        script.append(other_s(["perf", "script", "-i", trace], folder / "text"))
    size = f"{trace.stat().st_size / 1e6:,.0f} MB, {records:,} records"
    printed = f"{size}, printed"
    yield Row("decode perf.data", OURS, tuple(decoded), f"{size}, to Arrow, one core")
    yield row_of_other("decode perf.data", TIMEHIST, timehist, printed)
    yield row_of_other("decode perf.data", "perf script", script, printed)
    yield Row("load perf.data", OURS, tuple(loaded), "a database with all derived tables")
    yield row_of_other("load perf.data", TIMEHIST, timehist, printed)
    yield from engine.rows(other, trace, database, folder, rounds, QUERY)
    yield Row("analyze perf.data", OURS, tuple(analyzed), "with findings and report")
    yield row_of_other("analyze perf.data", TIMEHIST, timehist, printed)


def _analyze(trace: Path, folder: Path) -> float:
    seconds = program_s([startup.BIN / "analyze", trace, "-o", folder / "analyzed"])
    shutil.rmtree(folder / "analyzed")
    return seconds
