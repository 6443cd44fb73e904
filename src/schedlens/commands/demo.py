"""The command `schedlens demo`: simulates recordings, analyzes them, and opens the report."""

from __future__ import annotations

import shlex
import shutil
import webbrowser
from pathlib import Path

import click

FOLDER = Path("schedlens-demo")
SEED = 1


@click.command("demo")
@click.option(
    "-o", "--output", type=click.Path(path_type=Path, file_okay=False), default=FOLDER,
    show_default=True, help="Folder for the recordings, analysis.duckdb and report.html.",
)  # fmt: skip
@click.option("--seed", type=click.IntRange(0, 1 << 31), default=SEED, show_default=True,
              help="Seed; another one gives another run of the same programs.")  # fmt: skip
@click.option(
    "--symmetric",
    is_flag=True,
    help="Also simulate the first case on 8 P cores alone, to compare with.",
)
@click.option(
    "--case",
    type=click.Choice(["pinning", "smt-boost", "queues"]),
    help="Simulate a service instead: request loops pinned to SMT siblings, one load with SMT and "
    "boost off and on, or workers that take jobs from one queue.",
)
@click.option("--open/--no-open", "open_report", default=True, help="Open the report in a browser.")
def demo(output: Path, seed: int, symmetric: bool, case: str | None, open_report: bool) -> int:
    """Simulate a game on a hybrid machine, or a service, and explain it.

    Runs three case studies on 8 P cores with SMT and 8 E cores, each with a fault and fixed:
    priorities that fail to keep background work off the P cores, a thread that looks like a worker
    but determines the frame time, and threads that are bound to parked cores and spin to hand over
    work. The recordings are marked as simulated.
    """
    from schedlens.commands.analyze import analyze
    from schedlens.errors import SessionError
    from schedlens.load.arrow_folder import simulated
    from schedlens.output.progress import bar
    from schedlens.output.whole_file import cannot_write
    from schedlens.simulate import plays

    if symmetric and case is not None:
        raise click.UsageError("--symmetric applies to the game: leave out --case")
    if output.exists() and not (output / "demo.txt").exists() and any(output.iterdir()):
        raise SessionError(f"{output} exists and is not a demo: choose another folder with -o")
    try:
        output.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise cannot_write(output, error) from None
    (output / "demo.txt").write_text(
        "Simulated recordings from `schedlens demo`, which may overwrite this folder.\n"
    )
    shown = plays.GAME if case is None else plays.SERVICES[case]
    chosen = [*shown.plays, *([plays.SYMMETRIC] if symmetric else [])]
    # A session is a folder of recordings: those of another case are not part of it.
    for one in (plays.GAME, *plays.SERVICES.values()):
        for name, _ in (*one.plays, plays.SYMMETRIC):
            shutil.rmtree(output / name, ignore_errors=True)
    with bar() as progress:
        for number, (name, play) in enumerate(chosen):
            progress(f"simulating {name}", number / len(chosen))
            simulated.write_folder(play(seed), output / name, label=name)
    for text in shown.texts:
        click.echo(text)
    folders = [str(output / name) for name, _ in chosen]
    arguments = [*folders, "-o", str(output), "--process", shown.process]
    code = analyze.main(args=arguments, prog_name="analyze", standalone_mode=False)
    where = shlex.quote(str(output))
    if symmetric:
        sides = (shlex.quote(str(output / name)) for name in ("priority-symmetric", "priority"))
        click.echo(
            f"\nHybrid against symmetric\n  schedlens compare {' '.join(sides)}\n"
            f"  schedlens sql {where} thread_comparison first=priority-symmetric second=priority"
        )
    if shown.asks:
        click.echo("\nWhat differs")
        for query in shown.asks:
            click.echo(f"  schedlens sql {where} {query}")
    report = (output / "report.html").resolve()
    if open_report and not webbrowser.open(report.as_uri()):
        click.echo(f"no browser found: open {report}")
    return code if isinstance(code, int) else 0
