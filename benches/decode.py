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
from timing import Row, code, in_page_cache, program_s

OURS = "schedlens"
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
from schedlens.load import store
from schedlens.load.recording import Recording
start = time.process_time()
with store.create(Path(sys.argv[2])) as con:
    con.begin()
    store.load_base_and_derived(con, Recording("bench", Path(sys.argv[1])), 1)
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
    times: dict[str, list[float]] = {}
    records = 0
    for _ in range(rounds):
        # The page cache shrinks under memory pressure.
        in_page_cache(trace)
        spent, records = code(DECODE, str(trace), pinned=True)
        for name, seconds in (
            ("decode", spent),
            ("load", code(LOAD, str(trace), str(database))),
            ("analyze", _analyze(trace, folder)),
            ("timehist", program_s(["perf", "sched", "timehist", "-i", trace], folder / "text")),
            ("script", program_s(["perf", "script", "-i", trace], folder / "text")),
        ):
            times.setdefault(name, []).append(seconds)
    size = f"{trace.stat().st_size / 1e6:,.0f} MB, {records:,} records"
    timehist, script = tuple(times["timehist"]), tuple(times["script"])
    yield Row("decode perf.data", OURS, tuple(times["decode"]), f"{size}, to Arrow, one core")
    yield Row("decode perf.data", "perf sched timehist", timehist, f"{size}, printed")
    yield Row("decode perf.data", "perf script", script, f"{size}, printed")
    yield Row("load perf.data", OURS, tuple(times["load"]), "a database with all derived tables")
    yield Row("load perf.data", "perf sched timehist", timehist, f"{size}, printed")
    yield from engine.rows(other, trace, database, folder, rounds, QUERY)
    yield Row("analyze perf.data", OURS, tuple(times["analyze"]), "with findings and report")
    yield Row("analyze perf.data", "perf sched timehist", timehist, f"{size}, printed")


def _analyze(trace: Path, folder: Path) -> float:
    seconds = program_s([startup.BIN / "analyze", trace, "-o", folder / "analyzed"])
    shutil.rmtree(folder / "analyzed")
    return seconds
