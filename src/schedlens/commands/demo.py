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
@click.option("--open/--no-open", "open_report", default=True, help="Open the report in a browser.")
def demo(output: Path, seed: int, symmetric: bool, open_report: bool) -> int:
    """Simulate a game on a hybrid machine and explain it.

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
    from schedlens.simulate import cases

    if output.exists() and not (output / "demo.txt").exists() and any(output.iterdir()):
        raise SessionError(f"{output} exists and is not a demo: choose another folder with -o")
    try:
        output.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise cannot_write(output, error) from None
    (output / "demo.txt").write_text(
        "Simulated recordings from `schedlens demo`, which may overwrite this folder.\n"
    )
    plays = [(case, fixed) for case in cases.CASES for fixed in (False, True)]
    folders = []
    with bar() as progress:
        for number, (case, fixed) in enumerate(plays):
            name = f"{case.name}-fixed" if fixed else case.name
            progress(f"simulating {name}", number / len(plays))
            folder = output / name
            shutil.rmtree(folder, ignore_errors=True)
            simulated.write_folder(case.play(fixed=fixed, seed=seed), folder, label=name)
            folders.append(folder)
        alike = output / "priority-symmetric"
        shutil.rmtree(alike, ignore_errors=True)
        if symmetric:
            progress("simulating priority-symmetric", 1.0)
            simulated.write_folder(cases.symmetric_priority(seed), alike, label=alike.name)
    for case in cases.CASES:
        click.echo(f"{case.name}: {case.fault}; fixed: {case.fixed}")
    arguments = [*map(str, folders), "-o", str(output), "--process", "game.exe"]
    code = analyze.main(args=arguments, prog_name="analyze", standalone_mode=False)
    if symmetric:
        sides = (shlex.quote(str(output / name)) for name in (alike.name, "priority"))
        click.echo(f"\nHybrid against symmetric\n  schedlens compare {' '.join(sides)}")
    report = (output / "report.html").resolve()
    if open_report and not webbrowser.open(report.as_uri()):
        click.echo(f"no browser found: open {report}")
    return code if isinstance(code, int) else 0
