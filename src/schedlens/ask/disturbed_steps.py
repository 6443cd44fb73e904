"""Which steps of a session were disturbed, by the definition of the query `step_disturbance`."""

from __future__ import annotations

import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from schedlens.errors import SchedlensError

if TYPE_CHECKING:
    import duckdb


def names(folder: Path, steps: Sequence[str]) -> set[str]:
    """Those of the finished steps of a session folder that other work disturbed.

    Steps that cannot be read, or whose disturbance is unknown, are not among them.
    """
    # Only here: a recording that is not judged loads no database.
    import duckdb

    from schedlens.ask import analysis, blank_database
    from schedlens.load import query_threads, recording, store

    there = [folder / name for name in steps if (folder / name / "step.json").exists()]
    with tempfile.TemporaryDirectory(prefix="schedlens-") as place:
        try:
            recordings = recording.gather(there)
            with store.create(
                Path(place) / "steps.duckdb",
                place=blank_database.place,
                threads=query_threads.count(recordings),
            ) as con:
                analysis.load(con, recordings, (None, None), lambda label, share: None)
                return _disturbed(con)
        except (SchedlensError, duckdb.Error, OSError):
            return set()


def _disturbed(con: duckdb.DuckDBPyConnection) -> set[str]:
    rows = con.execute("SELECT step FROM step_disturbance WHERE is_disturbed").fetchall()
    return {name for (name,) in rows}
