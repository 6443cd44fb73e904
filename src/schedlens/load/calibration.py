"""A machine's calibration: what `--experiment scaling` measured, for later analyses.

There is one file per machine, identified by host, CPU model and number of CPUs. `analyze` of the
experiment writes it; `analyze` of any later trace of the machine reads it to compute work %.
"""

from __future__ import annotations

import hashlib
import json
import os
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from schedlens.errors import NoSpaceError, SessionError
from schedlens.load.recording import Recording
from schedlens.output.whole_file import write_json

if TYPE_CHECKING:
    import duckdb

SCHEMA = 1
_COLUMNS = (
    "workload", "variant", "core_type", "yield", "yield_low", "yield_high", "alone_per_s",
    "repeats",
)  # fmt: skip
_MOST_ROWS = 1000


def folder() -> Path:
    """The folder of the calibrations: SCHEDLENS_CALIBRATION_DIR, else with the user's data."""
    given = os.environ.get("SCHEDLENS_CALIBRATION_DIR")
    if given:
        return Path(given)
    data = os.environ.get("XDG_DATA_HOME")
    return (Path(data) if data else Path.home() / ".local/share") / "schedlens/calibration"


@dataclass(frozen=True, slots=True)
class Machine:
    """What identifies a machine; `cpus` is the number of logical CPUs."""

    host: str
    cpu_model: str
    cpus: int


def machine(recording: Recording) -> Machine | None:
    """The machine of a recording; None if its session does not identify it."""
    session, topology = recording.session, recording.topology
    model = session.settings.get("cpu_model") if session is not None else None
    if session is None or topology is None or not (session.host and model and topology.cpus):
        return None
    return Machine(session.host, model, len(topology.cpus))


def path(of: Machine) -> Path:
    """The file of a machine."""
    text = json.dumps(asdict(of), sort_keys=True)
    return folder() / f"{hashlib.sha256(text.encode()).hexdigest()[:24]}.json"


def store(con: duckdb.DuckDBPyConnection, recording: Recording) -> Path | None:
    """Writes what the experiment `scaling` in a database measured; None if there is none.

    Also returns None if the folder is not writable; an older calibration is then kept.
    """
    of = machine(recording)
    rows = con.execute(
        f"SELECT {', '.join(_COLUMNS)} FROM core_yield WHERE alone_per_s IS NOT NULL"
    ).fetchall()
    if of is None or not rows or recording.session is None:
        return None
    file = path(of)
    value = {
        "schema": SCHEMA,
        "machine": asdict(of),
        "measured_utc": recording.session.created_utc,
        "yields": [dict(zip(_COLUMNS, row, strict=True)) for row in rows],
    }
    try:
        file.parent.mkdir(parents=True, exist_ok=True)
        write_json(file, value)
    except (OSError, SessionError, NoSpaceError):
        return None
    return file


def load(con: duckdb.DuckDBPyConnection, recording: Recording, trace_id: int) -> None:
    """Fills `calibration` for a recording if its machine has one.

    A malformed file is ignored and reported in `problem`.
    """
    of = machine(recording)
    if of is None or not path(of).exists():
        return
    try:
        rows = list(_rows(path(of), of, trace_id))
    except (OSError, ValueError, KeyError, TypeError, AttributeError) as error:
        con.execute(
            "INSERT INTO problem VALUES (?, 'calibration', ?, 1)",
            [trace_id, f"cannot read the machine's calibration ({type(error).__name__}): "
             "measure it again with collect --experiment scaling"],
        )  # fmt: skip
        return
    if rows:
        con.executemany(f"INSERT INTO calibration VALUES ({', '.join('?' * len(rows[0]))})", rows)


def _rows(file: Path, of: Machine, trace_id: int) -> list[list[Any]]:
    value = json.loads(file.read_text(encoding="utf-8"))
    if value["schema"] != SCHEMA or value["machine"] != asdict(of):
        return []
    found = []
    for row in value["yields"][:_MOST_ROWS]:
        numbers = [None if row[key] is None else float(row[key]) for key in _COLUMNS[3:7]]
        texts = [None if row[key] is None else str(row[key]) for key in _COLUMNS[:3]]
        if texts[0] is None:
            continue
        found.append([trace_id, *texts, *numbers, int(row["repeats"]), str(value["measured_utc"])])
    return found
