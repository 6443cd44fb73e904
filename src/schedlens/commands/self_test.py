"""`collect --selftest`: records two seconds, analyzes them, and writes what arrived as a text."""

from __future__ import annotations

import getpass
import json
import platform as python_platform
import re
import sys
from collections.abc import Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

import schedlens
from schedlens.ask.arrivals import Arrival

if TYPE_CHECKING:
    from schedlens.load.session_file import SessionFile
    from schedlens.record.windows.options import Options

TEXT = "selftest.txt"
# The recording with hashed names: of Windows the log itself, because its decoder is what is tested.
RECORDING, LOG = "selftest.schedlens", "selftest.etl.zip"
SECONDS = 2.0
# Two threads that wake each other: switches, wakeups, and batches whose times are known.
KERNEL, HOW, THREADS = "spin_handoff", "park", "2"
COUNTERS = ("InstructionRetired", "TotalCycles")
# What identifies no one and explains most.
_SETTINGS = (
    "scheduler", "windows_product", "windows_build", "cpu_model", "hypervisor", "vbs",
    "memory_integrity", "power_overlay.ac", "preempt", "hz", "clocksource", "governor",
    "smt_control",
)  # fmt: skip


def run(system: str, options: Options, output: Path | None, attach: bool | None) -> int:
    """Runs the self-test; the exit code is 0, 1 if something did not arrive, 2 for no recording.

    `attach`: whether to write a scrubbed recording; None asks, if there is someone to ask.
    """
    stamp = datetime.now(UTC)
    folder = output or Path(f"schedlens-selftest-{stamp:%Y%m%dT%H%M%SZ}")
    failures = _record(system, options, folder)
    rows: list[Arrival] = []
    file = _session(folder)
    traces = sorted(folder.glob("*/trace.etl")) + sorted(folder.glob("*/perf.data"))
    if file is not None and traces:
        rows += _steps(traces[0].parent)
        rows += _arrivals(traces[0], folder, file)
    recorded = bool(traces)
    good = recorded and not failures and all(row.state != "FAIL" for row in rows)
    text = _text(system, file, rows, failures, good=good, stamp=stamp)
    folder.mkdir(parents=True, exist_ok=True)
    place = folder / TEXT
    place.write_text(_anonymous(text, folder), encoding="utf-8", newline="\n")
    click.echo(f"{'all that was expected arrived' if good else 'something is missing'}: {place}")
    if recorded:
        _attach(folder, traces[0], attach)
    click.echo("Attach it to an issue of the form 'Self-test'. It names no user, path or host.")
    return 2 if not recorded else 0 if good else 1


def _record(system: str, options: Options, folder: Path) -> list[str]:
    """Records the session; returns what failed."""
    from schedlens.ask import disturbed_steps
    from schedlens.errors import SchedlensError
    from schedlens.experiments import conduct
    from schedlens.record import loop, option_groups, targets
    from schedlens.record.request import Request

    try:
        chosen = option_groups.CollectOptions(
            subject=option_groups.Subject(workload=KERNEL, how=HOW),
            sweep=option_groups.Sweep(threads=THREADS, placements=("default",), seconds=SECONDS),
            recorder=option_groups.RecorderSettings(counters=_counters(system)),
        )
        request = Request.checked(chosen, system)
        loop.begin(targets.of(system, options), request, folder, conduct.of, disturbed_steps.names)
    except SchedlensError as error:
        click.echo(f"not recorded: {error}", err=True)
        return [str(error)]
    file = _session(folder)
    return [step.why for step in (file.steps if file else ()) if step.why]


def _counters(system: str) -> tuple[str, ...]:
    """The counters to request: Linux chooses them itself."""
    if system != "windows":
        return ()
    from schedlens.record.windows import examination

    return tuple(name for name in COUNTERS if name in examination.offered_counters())


def _session(folder: Path) -> SessionFile | None:
    from schedlens.errors import SchedlensError
    from schedlens.load import session_file

    path = folder / session_file.NAME
    try:
        return session_file.read(path) if path.exists() else None
    except SchedlensError:
        return None


def _steps(folder: Path) -> list[Arrival]:
    """The checks that the recorder made."""
    from schedlens.load import step_file

    path = folder / step_file.NAME
    checks: list[dict[str, Any]] = json.loads(path.read_text("utf-8")).get("checks", [])
    return [
        Arrival(f"check {row['check']}", "ok" if row["ok"] else "FAIL", str(row["detail"]))
        for row in checks
    ]


def _arrivals(trace: Path, folder: Path, file: SessionFile) -> list[Arrival]:
    """What the recording contains, and what its analysis says."""
    from schedlens import _decoders
    from schedlens.ask import arrivals, pipeline
    from schedlens.errors import SchedlensError
    from schedlens.load import recording

    missing = " ".join(file.capture.missing)
    try:
        facts = json.loads(_decoders.inspect(str(trace)))
        rows = arrivals.events(facts, re.findall(r"keyword (\w+)", missing))
        recordings = recording.gather([folder])
        with pipeline.analyzed(
            recordings, folder / "analysis.duckdb", pipeline.Questions(), quiet=True
        ) as done:
            rows += arrivals.tables(done.con, file.capture.counters)
            if trace.suffix == ".etl":
                rows += [arrivals.chains(str(trace)), arrivals.parking(done.con)]
            unread = done.unread()
            rows += [Arrival("unread", "FAIL", line) for line in unread]
            found = done.con.execute("SELECT severity, kind FROM finding ORDER BY 1, 2").fetchall()
    except (SchedlensError, ValueError) as error:
        return [Arrival("analysis", "FAIL", str(error))]
    untried = facts.get("documentation_only", [])
    if untried:
        rows.append(Arrival("first seen", "none", ", ".join(map(str, untried))))
    kinds = ", ".join(f"{severity} {kind}" for severity, kind in found) or "no findings"
    return [*rows, Arrival("analysis", "ok", kinds)]


def _text(
    system: str,
    file: SessionFile | None,
    rows: Sequence[Arrival],
    failures: Sequence[str],
    *,
    good: bool,
    stamp: datetime,
) -> str:
    """The content of the text file."""
    lines = [
        f"schedlens {schedlens.__version__} self-test, {stamp:%Y-%m-%d %H:%M} UTC",
        f"result: {'ok' if good else 'FAIL'}",
        f"system: {system}, {python_platform.release()} {python_platform.version()}, "
        f"{python_platform.machine()}, Python {python_platform.python_version()}",
    ]
    if file is not None:
        kept = {name: file.settings.get(name) for name in _SETTINGS}
        lines += [f"{name}: {value}" for name, value in kept.items() if value]
        lines.append(f"CPUs: {len(file.topology.cpus)}")
        lines.append(f"recorder: {file.capture.mode} {file.capture.perf_version or ''}".rstrip())
        lines += [f"not recorded: {text}" for text in file.capture.missing]
    lines += [f"failed: {' '.join(text.split())}" for text in failures]
    width = max((len(row.what) for row in rows), default=0)
    lines += [f"{row.state:<4}  {row.what:<{width}}  {row.found}".rstrip() for row in rows]
    return "\n".join([*lines, ""])


def _anonymous(text: str, folder: Path) -> str:
    """The text without what names the user, the machine, or a place on its disk."""
    try:
        user = getpass.getuser()
    except (OSError, KeyError, ImportError):
        user = ""
    secrets = {
        str(folder.absolute()): "SESSION", str(folder): "SESSION", str(Path.home()): "HOME",
        python_platform.node(): "HOST", user: "USER",
    }  # fmt: skip
    for secret in sorted(filter(None, secrets), key=len, reverse=True):
        text = re.sub(rf"(?<!\w){re.escape(secret)}(?!\w)", secrets[secret], text)
    return text


def _attach(folder: Path, trace: Path, attach: bool | None) -> None:
    """Writes the scrubbed recording with the user's consent."""
    from schedlens.commands.export import scrub
    from schedlens.errors import SchedlensError
    from schedlens.export import scrubbed_etl
    from schedlens.export.excerpt import Choice

    if attach is None:
        attach = sys.stdin.isatty() and click.confirm(
            "Also write the recording, with all names hashed, to attach it?", default=False
        )
    if not attach:
        return
    try:
        if trace.suffix == ".etl":
            contained = scrubbed_etl.write(trace, folder / LOG)
            click.echo(f"{folder / LOG}: {contained}")
        else:
            scrub(str(folder), folder / RECORDING, Choice(findings=("all",), from_ns=0))
    except SchedlensError as error:
        click.echo(f"no scrubbed recording: {error}", err=True)
