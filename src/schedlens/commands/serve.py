"""The command `schedlens serve`: the report of a session with every slice, in a browser."""

from __future__ import annotations

import contextlib
import webbrowser
from pathlib import Path

import click


@click.command("serve")
@click.argument("path", type=click.Path(path_type=Path))
@click.option(
    "--port",
    type=click.IntRange(0, 65535),
    default=0,
    help="Port of 127.0.0.1. Default: a free one.",
)
@click.option(
    "--max-seconds", type=click.FloatRange(0.1, 600), default=10.0, show_default=True,
    help="Seconds that one SQL statement may take.",
)  # fmt: skip
@click.option("--open/--no-open", "open_page", default=True, help="Open the page in a browser.")
def serve(path: Path, port: int, max_seconds: float, open_page: bool) -> int:
    """Serve the report of the analyzed session PATH on this machine, with every slice.

    The page reads slices and sums from the database on demand, and offers SQL. It is reachable
    from 127.0.0.1 only, with the random token in the printed address. Ctrl-C stops it.
    """
    from schedlens.output.terminal import visible
    from schedlens.serve import local_address

    def started(address: str) -> None:
        click.echo(f"serving   {visible(str(path))} until Ctrl-C")
        click.echo(f"open      {address}")
        click.echo(f"SQL       {address.replace('/?', '/sql?')}")
        if open_page:
            webbrowser.open(address)

    # uvicorn raises the interrupt again once it has stopped.
    with contextlib.suppress(KeyboardInterrupt):
        local_address.serve(path, port, max_seconds, started)
    return 0
