"""The command `schedlens mcp`: tools for agents over stdin and stdout."""

from __future__ import annotations

from pathlib import Path

import click

LEAST_BYTES, DEFAULT_BYTES = 6144, 8192


@click.command("mcp")
@click.argument(
    "folders", nargs=-1, required=True,
    type=click.Path(path_type=Path, exists=True, file_okay=False),
)  # fmt: skip
@click.option(
    "--max-bytes", type=click.IntRange(LEAST_BYTES, 1 << 20), default=DEFAULT_BYTES,
    show_default=True, help="Bytes of an answer at most; it says how many rows it omits.",
)  # fmt: skip
@click.option(
    "--max-seconds", type=click.FloatRange(0.1, 600), default=30.0, show_default=True,
    help="Seconds that one SQL statement may take.",
)  # fmt: skip
def mcp(folders: tuple[Path, ...], max_bytes: int, max_seconds: float) -> None:
    """Serve the analyses in FOLDERS to agents, over the Model Context Protocol on stdin and stdout.

    Lists sessions and findings, returns the evidence of a finding, the story of a thread, what a
    change would gain, how sessions differ, the rows of a SELECT statement, and what a recording
    contains. Reads only FOLDERS and what is below, and
    writes nothing. Needs `pip install schedlens[mcp]`: docs/agents.md.
    """
    from schedlens.lake import extras

    extras.needed("mcp", "mcp")
    from schedlens.agents import server

    server.serve(folders, most_bytes=max_bytes, seconds=max_seconds)
