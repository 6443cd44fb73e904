"""Measures the processor time of each query on one recording, and on one twice as long.

A simulated game of a few tenths of a second is repeated up to about 120,000 and 240,000 switches
(or as many as requested: `benches/questions.py 1000000`). Prints the seconds and their ratio; a
query with a ratio above 3 is worse than linear.
"""

from __future__ import annotations

import sys
import tempfile
import time
from pathlib import Path

import duckdb
from simulated import simulated_database
from tiled_recording import tile

from schedlens.ask import catalog
from schedlens.load import schema
from schedlens.simulate import cases

SWITCHES = 240_000
SECONDS = 0.5
MOST = 3.0
# Below this time, the fixed cost of a query dominates.
LEAST_S = 0.05


def main() -> int:
    """Exit status 0: all queries are linear; 1: one is not."""
    wanted = int(sys.argv[1]) if len(sys.argv) > 1 else SWITCHES
    play = next(case for case in cases.CASES if case.name == "critical_path")
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        with simulated_database(folder, [("play", play.play(seed=1, seconds=SECONDS))]) as con:
            slices = con.execute("SELECT count(*) FROM sched_slice").fetchall()[0][0]
        times = [max(1, round(wanted / slices / part)) for part in (2, 1)]
        files = [folder / f"{number}.duckdb" for number in (1, 2)]
        for file, copies in zip(files, times, strict=True):
            with duckdb.connect(str(file)) as con:
                schema.create(con)
                con.execute(f"ATTACH '{folder / 'analysis.duckdb'}' AS source (READ_ONLY)")
                tile(con, "source", copies)
                catalog.install(con)
        worse = 0
        print(f"{slices * times[0]:,} and {slices * times[1]:,} slices")
        for query in catalog.load_all():
            spent = [_spent(file, query.full_name) for file in files]
            ratio = spent[1] / spent[0]
            bad = spent[1] > LEAST_S and ratio > MOST
            worse += bad
            print(
                f"{'WORSE' if bad else 'ok   '} {query.full_name:32} {spent[0]:7.3f} s "
                f"{spent[1]:7.3f} s  {ratio:4.1f}",
                flush=True,
            )
    return 1 if worse else 0


def _spent(file: Path, name: str) -> float:
    """Processor seconds of the query, the shorter of two tries."""
    with duckdb.connect(str(file), read_only=True) as con:
        found = []
        for _ in range(2):
            before = time.process_time()
            con.execute(f"SELECT count(*), bit_xor(hash(q)) FROM {name} AS q").fetchall()
            found.append(time.process_time() - before)
    return min(found)


if __name__ == "__main__":
    sys.exit(main())
