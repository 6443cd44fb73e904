"""The command `schedlens events`: the events of a recording with their decoded fields."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import BinaryIO

import click

from schedlens.commands.trace_window import checked, trace_time

STYLES = ("text", "json", "csv", "arrow")


@click.command("events")
@click.argument("paths", nargs=-1, required=True, type=click.Path(path_type=Path))
@click.option(
    "--provider", multiple=True, metavar="PATTERN",
    help="Only events of this provider, such as 'Windows Kernel' or sched; * and ? are wildcards.",
)  # fmt: skip
@click.option(
    "--name", multiple=True, metavar="PATTERN",
    help="Only events of this name or id, such as Thread/CSwitch, CSwitch, or sched_*.",
)  # fmt: skip
@click.option(
    "--from", "from_s", type=float, callback=trace_time,
    help="Start of the window, in s from the start of the recording.",
)  # fmt: skip
@click.option(
    "--to", "to_s", type=float, callback=trace_time,
    help="End of the window, in s from the start of the recording.",
)  # fmt: skip
@click.option("--json", "style", flag_value="json", help="One JSON object a line.")
@click.option("--csv", "style", flag_value="csv", help="CSV; the fields are one JSON cell.")
@click.option("--arrow", "style", flag_value="arrow", help="An Arrow IPC stream.")
@click.option(
    "-o", "--output", type=click.Path(path_type=Path, dir_okay=False),
    help="Write to this file instead of the terminal.",
)  # fmt: skip
def events(
    paths: tuple[Path, ...],
    provider: tuple[str, ...],
    name: tuple[str, ...],
    from_s: float | None,
    to_s: float | None,
    style: str | None,
    output: Path | None,
) -> int:
    """Print every event of a recording with its decoded fields, in the order of time.

    PATHS is a perf.data, a trace.dat, the .etl files of one recording, or the folder of a step.
    Without a format option, each event is one line for people. `schedlens.events()` returns the
    same in Python.
    """
    from schedlens.errors import NothingToReadError
    from schedlens.load import decoded
    from schedlens.output import whole_file

    checked(from_s, to_s)
    style = style or "text"
    if style == "arrow" and output is None and sys.stdout.isatty():
        raise click.UsageError("--arrow writes binary data: add -o FILE, or pipe it into a reader")
    found = decoded.files(paths)

    def write(out: BinaryIO) -> None:
        if style == "arrow":
            import pyarrow as pa

            reader = decoded.read(found, provider=provider, name=name, from_s=from_s, to_s=to_s)
            with pa.ipc.new_stream(out, reader.schema) as stream:
                for batch in reader:
                    stream.write_batch(batch)
            return
        for lines in decoded.texts(found, style, provider, name, from_s, to_s):
            out.write(lines.encode("utf-8", "surrogateescape"))

    if output is None:
        out = sys.stdout.buffer
        write(out)
        out.flush()
        return 0
    if any(output.exists() and output.samefile(file) for file in found):
        raise NothingToReadError(f"{output} is the recording itself: choose another file")
    whole_file.write(output, write)
    return 0
