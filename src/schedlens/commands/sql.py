"""The commands `schedlens sql` and `schedlens queries`."""

from __future__ import annotations

import io
import json
import re
import sys
from typing import TYPE_CHECKING

import click

from schedlens.ask import catalog
from schedlens.load import schema

if TYPE_CHECKING:
    import pyarrow as pa


@click.command("sql")
@click.argument("path")
@click.argument("query", nargs=-1, required=True)
@click.option("--json", "as_json", is_flag=True, help="Print one JSON object per row.")
@click.option("--csv", "as_csv", is_flag=True, help="Print comma-separated values with a header.")
@click.option("--rows", default=40, show_default=True, help="Rows to print as a table; 0 for all.")
def sql(path: str, query: tuple[str, ...], as_json: bool, as_csv: bool, rows: int) -> int:
    """Run a QUERY on the session, database or lake PATH.

    QUERY is SQL, or the name of a query with optional arguments:

    \b
      schedlens sql SESSION sibling_overlap
      schedlens sql SESSION thread_summary process=game
      schedlens sql SESSION "SELECT * FROM trace"
      schedlens sql s3://bucket/lake fleet_finding
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
        _show(table, rows)
    return 0


def _with_printed_times(table: pa.Table) -> pa.Table:
    """The table with texts for times in ns, which Python's own type for times cannot hold."""
    import pyarrow as pa

    for place, field in enumerate(table.schema):
        if pa.types.is_timestamp(field.type) and field.type.unit == "ns":
            texts = table.column(place).cast(pa.timestamp("ns")).cast(pa.string())
            table = table.set_column(place, field.name, texts)
    return table


def statement(query: tuple[str, ...]) -> str:
    """The SQL for the arguments: SQL itself, or a query name and `parameter=value` pairs."""
    if len(query) == 1 and not re.fullmatch(r"[\w.]+", query[0]):
        return query[0]
    found = catalog.find(query[0])
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


def _write_csv(table: pa.Table) -> None:
    """Unchanged bytes for a file or a pipe; printable text for a terminal."""
    import pyarrow.csv

    if not sys.stdout.isatty():
        pyarrow.csv.write_csv(table, sys.stdout.buffer)
        return
    from schedlens.output import terminal

    text = io.BytesIO()
    pyarrow.csv.write_csv(table, text)
    click.echo(terminal.plain(text.getvalue().decode("utf-8", "replace")), nl=False)


def _show(table: pa.Table, limit: int) -> None:
    from rich.console import Console
    from rich.table import Table

    from schedlens.output.terminal import escape

    shown = table if limit == 0 else table.slice(0, limit)
    view = Table(show_edge=False, pad_edge=False)
    columns = table.schema
    for field in columns:
        number = str(field.type) in {"int64", "int32", "double"}
        view.add_column(escape(field.name), justify="right" if number else "left")
    for row in shown.to_pylist():
        view.add_row(*(_cell(value) for value in row.values()))
    console = Console()
    if not console.is_terminal:
        # Output to a pipe has no fixed width, and a truncated cell would be wrong.
        console = Console(width=10_000)
    console.print(view)
    left = table.num_rows - shown.num_rows
    if left:
        click.echo(f"{left} more rows: --rows 0 shows all, --csv and --json write all", err=True)


def _cell(value: object) -> str:
    from schedlens.output.terminal import escape

    if value is None:
        return "NULL"
    if isinstance(value, float):
        return f"{value:.4g}" if abs(value) < 1000 else f"{value:,.1f}"
    return escape(str(value))


@click.command("queries")
@click.argument("name", required=False)
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
