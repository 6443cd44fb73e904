"""List the analyzed sessions with their recordings and number of findings, worst first.

Also lists recordings that are not analyzed, which inspect_trace can read.
"""

from __future__ import annotations

from pydantic import BaseModel, ConfigDict

from schedlens.agents.access import Access
from schedlens.agents.bounded_answer import Part
from schedlens.agents.folders import DATABASE
from schedlens.errors import SchedlensError
from schedlens.load import recording

# Sessions that are opened for one answer.
_MOST = 50

_SQL = (
    "SELECT (SELECT count(*) FROM trace) AS recordings, "
    "count(*) FILTER (severity = 'critical') AS critical, "
    "count(*) FILTER (severity = 'warning') AS warning, "
    "count(*) FILTER (severity = 'info') AS info, "
    "min_by(title, finding_id) AS first_finding FROM finding"
)


class Arguments(BaseModel):
    """None."""

    model_config = ConfigDict(extra="forbid")


def answer(access: Access, given: Arguments) -> list[Part]:
    """Sessions, then recordings without an analysis."""
    rows: list[list[object]] = []
    raw: list[list[object]] = []
    more = 0
    columns: tuple[str, ...] = ("recordings", "critical", "warning", "info", "first_finding")
    for folder, files in access.folders.walk():
        if DATABASE in files:
            if len(rows) >= _MOST:
                more += 1
            else:
                name = access.folders.name(folder)
                try:
                    rows.append([name, *access.select(name, _SQL).rows[0], None])
                except SchedlensError as error:
                    rows.append([name, *[None] * len(columns), str(error)])
        if recording.is_tables(folder):
            raw.append([access.folders.name(folder), "folder of tables", None])
            continue
        for file in files:
            path = folder / file
            if recording.is_recording(path) and not path.is_symlink():
                raw.append([access.folders.name(path), "file", path.stat().st_size])
    rows.sort(key=lambda row: [-int(str(number or 0)) for number in row[2:5]])
    return [
        Part(
            "sessions", ("session", *columns, "error"), rows,
            "pass a session to list_findings; start the server with a subfolder to list fewer",
            sql=_SQL, more=more,
        ),
        Part(
            "recordings", ("path", "kind", "bytes"), raw,
            "pass a path to inspect_trace; start the server with a subfolder to list fewer",
            source="the file system",
        ),
    ]  # fmt: skip
