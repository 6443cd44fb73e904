"""Writes docs/reference/: the commands from click, tables and views from DuckDB's catalog.

`python tools/reference.py` writes both files; with `--check` it writes nothing, names those that
are stale, and returns 1 if there are any.
"""

from __future__ import annotations

import inspect
import sys
from collections.abc import Iterator
from pathlib import Path

import click
import duckdb

from schedlens.ask import catalog
from schedlens.commands import cli
from schedlens.lake import change_points, sketches
from schedlens.load import schema

ROOT = Path(__file__).resolve().parents[1]
FOLDER = ROOT / "docs" / "reference"
WRITTEN = "Written by `make reference`; edit the sources that it names instead."


def commands() -> str:
    """docs/reference/commands.md."""
    lines = [
        "# Commands",
        "",
        f"Each command with its arguments and options. {WRITTEN} "
        "The source is the help text in `src/schedlens/commands/`.",
    ]
    root = click.Context(cli.group, info_name="schedlens")
    for name in cli.group.list_commands(root):
        command = cli.group.get_command(root, name)
        assert command is not None
        lines += _command(command, click.Context(command, parent=root, info_name=name))
    return "\n".join(lines) + "\n"


def _command(command: click.Command, context: click.Context) -> Iterator[str]:
    path = context.command_path
    # The two commands that are installed under their own names as well.
    short = path.removeprefix("schedlens ")
    names = f"`{path}`, `{short}`" if short in ("collect", "analyze") else f"`{path}`"
    yield from ("", f"## {names}", "", *_usage(command, context), "")
    yield from inspect.cleandoc(command.help or "").splitlines()
    records = [
        parameter.get_help_record(context)
        for parameter in command.get_params(context)
        if "--help" not in parameter.opts
    ]
    # An argument without a help text is in the usage line already.
    options = [record for record in records if record and record[1]]
    if options:
        yield from ("", "| option | meaning |", "|---|---|")
        yield from (f"| `{_cell(option)}` | {_cell(text)} |" for option, text in options)
    if isinstance(command, click.Group):
        for name in command.list_commands(context):
            below = command.get_command(context, name)
            assert below is not None
            yield from _command(below, click.Context(below, parent=context, info_name=name))


def _usage(command: click.Command, context: click.Context) -> Iterator[str]:
    words = [context.command_path, *command.collect_usage_pieces(context)]
    yield from ("```", " ".join(words), "```")


def views() -> str:
    """docs/reference/views.md."""
    with duckdb.connect() as con:
        files = schema.create(con)
        catalog.install(con)
        sketches.install(con)
        change_points.install(con)
        files |= schema.create(con, [schema.lake_file()])
        catalog.install(con, catalog.load_fleet())
        columns = _columns(con)
        macros = _macros(con)
    lines = [
        "# Views and tables",
        "",
        f"What the database of an analysis contains. {WRITTEN} "
        "The sources are the comments in `queries/`.",
        "Those under `fleet`, and the tables of lake.sql, are only in the database of a lake "
        "([lake.md](../lake.md)). "
        "Each view is also a table macro with the listed parameters: `FROM steal` and "
        "`FROM steal(p_trace_id := 1)`. A mark in parentheses states the bounds of a time if "
        'events were lost ([data-model.md](../data-model.md), "Bounds"). Unknown is NULL.',
    ]
    every = catalog.load_all() + catalog.load_fleet()
    queries = {query.full_name: query for query in every}
    for subject, names in _subjects().items():
        lines += ["", f"## {subject}"]
        for name in names:
            lines += _view(queries.pop(name), columns[name])
    if queries:
        raise LookupError(f"queries without a subject: {sorted(queries)}")
    lines += ["", "## Macros", "", "In `queries/schema/macros.sql`, for any query.", "", *macros]
    lines += ["", "## Tables"]
    for name, path in files.items():
        lines += ["", f"### {name}", "", f"In `queries/schema/{path.name}`.", ""]
        lines += _table(columns[name])
    return "\n".join(lines) + "\n"


def _subjects() -> dict[str, list[str]]:
    """Names of the queries by the folder that contains them; dialects come last."""
    own = sorted(path for path in schema.folder().glob("*/*.sql") if path.parent.name != "schema")
    dialects = sorted((schema.folder() / "dialects").glob("*/*.sql"))
    found: dict[str, list[str]] = {}
    for path in own:
        found.setdefault(path.parent.name, []).append(path.stem)
    for path in dialects:
        subject = f"dialects/{path.parent.name}"
        found.setdefault(subject, []).append(f"{path.parent.name}.{path.stem}")
    return found


def _view(query: catalog.Query, columns: list[tuple[str, str, str]]) -> Iterator[str]:
    yield from ("", f"### {query.full_name}", "", query.text, "")
    if query.parameters:
        yield from ("| parameter | default | meaning |", "|---|---|---|")
        for parameter in query.parameters:
            yield f"| `{parameter.name}` | `{_cell(parameter.default)}` | {_cell(parameter.text)} |"
        yield ""
    yield from _table(columns)


def _table(columns: list[tuple[str, str, str]]) -> Iterator[str]:
    yield from ("| column | type | meaning |", "|---|---|---|")
    yield from (f"| `{name}` | {kind} | {_cell(text)} |" for name, kind, text in columns)


def _columns(con: duckdb.DuckDBPyConnection) -> dict[str, list[tuple[str, str, str]]]:
    """Name, type and comment of each column, by table or view."""
    found: dict[str, list[tuple[str, str, str]]] = {}
    for name_space, table, column, kind, text in con.execute(
        "SELECT schema_name, table_name, column_name, data_type, coalesce(comment, '') "
        "FROM duckdb_columns() WHERE NOT internal ORDER BY schema_name, table_name, column_index"
    ).fetchall():
        name = table if name_space == "main" else f"{name_space}.{table}"
        found.setdefault(name, []).append((column, kind, text))
    return found


def _macros(con: duckdb.DuckDBPyConnection) -> list[str]:
    """A table of the scalar macros with their comments."""
    rows = con.execute(
        "SELECT function_name, parameters, comment FROM duckdb_functions() "
        "WHERE function_type = 'macro' AND NOT internal ORDER BY function_name"
    ).fetchall()
    calls = ((f"`{name}({', '.join(parameters)})`", text) for name, parameters, text in rows)
    table = (f"| {call} | {_cell(text)} |" for call, text in calls)
    return ["| macro | meaning |", "|---|---|", *table]


def _cell(text: str) -> str:
    """Text for one cell of a table."""
    return " ".join(text.split()).replace("|", "\\|")


def main(arguments: list[str]) -> int:
    """Exit status."""
    stale = []
    for path, text in ((FOLDER / "commands.md", commands()), (FOLDER / "views.md", views())):
        if path.exists() and path.read_text(encoding="utf-8") == text:
            continue
        stale.append(path)
        if "--check" not in arguments:
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text, encoding="utf-8", newline="\n")
    for path in stale:
        state = "is stale: run `make reference`" if "--check" in arguments else "written"
        print(f"{path.relative_to(ROOT)} {state}")
    return 1 if stale and "--check" in arguments else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
