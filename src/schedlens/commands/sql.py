"""The commands `schedlens sql` and `schedlens queries`."""

from __future__ import annotations

import io
import json
import os
import re
import shutil
import sys
from typing import TYPE_CHECKING

import click

from schedlens.ask import catalog
from schedlens.commands import completion
from schedlens.errors import DatabaseError
from schedlens.load import schema

if TYPE_CHECKING:
    import pyarrow as pa
    from rich.console import Console
    from rich.table import Table

_NO_WIDTH = 10_000


@click.command("sql")
@click.argument("path", shell_complete=completion.sessions)
@click.argument("query", nargs=-1, required=True, shell_complete=completion.queries)
@click.option("--json", "as_json", is_flag=True, help="Print one JSON object per row.")
@click.option("--csv", "as_csv", is_flag=True, help="Print comma-separated values with a header.")
@click.option("--wide", is_flag=True, help="Print all columns, whatever the terminal's width.")
@click.option("--rows", default=40, show_default=True, help="Rows to print as a table; 0 for all.")
@click.option("--no-pager", is_flag=True, help="Never use a pager.")
def sql(
    path: str,
    query: tuple[str, ...],
    as_json: bool,
    as_csv: bool,
    wide: bool,
    rows: int,
    no_pager: bool,
) -> int:
    """Run a QUERY on the session, database or lake PATH.

    QUERY is SQL, or the name of a table, or of a query with optional arguments:

    \b
      schedlens sql SESSION sibling_overlap
      schedlens sql SESSION thread_summary process=game
      schedlens sql SESSION "SELECT * FROM trace"
      schedlens sql s3://bucket/lake fleet_finding

    A terminal shows the columns that fit its width, and a table longer than the screen in $PAGER;
    --wide shows all columns. A pipe gets all columns.
    """
    from schedlens.lake import reading

    text = statement(query)
    # Only these are known to need no records, whose files take seconds to list in a large lake.
    of_fleet = query[0] in {found.name for found in catalog.load_fleet()}
    with reading.opened(path, is_fleet_only=of_fleet) as analysis:
        table = _with_printed_times(analysis.sql(text))
    if as_json:
        for row in table.to_pylist():
            click.echo(json.dumps(row, default=str))
    elif as_csv:
        _write_csv(table)
    else:
        _show(table, rows, wide=wide, paged=not no_pager)
    return 0


def _with_printed_times(table: pa.Table) -> pa.Table:
    """The table with texts for times in ns, which Python's own type for times cannot hold, and for
    intervals, in the form of a DuckDB shell."""
    import pyarrow as pa

    for place, field in enumerate(table.schema):
        if pa.types.is_timestamp(field.type) and field.type.unit == "ns":
            texts = table.column(place).cast(pa.timestamp("ns")).cast(pa.string())
        elif pa.types.is_interval(field.type):
            values = table.column(place).to_pylist()
            texts = pa.array(
                [None if value is None else _interval(*value) for value in values], pa.string()
            )
        else:
            continue
        table = table.set_column(place, field.name, texts)
    return table


def _interval(months: int, days: int, nanoseconds: int) -> str:
    """`1 year 2 months 3 days 04:05:06.7`."""
    years = int(months / 12)
    counted = ((years, "year"), (months - 12 * years, "month"), (days, "day"))
    parts = [
        f"{number} {unit}" + ("" if abs(number) == 1 else "s") for number, unit in counted if number
    ]
    if nanoseconds or not parts:
        seconds, left = divmod(abs(nanoseconds), 1_000_000_000)
        fraction = f".{left:09}".rstrip("0") if left else ""
        sign = "-" if nanoseconds < 0 else ""
        hours, minutes = seconds // 3600, seconds // 60 % 60
        parts.append(f"{sign}{hours:02}:{minutes:02}:{seconds % 60:02}{fraction}")
    return " ".join(parts)


def statement(query: tuple[str, ...]) -> str:
    """The SQL for the arguments: SQL, a table, or a query name and `parameter=value` pairs."""
    if query[0] in schema.table_names():
        if len(query) > 1:
            raise click.UsageError(
                f"{query[0]} is a table, which takes no arguments: choose rows with SQL, such as "
                f'"FROM {query[0]} WHERE trace_id = 1"'
            )
        return f"FROM {query[0]}"
    if len(query) == 1 and not re.fullmatch(r"[\w.]+", query[0]):
        return query[0]
    found = catalog.find(query[0], schema.table_names())
    known = sorted(parameter.name for parameter in found.parameters)
    arguments: dict[str, str] = {}
    for pair in query[1:]:
        key, equals, value = pair.partition("=")
        name = key if key.startswith("p_") else f"p_{key}"
        if not equals or name not in known:
            raise click.UsageError(
                f"'{pair}' is not an argument of {found.full_name}. Its arguments: "
                f"{', '.join(known) or 'none'}, written name=value"
            )
        number = re.fullmatch(r"-?\d+(\.\d+)?|null|true|false", value, re.IGNORECASE)
        arguments[name] = value if number else schema.literal(value)
    return catalog.call(found, arguments)


def _with_flat_columns(table: pa.Table) -> pa.Table:
    """The table with JSON for lists, structs and maps, which CSV does not have."""
    import pyarrow as pa

    for place, field in enumerate(table.schema):
        if not pa.types.is_nested(field.type):
            continue
        values = table.column(place).to_pylist()
        texts = [None if value is None else json.dumps(value, default=str) for value in values]
        table = table.set_column(place, field.name, pa.array(texts, pa.string()))
    return table


def _write_csv(table: pa.Table) -> None:
    """Unchanged bytes for a file or a pipe; printable text for a terminal."""
    import pyarrow.csv

    text = io.BytesIO()
    try:
        pyarrow.csv.write_csv(_with_flat_columns(table), text)
    except pyarrow.ArrowException as error:
        raise DatabaseError(
            f"--csv cannot print this result ({str(error).splitlines()[0]}): cast its columns with "
            "::VARCHAR, or use --json"
        ) from None
    if not sys.stdout.isatty():
        sys.stdout.buffer.write(text.getbuffer())
        return
    from schedlens.output import terminal

    click.echo(terminal.plain(text.getvalue().decode("utf-8", "replace")), nl=False)


def _show(table: pa.Table, limit: int, *, wide: bool, paged: bool) -> None:
    from rich.console import Console
    from rich.table import Table

    from schedlens.output import fitted
    from schedlens.output.terminal import escape

    shown = table if limit == 0 else table.slice(0, limit)
    columns = list(table.schema)
    cells = [[_cell(value) for value in row.values()] for row in shown.to_pylist()]
    console = Console()
    places = list(range(len(columns)))
    if console.is_terminal and not wide:
        places = fitted.chosen([field.name for field in columns], cells, console.width)
    elif wide or not console.is_terminal:
        # Output to a pipe has no fixed width, and a truncated cell would be wrong.
        console = Console(width=_NO_WIDTH)
    view = Table(show_edge=False, pad_edge=False)
    for place in places:
        number = str(columns[place].type) in {"int64", "int32", "double"}
        view.add_column(escape(columns[place].name), justify="right" if number else "left")
    for row in cells:
        view.add_row(*(row[place] for place in places))
    notes = []
    if len(places) < len(columns):
        left_out = [field.name for place, field in enumerate(columns) if place not in places]
        notes.append(f"{len(left_out)} columns do not fit: --wide, --csv and --json show all")
    if table.num_rows > shown.num_rows:
        left = table.num_rows - shown.num_rows
        notes.append(f"{left} more rows: --rows 0 shows all, --csv and --json write all")
    _print(console, view, paged=paged)
    for note in notes:
        click.echo(note, err=True)


def _print(console: Console, view: Table, *, paged: bool) -> None:
    """Prints a table, in a pager if it is longer than the terminal or wider."""
    if not console.is_terminal or not paged or not sys.stdin.isatty():
        console.print(view)
        return
    with console.capture() as captured:
        console.print(view)
    lines = captured.get().splitlines()
    wide = console.width >= _NO_WIDTH
    if len(lines) < shutil.get_terminal_size().lines and not wide:
        console.print(view)
        return
    # less quits if all fits, keeps colors, and scrolls sideways instead of folding lines.
    os.environ.setdefault("LESS", "-FRSX")
    click.echo_via_pager("\n".join(lines) + "\n", color=True)


def _cell(value: object) -> str:
    from schedlens.output.terminal import escape

    if value is None:
        return "NULL"
    if isinstance(value, float):
        return f"{value:.4g}" if abs(value) < 1000 else f"{value:,.1f}"
    return escape(str(value))


@click.command("queries")
@click.argument("name", required=False, shell_complete=completion.queries)
@click.option("--json", "as_json", is_flag=True, help="Print one JSON array.")
def queries(name: str | None, as_json: bool) -> int:
    """List the named queries, or show one with its parameters, columns and SQL."""
    chosen = [catalog.find(name)] if name else catalog.load_all() + catalog.load_fleet()
    if as_json:
        click.echo(json.dumps([_as_json(query) for query in chosen], indent=2))
        return 0
    if name is None:
        width = max(len(query.full_name) for query in chosen)
        for query in sorted(chosen, key=lambda q: (q.schema != "main", q.full_name)):
            click.echo(f"{query.full_name:<{width}}  {query.text.split('. ')[0].rstrip('.')}")
        click.echo("\nRun `schedlens queries NAME` for parameters, columns and SQL", err=True)
        return 0
    query = chosen[0]
    click.echo(f"{query.full_name}\n  {query.text}\n\nParameters")
    for parameter in query.parameters:
        click.echo(f"  {parameter.name} [{parameter.default}]  {parameter.text}")
    click.echo("\nColumns")
    for column, text in query.columns:
        click.echo(f"  {column}  {text}")
    click.echo(f"\nSQL\n{query.sql}")
    return 0


def _as_json(query: catalog.Query) -> dict[str, object]:
    return {
        "name": query.full_name,
        "text": query.text,
        "parameters": [vars(parameter) for parameter in query.parameters],
        "columns": dict(query.columns),
        "sql": query.sql,
    }
