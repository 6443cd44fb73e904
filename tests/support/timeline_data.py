"""A small simulated session for the tests of the timeline: a fault and its fix."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from simulated import simulated_database

from schedlens.simulate import cases

_FINDING = """
INSERT INTO finding BY NAME
SELECT 1 AS finding_id, trace_id, 'worst_waits' AS analyzer, 'wait' AS kind, 'warning' AS severity,
  1 AS rank, 'A thread waited' AS title, 'It waited.' AS detail, 'Wait less.' AS advice,
  dur AS cost_ns, '' AS cost_of, utid, ts AS start_ns, ts + dur AS end_ns, 'exact' AS bound,
  'FROM worst_waits' AS evidence_sql
FROM thread_state WHERE trace_id = 1 AND state = 'ready' ORDER BY dur DESC, ts LIMIT 1
"""


@contextmanager
def timeline_session(
    folder: Path, *, names: tuple[str, str] = ("faulty", "fixed")
) -> Iterator[Path]:
    """The folder of an analyzed session of two recordings, with findings."""
    case = cases.CASES[0]
    plays = [(names[0], case.play(seconds=0.4)), (names[1], case.play(fixed=True, seconds=0.4))]
    with simulated_database(folder, plays) as con:
        con.execute(_FINDING)
    yield folder
