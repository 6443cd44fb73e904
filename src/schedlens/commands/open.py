"""The command `schedlens open`: shows a recording in the page of Perfetto."""

from __future__ import annotations

import webbrowser
from typing import TYPE_CHECKING

import click

if TYPE_CHECKING:
    import duckdb

# Shown before and after a finding, as a share of its length, and at least so many ns.
_MARGIN = 0.1
_LEAST_MARGIN_NS = 1_000_000


@click.command("open")
@click.argument("path")
@click.option("--perfetto", is_flag=True, required=True, help="In ui.perfetto.dev.")
@click.option(
    "--trace", "label", help="This recording, by label or number. Default: the finding's."
)
@click.option("--finding", type=int, help="Show this finding, by number. Default: the first.")
@click.option("--open/--no-open", "open_page", default=True, help="Open the page in a browser.")
def open(path: str, perfetto: bool, label: str | None, finding: int | None, open_page: bool) -> int:
    """Show a recording of the analyzed session PATH in ui.perfetto.dev, at the time of a finding.

    Serves the trace on 127.0.0.1:9001, which the page reads into the browser; nothing is uploaded.
    Ends once the page has read it.
    """
    from schedlens.export import chosen_recordings, local_server, perfetto_trace
    from schedlens.lake import reading
    from schedlens.output.leftover import TemporaryFolder
    from schedlens.output.progress import bar
    from schedlens.output.terminal import visible

    with TemporaryFolder() as work, reading.opened(path) as analysis:
        con = analysis.con
        shown = _finding(con, finding, label)
        if label is None and shown is not None and shown[0] is not None:
            label = str(shown[0])
        chosen = chosen_recordings.choose(con, label)[0]
        file = work / chosen.file_name
        window = perfetto_trace.window(con, chosen.trace_id, _span(shown))
        # The port first: writing the trace takes longer than finding out.
        with local_server.TraceServer(file, chosen.file_name) as server:
            with bar() as progress:
                perfetto_trace.save(con, chosen.trace_id, file, progress=progress)
            address = server.page(window)
            if shown is not None:
                click.echo(visible(f"finding   {shown[3]}"))
            click.echo(f"serving   {visible(chosen.label)} until the page has read it")
            if not (open_page and webbrowser.open(address)):
                click.echo(f"open      {address}")
            server.serve()
    return 0


# Recording, start and end in ns, title.
_Shown = tuple[int | None, int | None, int | None, str]


def _finding(
    con: duckdb.DuckDBPyConnection, number: int | None, label: str | None
) -> _Shown | None:
    """The finding of that number; else the first one of the recording, if possible with a time."""
    from schedlens.errors import UnknownNameError

    columns = "f.trace_id, f.start_ns, f.end_ns, f.title"
    if number is None:
        rows = con.execute(
            f"SELECT {columns} FROM finding AS f LEFT JOIN trace USING (trace_id) "
            "WHERE ($label IS NULL OR label = $label OR f.trace_id::VARCHAR = $label) "
            "ORDER BY start_ns IS NULL, f.trace_id IS NULL, finding_id LIMIT 1",
            {"label": label},
        ).fetchall()
        return rows[0] if rows else None
    rows = con.execute(
        f"SELECT {columns} FROM finding AS f WHERE finding_id = ?", [number]
    ).fetchall()
    if not rows:
        known = con.execute("SELECT finding_id FROM finding ORDER BY finding_id").fetchall()
        raise UnknownNameError("finding", str(number), [str(row[0]) for row in known])
    return rows[0]


def _span(shown: _Shown | None) -> tuple[int, int] | None:
    """The time of a finding with a margin, ns; None if it has none."""
    if shown is None or shown[1] is None:
        return None
    start, end = shown[1], max(shown[1], shown[2] or shown[1])
    margin = max(int((end - start) * _MARGIN), _LEAST_MARGIN_NS)
    return start - margin, end + margin
