"""The command `schedlens what-if`: predicts what changes would gain."""

from __future__ import annotations

import json
from typing import Any

import click

from schedlens.commands import completion


@click.command("what-if")
@click.argument("path", shell_complete=completion.sessions)
@click.option(
    "--do", "texts", multiple=True, metavar="CHANGE",
    help="A change, such as 'affinity AI*=any'; given again: all together.",
)  # fmt: skip
@click.option(
    "--process",
    help="The process whose frames or work count; default: the one with most frames, else the "
    "recorded program, or what ran longest.",
)
@click.option("--step", help="Only this recording of the session.")
@click.option("--json", "as_json", is_flag=True, help="Print one JSON object.")
def what_if(
    path: str, texts: tuple[str, ...], process: str | None, step: str | None, as_json: bool
) -> int:
    """Predict what would change if threads of the analyzed session PATH ran differently.

    Replays the recorded threads under the scheduler's rules, with and without the changes, and
    compares frames; without frames, throughput and responses of a process. Without --do, tries the
    changes that the findings advise, and the best few together.

    \b
      affinity THREAD=any       affinity THREAD=0-7    ideal THREAD=4
      priority THREAD=13        qos THREAD=eco         qos THREAD=high
      work THREAD=-20%          workers THREADS=8      alone THREAD
      remove PROCESS            parking=off            unparked=8
      nice THREAD=5             quota /CGROUP=2        quota /CGROUP=none
      sleep THREAD              frequency 0-7=3500     smt=off

    THREAD and PROCESS are names with * and ?; PROCESS/THREAD also works. A replay without any
    change that misses the recording by more than 10 % predicts nothing: 'cannot tell', with the
    reason (docs/what-if.md). Exit code 1: some recording cannot tell.
    """
    from schedlens.lake import reading
    from schedlens.output.progress import bar
    from schedlens.replay.answer import answer

    with reading.opened(path) as analysis, bar(quiet=as_json) as progress:
        found = answer(
            analysis.con, texts, process=process, step=step,
            progress=lambda label, share: progress(f"replaying {label}", share),
        )  # fmt: skip
    rows = found["recordings"]
    if as_json:
        click.echo(json.dumps(found, indent=2))
    else:
        for row in rows:
            _print(row)
    unclear = any(row["cannot_tell"] or _unclear(row["predictions"]) for row in rows)
    return int(unclear)


def _unclear(predictions: list[dict[str, Any]]) -> bool:
    return any(found["why"] for found in predictions)


def _print(row: dict[str, Any]) -> None:
    from schedlens.output import terminal

    lines = [row["recording"]]
    if row["cannot_tell"]:
        lines.append(f"  cannot tell: {row['cannot_tell']}")
    else:
        fidelity = row["fidelity"]
        errors = {**(fidelity["frames"] or {}), **(fidelity["work"] or {})}
        errors = {name: error for name, error in errors.items() if error is not None}
        errors |= {"running": fidelity["running_error"], "ready": fidelity["ready_error"]}
        shown = ", ".join(f"{name} {100 * error:.1f} %" for name, error in errors.items())
        lines.append(f"  unchanged replay differs by: {shown}")
        assumed = [name for name, speed in row["speeds"].items() if speed["source"] == "assumed"]
        if assumed:
            lines.append(f"  speeds assumed, not recorded: {', '.join(assumed)}")
        lines.append(_recorded_line(row))
        if not row["predictions"]:
            lines.append("  no finding advises a change that a replay can try: name one with --do")
        for made in row["predictions"]:
            lines += _change_lines(made, row["unit"])
    for line in lines:
        click.echo(terminal.plain(line))


def _recorded_line(row: dict[str, Any]) -> str:
    recorded = row["recorded"]
    if row["unit"] == "frames":
        figures = "  ".join(
            f"{name} {recorded[name] / 1e6:.2f}" for name in ("mean", "p50", "p95", "p99")
        )
        count, stutters = recorded["count"], recorded["stutters"]
        return f"  recorded: {count} frames, ms: {figures}  stutters {stutters}"
    line = f"  recorded: {row['process']} works {recorded['throughput']:.3g} s a second"
    if recorded["p50"] is None:
        return line
    figures = "  ".join(f"{name} {recorded[name] / 1e6:.2f}" for name in ("p50", "p95", "p99"))
    return f"{line}; {recorded['count']} responses, ms: {figures}"


def _work_lines(made: dict[str, Any], unit: str) -> list[str]:
    parts = []
    for figure, found in made["work"].items():
        if found is None:
            parts.append(f"{figure} cannot tell")
            continue
        value, low, high = (
            found[end] / (1 if figure == "throughput" else 1e6) for end in ("value", "low", "high")
        )
        scale = " s a second" if figure == "throughput" else " ms"
        parts.append(f"{figure} {value:.3g}{scale} ({low:.3g} to {high:.3g})")
    name = " + ".join(made["changes"])
    if made["gain_pct"] is not None:
        sign = 1 if unit == "throughput" else -1
        what = "throughput" if unit == "throughput" else "p95 response"
        name = f"{name}: {what} {sign * made['gain_pct']:+.1f} %"
    return [f"  {name}", f"    {'  '.join(parts)}"]


def _change_lines(made: dict[str, Any], unit: str) -> list[str]:
    name = " + ".join(made["changes"])
    if made["why"]:
        return [f"  {name}", f"    cannot tell: {made['why']}"]
    doubt = [f"    may gain less: {made['doubt']}"] if made["doubt"] else []
    if made["frames"] is None:
        return _work_lines(made, unit) + doubt
    parts = []
    for figure, found in made["frames"].items():
        parts.append(
            f"{figure} cannot tell"
            if found is None
            else f"{figure} {found['value'] / 1e6:.2f} "
            f"({found['low'] / 1e6:.2f} to {found['high'] / 1e6:.2f})"
        )
    stutters = "cannot tell" if made["stutters"] is None else made["stutters"]
    gain = "" if made["gain_pct"] is None else f": mean frame {-made['gain_pct']:+.1f} %"
    return [f"  {name}{gain}", f"    ms: {'  '.join(parts)}  stutters {stutters}", *doubt]
