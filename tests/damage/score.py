"""Adds up runs and writes tables."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from statistics import median

from damage import marks
from damage.judge import Column
from damage.runs import Run
from schedlens.ask import catalog

LEAST_RIGHT = 0.999
MOST_FALSE_FINDINGS = 0.01
MOST_WIDTH = 3.0
# A column with fewer rows is judged only with the others.
LEAST_ROWS = 1000
# Tables that are not queries: their rows are states, not bounds.
STATES = ("thread_state", "cpu_state")


@dataclass
class Total:
    """Sums over the runs of one group."""

    runs: int = 0
    rows: int = 0
    wrong: int = 0
    exact_wrong: int = 0
    no_claim: int = 0
    no_truth: int = 0
    false_finding_runs: int = 0
    failures: int = 0
    per_union: list[float] = field(default_factory=list)
    per_sum: list[float] = field(default_factory=list)

    def add(self, column: Column, run: Run) -> None:
        """Counts the rows of a column."""
        self.rows += column.rows
        self.wrong += len(column.wrong)
        self.exact_wrong += len(column.wrong) if column.mark == "exact" else 0
        self.no_claim += column.no_claim
        self.no_truth += column.no_truth
        if run.vacuity and run.lost_ns:
            self.per_union += [width / run.lost_ns for width in column.widths]
            self.per_sum += [width / run.lost_sum_ns for width in column.widths]

    @property
    def right_pct(self) -> float:
        """Share of the rows whose bounds contain the truth."""
        return 100.0 * (self.rows - self.wrong) / self.rows if self.rows else 100.0

    @property
    def width(self) -> float | None:
        """Median width of the bounds relative to the time in which a CPU was damaged."""
        return median(self.per_union) if self.per_union else None


def judged(runs: Iterable[Run]) -> list[Run]:
    """Runs whose damage a reader can detect."""
    return [run for run in runs if not run.undetectable]


def _kind(run: Run) -> str:
    return f"{run.kind} (undetectable)" if run.undetectable else run.kind


def by_kind(runs: Iterable[Run]) -> dict[tuple[str, str], Total]:
    """By format and kind of damage; states and queries together."""
    totals: dict[tuple[str, str], Total] = defaultdict(Total)
    for run in runs:
        total = totals[run.format, _kind(run)]
        total.runs += 1
        total.failures += run.failure is not None
        total.false_finding_runs += bool(run.false_findings)
        for (name, _), column in run.columns.items():
            if name not in STATES:
                total.add(column, run)
    return dict(totals)


def states_by_kind(runs: Iterable[Run]) -> dict[tuple[str, str, str], Total]:
    """By format, kind and table: rows of thread_state and cpu_state."""
    totals: dict[tuple[str, str, str], Total] = defaultdict(Total)
    for run in runs:
        for table in STATES:
            if (table, "state") in run.columns:
                totals[run.format, _kind(run), table].add(run.columns[table, "state"], run)
    return dict(totals)


def by_column(runs: Iterable[Run]) -> dict[tuple[str, str], Total]:
    """By query and column."""
    totals: dict[tuple[str, str], Total] = defaultdict(Total)
    for run in runs:
        for key, column in run.columns.items():
            totals[key].add(column, run)
    return dict(totals)


def unmarked() -> list[str]:
    """Columns that end in _ns and state no bounds."""
    return sorted(
        f"{query.full_name}.{column}"
        for query in catalog.load_all()
        for column, text in query.columns
        if column.endswith("_ns") and marks.parse(text) is None
    )


def tables(runs: Sequence[Run]) -> Iterator[str]:
    """The tables as Markdown."""
    states = states_by_kind(runs)
    yield (
        "| format | damage | runs | rows judged | wrong | exact wrong | right % | "
        "width / lost time | width / lost CPU time | wrong states | runs with a false finding | "
        "errors |"
    )
    yield "|---|---|---:|---:|---:|---:|---:|---:|---:|---:|---:|---:|"
    for (format_, kind), total in sorted(by_kind(runs).items()):
        of_states = [states.get((format_, kind, table), Total()) for table in STATES]
        wrong = sum(one.wrong for one in of_states)
        rows = sum(one.rows for one in of_states)
        yield (
            f"| {format_} | {kind} | {total.runs} | "
            f"{total.rows} | {total.wrong} | {total.exact_wrong} | {total.right_pct:.2f} | "
            f"{_number(total.width)} | "
            f"{_number(median(total.per_sum) if total.per_sum else None)} | "
            f"{wrong} of {rows} | {total.false_finding_runs} | {total.failures} |"
        )
    yield ""
    yield "| query | column | rows judged | wrong | right % | width / lost time | no claim |"
    yield "|---|---|---:|---:|---:|---:|---:|"
    for (query, column), total in sorted(by_column(judged(runs)).items()):
        if total.rows:
            yield (
                f"| {query} | {column} | {total.rows} | {total.wrong} | {total.right_pct:.2f} | "
                f"{_number(total.width)} | {total.no_claim} |"
            )


def _number(value: float | None) -> str:
    return "" if value is None else f"{value:.2f}"


def verdict(runs: Sequence[Run]) -> list[str]:
    """The targets that the judged runs miss, one per line."""
    found = []
    all_judged = judged(runs)
    totals = by_column(all_judged)
    rows = sum(total.rows for total in totals.values())
    wrong = sum(total.wrong for total in totals.values())
    if rows and wrong > (1 - LEAST_RIGHT) * rows:
        found.append(f"{wrong} of {rows} rows have bounds without the truth (at most 0.1 %)")
    exact = sum(total.exact_wrong for total in totals.values())
    if exact:
        found.append(f"{exact} rows that are stated as exact are not")
    for (query, column), total in sorted(totals.items()):
        if total.rows >= LEAST_ROWS and total.wrong > (1 - LEAST_RIGHT) * total.rows:
            found.append(f"{query}.{column}: {total.right_pct:.2f} % right (at least 99.9 %)")
        if total.width is not None and total.width > MOST_WIDTH:
            found.append(f"{query}.{column}: the bounds are {total.width:.1f} times the lost time")
    false = sum(bool(run.false_findings) for run in all_judged)
    if all_judged and false > MOST_FALSE_FINDINGS * len(all_judged):
        found.append(f"{false} of {len(all_judged)} recordings have a false finding (at most 1 %)")
    failures = sum(run.failure is not None for run in all_judged)
    if failures:
        found.append(f"{failures} recordings raised an error")
    return found


def false_titles(runs: Iterable[Run]) -> Counter[str]:
    """How often each analyzer returned a false finding."""
    return Counter(
        f"{found.severity} {found.analyzer}" for run in runs for found in run.false_findings
    )
