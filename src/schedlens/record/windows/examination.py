"""What `schedlens doctor` checks on Windows, row by row."""

from __future__ import annotations

import re
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING

from schedlens.errors import SchedlensError, TopologyError
from schedlens.record import changes
from schedlens.record.changes import Change
from schedlens.record.examination import Row, cpus, left_behind, workloads
from schedlens.record.windows import settings, topology
from schedlens.record.windows.elevation import elevated

if TYPE_CHECKING:
    from collectors import etw, etw_refusal
else:
    from schedlens.collectors import etw, etw_refusal


QUERY = ("logman", "query", "-ets")
_OWN = etw.INSTANCE
# WPR names the sessions of an instance WPR_initiated_INSTANCE_COLLECTOR. Columns are no help: a
# longer name is followed by one space only, and the words after it by the system's language.
_SESSION = re.compile(
    rf"(WPR_initiated_{_OWN}_(?:WPR (?:System|Event) Collector|\S+)|{_OWN}\S*)(?=\s|$)", re.I
)


def examine() -> list[Row]:
    """All rows; nothing is recorded."""
    return [*left_behind(), *_left_running(), _cpus(), _settings(), *_recorder(), workloads()]


def restore() -> tuple[list[Change], list[Change]]:
    """Undoes what a killed run left behind; returns what was undone, and what could not be."""
    done, left = changes.restore()
    ended = _ended()
    done += [one for one in ended if one.restored]
    return done, [*left, *(one for one in ended if not one.restored)]


def _sessions() -> list[str]:
    """Trace sessions of ours that are running: WPR names its own after its instance."""
    rows = (settings.run(QUERY) or "").splitlines()
    return [found[1] for row in rows if (found := _SESSION.match(row))]


def _left_running() -> list[Row]:
    names = _sessions()
    if not names:
        return []
    found = f"{', '.join(names)}: of a run that was killed, or of one that is recording now"
    return [Row("still recording", False, found, "`schedlens doctor --restore` ends it")]


def _ended() -> list[Change]:
    """Stops every recording of ours that is still running."""
    ended = _cancelled()
    for name in _sessions():
        stopped = settings.run(["logman", "stop", name, "-ets"]) is not None
        ended.append(Change(f"the session {name}", "none", "going on", restored=stopped))
    return ended


def _cancelled() -> list[Change]:
    try:
        kind, program = etw.find()
    except SchedlensError:
        return []
    capture = etw.Capture(kind, program)
    if None in [settings.run(command) for command in etw.cancel(capture)]:
        return []
    return [Change(f"a recording by {kind}", "none", "going on", restored=True)]


def offered_counters() -> tuple[str, ...]:
    """The counters that this machine's recorder lists; empty if there is none."""
    try:
        program = etw.find()[1]
    except SchedlensError:
        return ()
    return etw_refusal.offered(settings.run(etw.sources(program)) or "")


def _cpus() -> Row:
    try:
        with tempfile.TemporaryDirectory(prefix="schedlens-") as folder:
            return cpus(topology.read(Path(folder) / "topology.bin"))
    except TopologyError as error:
        return Row("CPUs", False, str(error))


def _settings() -> Row:
    found = settings.read()
    shown = ("windows_build", "power_plan", "vbs", "memory_integrity", "hypervisor")
    return Row("settings", True, ", ".join(f"{key} {found[key] or 'unknown'}" for key in shown))


def _recorder() -> list[Row]:
    try:
        kind, program = etw.find()
    except SchedlensError as error:
        return [Row("recorder", False, "none", str(error))]
    capture = etw.Capture(kind, program)
    rows = [Row("recorder", True, f"{kind} at {program}")]
    rows += [Row("not recorded", False, text) for text in capture.missing]
    may = elevated()
    if may is False:
        return [*rows, Row("rights", False, "an ordinary prompt", etw_refusal.ELEVATE)]
    rows.append(Row("rights", True, "unknown" if may is None else "an elevated prompt"))
    names = [name for name in offered_counters() if not name.startswith("Timer")]
    rows.append(
        Row("counters", True, ", ".join(names))
        if names
        else Row("counters", False, "none but the timer", etw_refusal.HIDDEN)
    )
    return rows
