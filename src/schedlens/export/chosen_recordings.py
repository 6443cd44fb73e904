"""Which recordings of a session to write, and how their files are called."""

from __future__ import annotations

import re
from dataclasses import dataclass

import duckdb

from schedlens.errors import NothingToReadError, UnknownNameError

SUFFIX = ".perfetto-trace"


@dataclass(frozen=True)
class Chosen:
    """A recording of an analyzed session."""

    trace_id: int
    label: str

    @property
    def file_name(self) -> str:
        """A name for its trace, without characters that some file system refuses."""
        plain = re.sub(r'[\x00-\x1f<>:"/\\|?*]+', "-", self.label).strip(". ") or "trace"
        return f"{plain}{SUFFIX}"


def choose(con: duckdb.DuckDBPyConnection, label: str | None) -> list[Chosen]:
    """The recording of that label or number, or all that contain events.

    Raises `UnknownNameError` or `NothingToReadError`.
    """
    rows = con.execute(
        "SELECT trace_id, label FROM trace WHERE trace_id IN "
        "(SELECT trace_id FROM cpu_state GROUP BY trace_id) ORDER BY trace_id"
    ).fetchall()
    found = [Chosen(*row) for row in rows]
    if not found:
        raise NothingToReadError(
            "no recording of this session contains scheduling events: `schedlens inspect` on a "
            "recording says what it contains"
        )
    if label is None:
        return found
    chosen = [one for one in found if label in (one.label, str(one.trace_id))]
    if not chosen:
        raise UnknownNameError("recording", label, [one.label for one in found])
    return chosen[:1]
