"""The command `schedlens inspect`: shows what a trace contains and what it can answer."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import click

# Number of gaps shown without --json.
GAPS_SHOWN = 8


@click.command("inspect")
@click.argument("paths", nargs=-1, required=True, type=click.Path(path_type=Path))
@click.option("--json", "as_json", is_flag=True, help="Print everything as one JSON object.")
def inspect(paths: tuple[Path, ...], as_json: bool) -> int:
    """Show the contents of the trace in PATHS: header, clock, CPUs, records, processes, loss.

    Also lists which questions the trace can answer. Name all .etl files of one recording together,
    those of the kernel and those of programs.
    """
    from schedlens import _decoders
    from schedlens.errors import NothingToReadError
    from schedlens.load import converted, recording, scrubbed_file

    facts: dict[str, Any]
    for path in paths:
        if not path.exists():
            raise NothingToReadError(
                f"{path} does not exist: name a perf.data, trace.dat or .etl file"
            )
        if (path / "session.json").exists():
            traces = [step.trace for step in recording.gather([path]) if step.trace is not None]
            todo = (
                f"name a recording in it, such as {traces[0]}" if traces else "it has no recording"
            )
            raise NothingToReadError(f"{path} is a session folder: {todo}")
    if len(paths) == 1 and scrubbed_file.is_one(paths[0]):
        facts = scrubbed_file.facts(paths[0])
    elif len(paths) == 1:
        with converted.made(paths[0]) as found:
            facts = json.loads(_decoders.inspect(str(found.path if found else paths[0])))
            if found is not None and found.source is not None:
                facts["format"] = f"{found.source}: {facts['format']}"
                facts["problems"] += [vars(problem) for problem in found.problems]
    else:
        facts = json.loads(_decoders.inspect(*map(str, paths)))
    if as_json:
        click.echo(json.dumps(facts, indent=2))
    else:
        _show(paths, facts)
    return 1 if facts.get("problems") else 0


def _show(paths: tuple[Path, ...], facts: dict[str, Any]) -> None:
    from rich.console import Console
    from rich.table import Table

    from schedlens.output.terminal import escape

    console = Console(highlight=False)
    console.print(f"[bold]{escape(' '.join(map(str, paths)))}[/bold]")
    head = Table.grid(padding=(0, 2))
    for key, value in facts.items():
        if not isinstance(value, (dict, list)):
            head.add_row(escape(key), escape(str(value)))
    for key, value in facts.get("header", {}).items():
        shown = ", ".join(map(str, value)) if isinstance(value, list) else str(value)
        head.add_row(escape(key), escape(shown))
    console.print(head)
    records = facts.get("records_by_event", {})
    if records:
        table = Table("record", "count", show_edge=False, title_justify="left")
        for name, count in sorted(records.items(), key=lambda item: -item[1]):
            table.add_row(escape(name), f"{count:,}")
        console.print(table)
    processes = facts.get("processes", [])
    if processes:
        names = ", ".join(f"{p.get('name')} ({p.get('pid')})" for p in processes[:12])
        console.print(
            f"{len(processes)} processes: {escape(names)}{' ...' * (len(processes) > 12)}"
        )
    loss = facts.get("loss", {})
    for gap in loss.get("gaps", [])[:GAPS_SHOWN]:
        where = "some CPU" if gap["cpu"] is None else f"CPU {gap['cpu']}"
        begin, end = (
            "not known" if ns is None else f"{ns / 1e9:.6f} s"
            for ns in (gap["start_ns"], gap["end_ns"])
        )
        console.print(f"[red]lost[/red]        {where}: {begin} to {end} ({gap['signalled_by']})")
    if len(loss.get("gaps", [])) > GAPS_SHOWN:
        console.print(f"            and {len(loss['gaps']) - GAPS_SHOWN:,} more; --json lists them")
    for name in facts.get("documentation_only", []):
        console.print(f"[yellow]untried[/yellow]     read by documentation alone: {escape(name)}")
    for answer in facts.get("can_answer", []):
        if answer["answerable"]:
            console.print(f"[green]can answer[/green]  {escape(answer['question'])}")
        else:
            why = escape(f"{answer['question']}: {answer['why']}")
            console.print(f"[yellow]cannot[/yellow]      {why}")
            if answer.get("record_with"):
                console.print(f"            record with {escape(answer['record_with'])}")
    for problem in facts.get("problems", []):
        place = escape(f"{problem['place']}: {problem['what']} ({problem['count']})")
        console.print(f"[red]problem[/red]     {place}")
