"""The command `schedlens compare`: two sides of recordings, a report, and a gate for CI."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, cast

import click

if TYPE_CHECKING:
    from schedlens.differences.contrast import Align, Comparison, Difference

# Differences that the terminal shows; the report and --json have all.
_MOST = 20
# Reasons for which something was not compared, and quantities named for each.
_MOST_REASONS, _MOST_NAMES = 3, 3
_MOST_FINDINGS = 10


@click.command("compare")
@click.argument("paths", nargs=-1, required=True, type=click.Path(path_type=Path))
@click.option(
    "--baseline", multiple=True, type=click.Path(path_type=Path),
    help="A recording to compare with; may be given again. Then all PATHS are compared with them.",
)  # fmt: skip
@click.option("--process", multiple=True, help="Compare this process, or a group of threads: "
              "cgroup:PATH, container:ID, pod:ID or service:UNIT; may be given again. "
              "Default: the 5 processes with the most running time.")  # fmt: skip
@click.option("--quantity", multiple=True, help="Compare only this quantity; may be given again.")
@click.option(
    "--align", type=click.Choice(["step", "all"]), default="step", show_default=True,
    help="Match recordings by the name of their step, or all of a side as repeats of one step.",
)  # fmt: skip
@click.option(
    "--gate", "rules_file", metavar="RULES.toml", type=click.Path(path_type=Path, dir_okay=False),
    help="Judge the limits in this file: docs/compare.md.",
)  # fmt: skip
@click.option("--report", "report_file", type=click.Path(path_type=Path, dir_okay=False),
              help="Write the report with figures, an HTML file.")  # fmt: skip
@click.option("--junit", type=click.Path(path_type=Path, dir_okay=False),
              help="With --gate: write the verdicts as JUnit XML.")  # fmt: skip
@click.option("--sarif", type=click.Path(path_type=Path, dir_okay=False),
              help="With --gate: write the verdicts as SARIF.")  # fmt: skip
@click.option("--markdown", type=click.Path(path_type=Path, dir_okay=False),
              help="Write a summary as Markdown, for a pull request.")  # fmt: skip
@click.option(
    "--keep", type=click.Path(path_type=Path, file_okay=False),
    help="Folder for the databases of recordings that had to be analyzed: a.duckdb and b.duckdb.",
)  # fmt: skip
@click.option("--json", "as_json", is_flag=True, help="Print everything as one JSON object.")
def compare(
    paths: tuple[Path, ...],
    baseline: tuple[Path, ...],
    process: tuple[str, ...],
    quantity: tuple[str, ...],
    align: str,
    rules_file: Path | None,
    report_file: Path | None,
    junit: Path | None,
    sarif: Path | None,
    markdown: Path | None,
    keep: Path | None,
    as_json: bool,
) -> int:
    """Compare recordings: what differs, how surely, and what moved with it.

    PATHS are A and B: analyzed sessions, session folders, or recordings; A is the baseline. With
    --baseline, all PATHS are repeats of B. Needs `pip install schedlens[compare]`.
    Exit code without --gate: 0: answered. 1: answered, but a recording could not be read. 2: no
    answer. With --gate: 0: within limits. 1: regression. 2: cannot tell, or an error.
    """
    from schedlens.differences import ci_files, contrast, difference_page
    from schedlens.differences import rules_file as gates
    from schedlens.output import terminal
    from schedlens.output.progress import bar

    if baseline:
        side_a, side_b = list(baseline), list(paths)
    elif len(paths) == 2:
        side_a, side_b = [paths[0]], [paths[1]]
    else:
        raise click.UsageError(
            f"name two recordings, A and B, or the repeats of A with --baseline: {len(paths)} given"
        )
    if rules_file is None and (junit or sarif):
        raise click.UsageError("--junit and --sarif write the verdicts of --gate RULES.toml")
    # Before any work: a malformed file of rules must not cost an analysis.
    rules = gates.read(rules_file) if rules_file else None
    with bar(quiet=as_json) as progress:
        found = contrast.compare(
            side_a, side_b, processes=process, quantities=quantity,
            align=cast("Align", align), rules=rules, keep=keep, progress=progress,
        )  # fmt: skip
    if junit and found.gate:
        _write(junit, ci_files.junit(found.gate))
    if sarif and found.gate and rules_file:
        _write(sarif, ci_files.sarif(found.gate, str(rules_file)))
    if markdown:
        _write(markdown, ci_files.markdown(found))
    if report_file:
        difference_page.write(found, report_file)
    if as_json:
        click.echo(json.dumps(contrast.as_json(found), indent=2))
    else:
        _show(found)
        if report_file:
            click.echo(terminal.plain(f"report    {report_file}"))
    for line in found.failures:
        click.echo(terminal.visible(f"compare: not read: {line}"), err=True)
    if found.gate is not None:
        # What could not be read might have changed the verdict.
        return max(found.gate.exit_code, 2) if _is_open(found) else found.gate.exit_code
    return 1 if found.failures else 0


def _is_open(found: Comparison) -> bool:
    return bool(found.failures) and found.gate is not None and found.gate.state == "within"


def _write(path: Path, text: str) -> None:
    from schedlens.output import whole_file

    whole_file.write_text(path, text)


def _not_compared(found: Comparison) -> list[str]:
    """What was not compared and why, a line for each reason."""
    names: dict[str, list[str]] = {}
    for one in found.differences:
        if one.reason:
            name = f"{one.quantity} of {one.subject}" if one.subject else one.quantity
            names.setdefault(one.reason, []).append(name)
    lines = []
    for reason, members in sorted(names.items(), key=lambda item: -len(item[1])):
        known = list(dict.fromkeys(members))
        more = f" and {len(known) - _MOST_NAMES} more" if len(known) > _MOST_NAMES else ""
        lines.append(f"{', '.join(known[:_MOST_NAMES])}{more}: {reason}")
    return lines[:_MOST_REASONS]


def _show(found: Comparison) -> None:
    from rich.console import Console
    from rich.table import Table

    from schedlens.differences import matched_findings, numbers
    from schedlens.output.terminal import escape
    from schedlens.output.wording import count

    console = Console(highlight=False, soft_wrap=True)
    wide = console if console.is_terminal else Console(width=10_000, highlight=False)
    shown = [one for one in found.differences if one.verdict != "cannot tell"]
    console.print(
        f"A {count(len(found.labels_a), 'recording')}, B {count(len(found.labels_b), 'recording')}"
        f": {len(shown)} of {count(len(found.differences), 'quantity', 'quantities')} differ"
    )
    if shown:
        grid = Table(show_edge=False, pad_edge=False)
        for name in ("quantity", "of", "A", "B", "B - A (95 %)", ""):
            grid.add_column(name, no_wrap=name == "quantity")
        several = len({one.step for one in found.differences}) > 1
        for one in shown[:_MOST]:
            grid.add_row(
                one.quantity,
                escape(", ".join(filter(None, (one.subject, one.step if several else None)))),
                numbers.value(one.a, one.unit),
                numbers.value(one.b, one.unit),
                numbers.difference(one),
                _colored(one),
            )
        wide.print(grid)
        if len(shown) > _MOST:
            console.print(f"{len(shown) - _MOST} more: see --report or --json")
    else:
        console.print("No difference is shown. That is not the same as no change.")
    for line in _not_compared(found):
        console.print(f"[dim]not compared: {escape(line)}[/]")
    for moved in found.mechanisms:
        of = f" of {escape(moved.subject)}" if moved.subject else ""
        console.print(
            f"{moved.symptom} moved with {moved.quantity}{of} (rank correlation "
            f"{moved.correlation:+.2f}): see {moved.analyzer}"
        )
    for fact in found.machine:
        console.print(
            f"{fact.topic}: {escape(fact.key)}: {escape(fact.a or 'none')} in A, "
            f"{escape(fact.b or 'none')} in B"
        )
    if found.findings:
        console.print(f"findings: {matched_findings.line(found.findings)}")
        changed = [one for one in found.findings if one.state != "both" and one.severity != "info"]
        for matched in changed[:_MOST_FINDINGS]:
            of = f" ({escape(matched.subject)})" if matched.subject else ""
            console.print(f"  {matched.state:<5}{matched.severity:<9}{escape(matched.title)}{of}")
        if len(changed) > _MOST_FINDINGS:
            console.print(f"  {len(changed) - _MOST_FINDINGS} more: see --report or --json")
    for step in found.unmatched:
        console.print(f"not compared: step {escape(step)}")
    if found.gate is not None:
        colors = {"regression": "red", "within": "green", "cannot tell": "yellow"}
        for judged in found.gate.judged:
            console.print(
                f"[{colors[judged.state]}]{judged.state}[/]  {escape(judged.name)}: "
                f"{escape(judged.reason)}"
            )
        console.print(f"gate: {found.gate.state}")


def _colored(one: Difference) -> str:
    if one.is_worse is None:
        return one.verdict
    return "[red]worse[/]" if one.is_worse else "[green]better[/]"
