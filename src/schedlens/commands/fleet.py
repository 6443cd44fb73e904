"""The commands `schedlens fleet` and `schedlens fleet-report`."""

from __future__ import annotations

import json
from pathlib import Path

import click


@click.command("fleet")
@click.argument("sources", nargs=-1, required=True, type=click.Path(path_type=Path))
@click.option(
    "--lake", required=True, metavar="DIR-OR-URL",
    help="Where to write tables and findings: docs/lake.md.",
)  # fmt: skip
@click.option(
    "--scheduler", metavar="ADDRESS",
    help="A Dask scheduler, such as tcp://10.0.0.5:8786. Default: a cluster on this machine.",
)  # fmt: skip
@click.option(
    "--workers", type=click.IntRange(1),
    help="Processes on this machine. Default: one per CPU, with 2 GiB of memory each.",
)  # fmt: skip
@click.option(
    "--memory", metavar="SIZE",
    help="Memory of all processes on this machine. Default: 80 % of the machine's.",
)  # fmt: skip
@click.option("--machine", help="The machine of all recordings. Default: the recorded host.")
@click.option("--build", help="The build of the recorded software, for all recordings.")
@click.option(
    "--retries", type=click.IntRange(0), default=2, show_default=True,
    help="How often a recording is tried again if its worker fails.",
)  # fmt: skip
@click.option("--retry-failed", is_flag=True, help="Try recordings again that were set aside.")
@click.option(
    "--retain", type=click.IntRange(0), metavar="DAYS",
    help="Afterwards remove records and states of recordings older than this; findings, sketches "
    "and scrubbed extracts remain.",
)  # fmt: skip
@click.option("--json", "as_json", is_flag=True, help="The result as one JSON object.")
def fleet(
    sources: tuple[Path, ...],
    lake: str,
    scheduler: str | None,
    workers: int | None,
    memory: str | None,
    machine: str | None,
    build: str | None,
    retries: int,
    retry_failed: bool,
    retain: int | None,
    as_json: bool,
) -> int:
    """Analyze many recordings in parallel and write them to a lake.

    SOURCES are recordings, session folders, or folders that contain them at any depth; parts of
    their paths such as `machine=kiosk-7` and `build=1.4.2` label the recordings. A second run
    analyzes only what is new. Exit code 0: all is in the lake. 1: some recordings were set aside,
    now or before. 2: the run ended early; run it again to continue.
    """
    from schedlens.fleet import cluster, dispatch
    from schedlens.fleet import sources as units
    from schedlens.lake import checkpoint, retention, set_aside
    from schedlens.lake.extras import needed
    from schedlens.lake.file_access import LakeFiles
    from schedlens.machine.memory import size
    from schedlens.output import terminal
    from schedlens.output.progress import bar
    from schedlens.output.wording import count

    # Before any work: a missing package would set every recording aside.
    needed("distributed", "fleet")
    needed("datasketches", "fleet")
    if scheduler is not None and (workers or memory):
        raise click.UsageError("--workers and --memory are those of a cluster on this machine")
    files = LakeFiles(lake)
    request = dispatch.Request(
        lake if "://" in lake else str(Path(lake).absolute()), machine, build, retries
    )
    found = units.find(sources)
    new = dispatch.new_units(files, found, request)
    result = dispatch.Result()
    if new:
        with cluster.connected(scheduler, workers, size(memory) if memory else None, retries) as on:
            click.echo(f"{count(len(new), 'recording')} to analyze; state of the cluster: "
                       f"{cluster.dashboard(on.client)}", err=True)  # fmt: skip
            with bar(quiet=as_json) as progress:
                result = dispatch.run(on, request, new, progress)
        checkpoint.write(files)
    removed = retention.apply(files, retain) if retain is not None else None
    if removed is not None and removed.recordings:
        checkpoint.write(files)
    notes = set_aside.read_all(files)
    if as_json:
        facts = {
            "new": result.new,
            "present": result.present + len(found) - len(new),
            "set_aside": notes,
            "seconds": result.seconds,
            "removed": vars(removed) if removed else None,
        }
        click.echo(json.dumps(facts, indent=2))
        return 1 if notes else 0
    rate = f" ({60 * result.new / result.seconds:.0f} per minute)" if result.new else ""
    click.echo(f"{count(result.new, 'recording')} written{rate}")
    if len(found) > len(new):
        click.echo(f"{count(len(found) - len(new), 'recording')} skipped: nothing changed")
    if removed is not None:
        click.echo(
            f"{count(removed.recordings, 'recording')} reduced to findings, sketches and extracts; "
            f"{removed.size >> 20} MiB removed"
        )
    for note in notes:
        click.echo(terminal.plain(f"set aside: {note['source']}: {note['reason']}"), err=True)
    return 1 if notes else 0


@click.command("fleet-report")
@click.argument("lake", metavar="LAKE")
@click.option(
    "-o", "--output", type=click.Path(path_type=Path, dir_okay=False),
    help="The HTML file. Default: fleet.html, or recording-NUMBER.html.",
)  # fmt: skip
@click.option(
    "--recording", metavar="NUMBER-OR-LABEL", help="The report of this recording instead."
)
def fleet_report(lake: str, output: Path | None, recording: str | None) -> int:
    """Write the report of all recordings of a LAKE, or of one of them.

    `schedlens sql LAKE fleet_recording` lists the recordings with their numbers.
    """
    import re

    from schedlens.fleet import fleet_page

    if recording is None:
        path = output or Path("fleet.html")
        fleet_page.write(lake, path)
    else:
        name = re.sub(r"[^\w.-]", "_", recording)
        path = output or Path(f"recording-{name}.html")
        fleet_page.write_recording(lake, recording, path)
    click.echo(f"report    {path}")
    return 0
