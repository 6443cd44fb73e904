"""Return one finding with its advice, the rows it is computed from, and those against it."""

from __future__ import annotations

from pydantic import BaseModel, ConfigDict, Field

from schedlens.agents.access import Access
from schedlens.agents.bounded_answer import Part, of_sql
from schedlens.errors import NothingToReadError


class Arguments(BaseModel):
    """Which finding."""

    model_config = ConfigDict(extra="forbid")
    session: str = Field(description="A session of list_sessions.")
    finding: int = Field(ge=1, le=1 << 31, description="Its number, from list_findings.")


def answer(access: Access, given: Arguments) -> list[Part]:
    """The finding, its evidence, and its counter-evidence if it has some."""
    sql = (
        "SELECT finding_id AS finding, analyzer, kind, severity, title, detail, advice, trace_id, "
        "utid, cpu, start_ns, end_ns, cost_ns, cost_pct, cost_of, bound "
        f"FROM finding WHERE finding_id = {given.finding}"
    )
    found = access.select(given.session, sql)
    if not found.rows:
        raise NothingToReadError(
            f"there is no finding {given.finding}: list_findings lists the numbers"
        )
    parts = [of_sql("finding", found, "it is one row; pass utid and its times to thread_story")]
    stored = access.select(
        given.session,
        "SELECT evidence_sql, counter_evidence_sql FROM finding "
        f"WHERE finding_id = {given.finding}",
    )
    for name, text in zip(("evidence", "counter_evidence"), stored.rows[0], strict=True):
        if text is None:
            continue
        narrow = "use this SQL in run_sql as FROM (...) with WHERE, GROUP BY, ORDER BY or LIMIT"
        parts.append(of_sql(name, access.select(given.session, text), narrow))
    return parts
