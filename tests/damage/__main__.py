"""`python -m damage`: damages recordings, checks every query, prints tables; exits 1 on failure."""

from __future__ import annotations

import argparse
import contextlib
import os
import pickle
import sys
import time
from pathlib import Path

from damage import runs, score
from damage.kinds import KINDS, TEXTS
from damage.runs import Run
from damage.sources import FORMATS


def main() -> int:
    """Runs it; 1 if a target is missed."""
    options = _options()
    given = list(runs.tasks(options.seed, options.runs, options.formats, options.kinds))
    played = _logged(options.log, {task[0] for task in given}) if options.log else []
    done = {run.seed for run in played}
    begin = time.monotonic()
    left = [task for task in given if task[0] not in done]
    playing = runs.play_all(left, options.workers, options.keep)
    for run in playing:
        played.append(run)
        if options.log:
            with options.log.open("ab") as log:
                pickle.dump(run, log)
        if sys.stderr.isatty():
            print(f"\r{len(played)}/{len(given)}", end="", file=sys.stderr, flush=True)
        for line in _lines(run, options.examples):
            print(line, flush=True)
        if time.monotonic() - begin > 60 * options.minutes:
            break
    playing.close()
    lines = list(score.tables(played))
    print("\n".join(lines))
    print(f"{len(score.unmarked())} columns that end in _ns have no mark and are not judged")
    print(f"false findings: {dict(score.false_titles(score.judged(played)))}")
    print(f"{len(played)} recordings in {time.monotonic() - begin:.0f} s")
    missed = score.verdict(played)
    if options.write:
        _write(options.write, lines, options, played, missed)
    print("\n".join(missed) if missed else "all targets are met")
    return int(bool(missed))


def _logged(log: Path, seeds: set[int]) -> list[Run]:
    """Runs of these seeds that an earlier call finished and logged."""
    found: list[Run] = []
    if not log.exists():
        return found
    with log.open("rb") as file:
        whole = 0
        # A killed call may have left half a run at the end.
        with contextlib.suppress(EOFError, pickle.UnpicklingError):
            while True:
                found.append(pickle.load(file))
                whole = file.tell()
    os.truncate(log, whole)
    return [run for run in found if run.seed in seeds]


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m damage", description=__doc__)
    parser.add_argument("--runs", type=int, default=200, help="damaged recordings")
    parser.add_argument("--seed", type=int, default=0, help="seed of the first run")
    parser.add_argument("--minutes", type=float, default=float("inf"), help="stop after that time")
    parser.add_argument("--workers", type=int, default=1, help="processes")
    parser.add_argument("--kinds", nargs="+", choices=KINDS, default=list(KINDS), metavar="KIND",
                        help=", ".join(KINDS))  # fmt: skip
    parser.add_argument("--formats", nargs="+", choices=FORMATS, default=list(FORMATS))
    parser.add_argument("--examples", type=int, default=3, help="false claims shown of each run")
    parser.add_argument("--keep", type=Path, help="folder for the files of failing runs")
    parser.add_argument("--log", type=Path,
                        help="file that finished runs are added to, and taken from")  # fmt: skip
    parser.add_argument("--write", type=Path, help="Markdown file for the tables")
    return parser.parse_args()


def _lines(run: Run, examples: int) -> list[str]:
    """What is wrong with a run, and how to repeat it."""
    if not run.is_wrong or run.undetectable:
        return []
    found = []
    if run.failure:
        found.append(f"  error: {run.failure}")
    for (query, column), count in run.columns.items():
        for wrong in count.wrong[:examples]:
            low, high = wrong.claimed
            true = f"{wrong.true[0]}" if wrong.true[0] == wrong.true[1] else f"{wrong.true}"
            found.append(f"  {query}.{column} claims {low} to {high}, true is {true}: "
                         f"{wrong.about}")  # fmt: skip
        if len(count.wrong) > examples:
            found.append(f"  {query}.{column}: {len(count.wrong)} of {count.rows} rows in all")
    found += [
        f"  false {one.severity} of {one.analyzer}: {one.title}" for one in run.false_findings
    ]
    kept = f" file {run.kept}" if run.kept else ""
    repeat = f"--seed {run.seed} --runs 1 --kinds {run.kind} --formats {run.format}"
    return [f"{run.kind} in {run.source} ({run.format}): python -m damage {repeat}{kept}", *found]


def _write(
    path: Path,
    lines: list[str],
    options: argparse.Namespace,
    played: list[Run],
    missed: list[str],
) -> None:
    count, judged = len(played), score.judged(played)
    command = f"python -m damage --runs {options.runs} --seed {options.seed}"
    head = [
        "# Damaged recordings",
        "",
        f"{count} recordings with known truth were damaged in their bytes; every query was asked",
        "about each. `PYTHONPATH=tests:tests/support .venv/bin/"
        + command
        + "` repeats it. A row is right if",
        "its bounds contain the value of the whole recording. The lost time is the time in which",
        "records of any CPU are missing or wrong. Undetectable damage leaves no sign in the file.",
        "",
    ]
    head += [
        f"Judged are the {len(judged)} recordings whose damage leaves a sign. The targets are:",
        "",
        "- at least 99.9 % of all rows are right, and of each column with 1,000 rows or more",
        "- what is stated as exact is exact",
        "- the median width of the bounds is at most 3 times the lost time",
        "- at most 1 % of the recordings have a false finding (warning or critical)",
        "",
    ]
    head += [f"- Missed: {line}." for line in missed] or ["All targets are met."]
    head.append("")
    head += ["| damage | what it does |", "|---|---|"]
    head += [f"| {kind} | {TEXTS[kind]} |" for kind in options.kinds]
    head.append("")
    path.write_text("\n".join([*head, *lines]) + "\n", encoding="utf-8")


if __name__ == "__main__":
    sys.exit(main())
