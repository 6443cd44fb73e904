"""The findings of an analyzed session, each with its thread and its evidence."""

from __future__ import annotations

from dataclasses import dataclass, field, fields

import pyarrow as pa

from schedlens.ask.analysis import Database
from schedlens.ask.findings import Finding, Rank

# `about` is not stored.
_COLUMNS = [name.name for name in fields(Finding) if name.name not in ("about", "rank")]

SQL = f"""
SELECT
  finding_id, {", ".join(f"f.{name}" for name in _COLUMNS)}, f.rank,
  t.label AS recording, thread.name AS thread, thread.tid, process.name AS process
FROM finding AS f
LEFT JOIN trace AS t ON t.trace_id = f.trace_id
LEFT JOIN thread ON thread.utid = f.utid
LEFT JOIN process ON process.upid = thread.upid
ORDER BY finding_id
"""


@dataclass(frozen=True, kw_only=True)
class StoredFinding(Finding):
    """A finding as an analysis stores it, with names in place of numbers.

    `number` is its place in the order of the report, from 1. `recording` is the label of the
    recording, None for a finding about all; `thread`, `tid` and `process` are None if the finding
    is not about one thread.
    """

    number: int
    recording: str | None
    thread: str | None
    tid: int | None
    process: str | None
    database: Database = field(repr=False, compare=False)

    def evidence(self) -> pa.Table:
        """The rows that the finding is computed from. Raises `DatabaseError`."""
        return self.database.sql(self.evidence_sql)

    def counter_evidence(self) -> pa.Table | None:
        """The rows that may speak against it; None if it has no such query."""
        sql = self.counter_evidence_sql
        return None if sql is None else self.database.sql(sql)


def read(database: Database) -> list[StoredFinding]:
    """All findings, in the order of the report."""
    return [
        StoredFinding(
            number=row.pop("finding_id"), rank=Rank(row.pop("rank")), database=database, **row
        )
        for row in database.sql(SQL).to_pylist()
    ]
