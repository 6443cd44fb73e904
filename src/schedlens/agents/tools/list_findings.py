"""List the findings of a session in the order of the report: the worst first.

finding_evidence returns the advice and the rows behind one of them. A cost is exact, at_least, or
in a range by its column bound.
"""

from __future__ import annotations

from typing import Literal

from pydantic import BaseModel, ConfigDict, Field

from schedlens.agents.access import Access
from schedlens.agents.bounded_answer import Part, of_sql
from schedlens.load.schema import literal


class Arguments(BaseModel):
    """Which findings."""

    model_config = ConfigDict(extra="forbid")
    session: str = Field(description="A session of list_sessions.")
    severity: Literal["critical", "warning", "info"] | None = Field(
        None, description="Only findings of this severity."
    )
    recording: str | None = Field(None, description="Only findings about this recording (label).")
    analyzer: str | None = Field(None, description="Only findings of this analyzer.")
    after: int = Field(0, ge=0, le=1 << 31, description="Only findings with a higher number.")


def answer(access: Access, given: Arguments) -> list[Part]:
    """The findings, and the recordings of the session."""
    tests = [f"finding_id > {given.after}"]
    for column, value in (
        ("severity", given.severity), ("t.label", given.recording), ("analyzer", given.analyzer)
    ):  # fmt: skip
        if value is not None:
            tests.append(f"{column} = {literal(value)}")
    sql = (
        "SELECT finding_id AS finding, severity, t.label AS recording, analyzer, title, detail, "
        "cost_ns, cost_pct, bound, f.utid, thread.name AS thread, f.start_ns, f.end_ns "
        "FROM finding AS f LEFT JOIN trace AS t ON t.trace_id = f.trace_id "
        "LEFT JOIN thread ON thread.utid = f.utid "
        f"WHERE {' AND '.join(tests)} ORDER BY finding_id"
    )
    recordings = (
        "SELECT t.trace_id, t.label, w.start_ns, w.end_ns, unknown_cpu_pct, "
        "count(finding_id) AS findings "
        "FROM trace AS t LEFT JOIN analysis_window AS w USING (trace_id) "
        "LEFT JOIN trace_quality AS q USING (trace_id) "
        "LEFT JOIN finding AS f USING (trace_id) "
        "GROUP BY ALL ORDER BY t.trace_id"
    )
    return [
        of_sql(
            "findings", access.select(given.session, sql),
            "pass after=the last finding for the next ones, or severity, recording, analyzer",
        ),
        of_sql(
            "recordings", access.select(given.session, recordings),
            "start_ns and end_ns are the analyzed window; where unknown_cpu_pct is not 0, times of "
            "queries are lower bounds unless a column says otherwise; pass a label as recording",
        ),
    ]  # fmt: skip
