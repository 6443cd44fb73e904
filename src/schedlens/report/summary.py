"""The findings as the report shows them: the verdict, one card each, and what was concluded."""

from __future__ import annotations

from collections import Counter
from typing import Any

import duckdb

from schedlens.ask.findings import SEVERITIES, Rank
from schedlens.output.terminal import visible
from schedlens.output.wording import count
from schedlens.report import before_after, frame_cost, moment, todo
from schedlens.report import conclusion as session
from schedlens.report.figures import short, units
from schedlens.report.sections import Answer, View
from schedlens.report.table import table

CARDS = 12
EVIDENCE_ROWS = 50
# Findings on the first screen.
TOP = 3
# Outcomes of analyzers without findings.
CONCLUSIONS = ("clean", "not_applicable", "not_recorded", "left_out")

_LIST = "SELECT * FROM finding ORDER BY finding_id"
_OUTCOMES = (
    "SELECT * FROM analyzer_outcome WHERE trace_id IS NULL AND outcome <> 'found' ORDER BY analyzer"
)


def payload(
    view: View, section_names: set[str], of_step: frozenset[str] = frozenset()
) -> dict[str, Any]:
    """What the page shows above all sections; `section_names` are those a card may point to.

    Those `of_step` show only the step in view: no finding of another recording points to them.
    """
    found = view.rows(_LIST)
    concluded: dict[str, list[str]] = {name: [] for name in CONCLUSIONS}
    for row in view.rows(_OUTCOMES):
        reason = f"{row['analyzer']}: {visible(row['reason'] or 'no problems found')}"
        if row["record_with"]:
            reason += f" Record with: {visible(row['record_with'])}."
        concluded[row["outcome"]].append(reason)
    # A card for each kind of finding and severity, in the order of the first finding of each.
    groups: dict[tuple[str, str, str], list[dict[str, Any]]] = {}
    for row in found:
        groups.setdefault((row["severity"], row["analyzer"], row["kind"]), []).append(row)
    labels = {row["trace_id"]: row["label"] for row in view.rows("FROM trace")}

    def figures_of(rows: list[dict[str, Any]]) -> set[str]:
        other = rows[0]["trace_id"] not in (None, view.trace_id)
        return section_names - of_step if other else section_names

    said = session.verdict(view)
    cards = list(groups.values())
    # The verdict states these already: what disturbs or explains it comes first.
    cards.sort(key=lambda rows: _is_stated(rows[0], said["kind"]))
    tally = Counter(row["severity"] for row in found)
    tally["clean"] = len(concluded["clean"])
    top = [place for place, rows in enumerate(cards) if not _is_stated(rows[0], said["kind"])][:TOP]
    shown = [_card(view, rows, labels, figures_of(rows)) for rows in cards[:CARDS]]
    for place in top:
        shown[place]["moment"] = moment.picture(view, cards[place][0])
    return {
        "verdict": said,
        "pairs": before_after.pairs(view),
        "todo": _linked(todo.rows(view), cards),
        "several": len(labels) > 1,
        "headline": _headline(tally, len(concluded["not_recorded"])),
        "tally": [
            [severity, tally[severity]] for severity in (*SEVERITIES, "clean") if tally[severity]
        ],
        "top": top,
        "stated": [place for place, rows in enumerate(cards) if _is_stated(rows[0], said["kind"])],
        "cards": shown + [_brief(view, rows, labels, figures_of(rows)) for rows in cards[CARDS:]],
        **concluded,
        "sql": _LIST,
    }


def _linked(rows: list[dict[str, Any]], cards: list[list[dict[str, Any]]]) -> list[dict[str, Any]]:
    """The fixes with the place of the card that advises each, in place of the finding's number."""
    places = {row["finding_id"]: place for place, card in enumerate(cards) for row in card}
    return [row | {"finding": places.get(row["finding"])} for row in rows]


def _is_stated(row: dict[str, Any], kind: str) -> bool:
    """Whether the verdict of a session of this kind says what the finding says."""
    if kind == "experiment":
        return bool(row["rank"] == Rank.ANSWER)
    return row["kind"] in session.STATED.get(kind, frozenset())


def _headline(tally: Counter[str], missing: int) -> str:
    if not any(tally[severity] for severity in SEVERITIES):
        if tally["clean"]:
            lacking = f" {count(missing, 'analyzer')} lacked events." if missing else ""
            return f"No problems found by {count(tally['clean'], 'analyzer')}.{lacking}"
        if missing:
            return "Nothing was analyzed: the recording lacks the events of every analyzer."
        return (
            "No analyzer has judged this database yet: run `analyze` on the recordings, then look "
            "here again."
        )
    counted = [
        f"{tally[severity]} {noun if tally[severity] == 1 else plural}"
        for severity, noun, plural in (
            ("critical", "critical finding", "critical findings"),
            ("warning", "warning", "warnings"),
            ("info", "finding worth knowing", "findings worth knowing"),
        )
        if tally[severity]
    ]
    joined = counted[0] if len(counted) == 1 else f"{', '.join(counted[:-1])} and {counted[-1]}"
    return f"{joined[0].upper()}{joined[1:]}."


def _per_frame(view: View, row: dict[str, Any]) -> dict[str, Any] | None:
    """What the finding cost a frame, on average over the frames of its recording."""
    if row["trace_id"] is None or row["cost_ns"] is None:
        return None
    most = frame_cost.most(view.kept(frame_cost.question(view, row["trace_id"])))
    if most is None:
        return None
    return {
        "ns": round(row["cost_ns"] / most["frames"]),
        "frames": most["frames"],
        "usual_ns": most["p50_ns"],
    }


def _where(row: dict[str, Any], labels: dict[int, str], view: View) -> str:
    parts = []
    if row["trace_id"] is not None and len(labels) > 1:
        parts.append(f"step {short(labels.get(row['trace_id']), 60)}")
    if row["utid"] is not None:
        named = view.rows(f"SELECT name, tid FROM thread WHERE utid = {int(row['utid'])}")
        if named:
            parts.append(f"thread {short(named[0]['name'], 40)} ({named[0]['tid']})")
    if row["cpu"] is not None:
        parts.append(f"CPU {row['cpu']}")
    if row["start_ns"] is not None and row["end_ns"] is not None:
        parts.append(f"from {row['start_ns'] / 1e6:,.3f} to {row['end_ns'] / 1e6:,.3f} ms")
    return ", ".join(parts)


def _brief(
    view: View, rows: list[dict[str, Any]], labels: dict[int, str], section_names: set[str]
) -> dict[str, Any]:
    first = rows[0]
    return {
        "severity": first["severity"],
        "kind": first["kind"],
        "title": units(visible(first["title"]))[:600],
        "detail": units(visible(first["detail"]))[:2000],
        "per_frame": _per_frame(view, first),
        "share_of": first["cost_of"],
        "cost_ns": first["cost_ns"],
        "cost_pct": first["cost_pct"],
        "bound": first["bound"],
        "cost_low_ns": first["cost_low_ns"],
        "cost_high_ns": first["cost_high_ns"],
        "gain": visible(todo.gain(first) or "") or None,
        "no_gain": visible(first["no_gain_reason"] or "") or None,
        "where": _where(first, labels, view),
        "advice": "\n".join(visible(line) for line in first["advice"].splitlines())[:2000],
        "section": first["analyzer"] if first["analyzer"] in section_names else None,
        "evidence": _rows_of(view, first["evidence_sql"], "evidence"),
        "moment": moment.link(view, first),
        "counter": None,
        "others": None,
    }


def _card(
    view: View, rows: list[dict[str, Any]], labels: dict[int, str], section_names: set[str]
) -> dict[str, Any]:
    card = _brief(view, rows, labels, section_names)
    first = rows[0]
    if first["counter_evidence_sql"]:
        card["counter"] = _rows_of(view, first["counter_evidence_sql"], "counter-evidence")
    if len(rows) > 1:
        sql = (
            "SELECT finding_id, trace_id, title, detail, cost_ns, cost_pct, cpu, start_ns, end_ns\n"
            f"FROM finding\nWHERE analyzer = '{first['analyzer']}' "
            f"AND kind = '{first['kind']}' AND severity = '{first['severity']}' "
            f"AND finding_id <> {first['finding_id']}\n"
            "ORDER BY finding_id"
        )
        card["others"] = _rows_of(view, sql, "finding", 500)
    return card


def _rows_of(view: View, sql: str | None, name: str, most: int = EVIDENCE_ROWS) -> dict[str, Any]:
    """The first rows of a finding's SQL as a table; a failing one says so in its place."""
    text = (sql or "").strip().rstrip(";")
    try:
        # Sorting for the first rows alone needs no memory for the others; the order is the SQL's.
        names, rows = view.named_rows(f"FROM ({text}) LIMIT {most + 1}")
        total = len(rows)
        if total > most:
            total = int(view.rows(f"SELECT count(*) AS n FROM ({text})")[0]["n"])
    except duckdb.Error as error:
        names, rows = ("problem",), [{"problem": str(error).splitlines()[0]}]
        total = 1
    return table(Answer(text, name, names, rows), most=most, total=total)
