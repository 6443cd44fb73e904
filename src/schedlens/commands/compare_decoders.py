"""The command `schedlens compare-decoders`: compares two readings of a recording by table."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

if TYPE_CHECKING:
    from rich.console import Console

    from schedlens.load.comparison.known import Known
    from schedlens.load.comparison.rows import Table


@click.command("compare-decoders")
@click.argument("folder", type=click.Path(path_type=Path))
@click.argument("trace", type=click.Path(path_type=Path))
@click.option("--json", "as_json", is_flag=True, help="Print everything as one JSON object.")
def compare_decoders(folder: Path, trace: Path, as_json: bool) -> int:
    """Compare a FOLDER of tables with the TRACE it was made from.

    FOLDER was written by another reader, such as etw_export on Windows; schedlens reads TRACE.
    Exit code 0: only known differences. 1: other differences. 2: one of them cannot be read.
    """
    from schedlens import _decoders
    from schedlens.errors import NotATraceError
    from schedlens.load import recording, recording_rows, store
    from schedlens.load.arrow_folder import layout
    from schedlens.load.comparison import rows as decoder_comparison
    from schedlens.load.comparison.known import known
    from schedlens.output.leftover import TemporaryFolder

    for path in (folder, trace):
        if not path.exists():
            raise NotATraceError(f"{path} does not exist: name a folder of tables and its trace")
    if not folder.is_dir():
        raise NotATraceError(f"{folder} is a file: name the folder of tables first, then its trace")
    if layout.is_one(trace):
        raise NotATraceError(f"{trace} is a folder of tables: name its trace second")
    if not layout.is_one(folder):
        raise NotATraceError(f"{folder} contains no tables: name the folder that an export wrote")
    contents = json.loads(_decoders.inspect(str(folder)))
    reasons = known(contents["source"], frozenset(contents["records_by_event"]))
    with TemporaryFolder() as work:
        database = work / "both.duckdb"
        with store.create(database) as con:
            for number, path in ((1, folder), (2, trace)):
                step = recording.Recording(path.name, path)
                recording_rows.load_base_and_derived(con, step, number)
            shift = decoder_comparison.shift_ns(con)
            tables = decoder_comparison.compare(con, reasons, shift or 0)
    facts: dict[str, Any] = {
        "folder": str(folder),
        "trace": str(trace),
        "written_by": contents["written_by"],
        "source": contents["source"],
        "shift_ns": shift,
        "unexplained": sum(table.unexplained for table in tables),
        "tables": [table.as_json() for table in tables],
        "cannot_give": [vars(reason) for reason in reasons],
    }
    if as_json:
        click.echo(json.dumps(facts, indent=2, default=str))
    else:
        _show(facts, tables, reasons)
    return 1 if facts["unexplained"] else 0


def _show(facts: dict[str, Any], tables: list[Table], reasons: tuple[Known, ...]) -> None:
    from rich.console import Console
    from rich.table import Table as Grid

    from schedlens.output.terminal import escape

    console = Console(highlight=False, soft_wrap=True)
    console.print(f"{escape(facts['folder'])}, written by {escape(facts['written_by'])}")
    console.print(f"compared with {escape(facts['trace'])}, read by schedlens")
    if facts["shift_ns"] is None:
        console.print("[yellow]the clocks do not match[/]: comparing times as they are")
    elif facts["shift_ns"]:
        console.print(f"shifted the folder's times by {facts['shift_ns']:,} ns to the same ns 0")
    grid = Grid(show_edge=False, pad_edge=False)
    grid.add_column("table", no_wrap=True)
    for name in (
        "folder",
        "trace",
        "equal",
        "only folder",
        "only trace",
        "differing",
        "unexplained",
    ):
        grid.add_column(name, justify="right")
    for table in tables:
        if table.rows_folder or table.rows_trace:
            numbers = (
                table.rows_folder, table.rows_trace, table.equal, table.only_folder,
                table.only_trace, table.differing, table.unexplained,
            )  # fmt: skip
            grid.add_row(table.table, *(f"{number:,}" for number in numbers))
    # Output to a pipe has no fixed width, and a truncated number would be wrong.
    wide = console if console.is_terminal else Console(width=10_000, highlight=False)
    wide.print(grid)
    for table in tables:
        _show_table(console, table, [r for r in reasons if r.table == table.table])
    if facts["unexplained"]:
        console.print(f"[red]{facts['unexplained']:,} rows differ for no known reason[/]")
    else:
        console.print("[green]only known differences[/]")


def _show_table(console: Console, table: Table, reasons: list[Known]) -> None:
    """Prints how a table differs, with one example each, and the known reasons."""
    from schedlens.output.terminal import escape

    lines = []
    for name, column in table.columns.items():
        known = f", {column.known:,} as expected" if column.known else ""
        lines.append(f"{name} differs in {column.differing:,} rows{known}: {column.example}")
    for side, examples, all_known in (
        ("folder", table.examples_folder, table.only_folder == table.only_folder_known),
        ("trace", table.examples_trace, table.only_trace == table.only_trace_known),
    ):
        if examples and not all_known:
            lines.append(f"only in the {side}: {examples[0]}")
    if not (lines or table.only_folder or table.only_trace):
        return
    console.print(f"\n[bold]{table.table}[/]")
    for line in lines:
        console.print(f"  {escape(line)}")
    for reason in dict.fromkeys(
        f"{reason.column or 'rows'}: {reason.why}"
        for reason in reasons
        if reason.column in table.columns
        or (reason.kind == "missing" and table.only_trace_known)
        or (reason.kind == "extra" and table.only_folder_known)
    ):
        console.print(f"  [dim]known  {escape(reason)}[/]")
