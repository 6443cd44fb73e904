"""What `analyze` reads: the steps of a session folder, or traces of other recorders."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from schedlens.errors import NothingToReadError, SessionError
from schedlens.load import scrubbed_file, session_file, step_file
from schedlens.load.arrow_folder import layout
from schedlens.load.frames import presentmon, program_stamps
from schedlens.load.session_file import SessionFile
from schedlens.load.step_file import StepFile
from schedlens.machine.topology import SavedTopology

if TYPE_CHECKING:
    from schedlens.load.symbol_servers import Servers

# workload.json, the snapshots and watch.json, which pass to the tables row by row.
Json = dict[str, Any]

# The recording of a step, by recorder.
TRACES = ("perf.data", "trace.etl")
# File name endings of recordings of any origin.
_RECORDINGS = (
    ".data", ".etl", ".etl.zip", ".perfetto-trace", ".pftrace", scrubbed_file.SUFFIX,
)  # fmt: skip
# trace-cmd's file and how it begins: other programs use this ending, too.
_TRACE_DAT, _TRACE_DAT_BEGIN = ".dat", b"\x17\x08\x44tracing"
# Frame files of a step, best first: presents of all programs, then the stamps of one.
FRAMES = ("presentmon.csv", "frames.csv")


@dataclass(frozen=True)
class Recording:
    """One trace and what `collect` knows about it."""

    label: str
    trace: Path | None
    folder: Path | None = None
    session: SessionFile | None = None
    step: StepFile | None = None
    topology: SavedTopology | None = None
    """The machine: as the session or its experiment found it, or as the user describes it."""
    workload: Json = field(default_factory=dict)
    edges: dict[str, Json] = field(default_factory=dict)
    watch: Json = field(default_factory=dict)
    """Readings of threads and cgroups between the edges; empty if there are none."""
    frames: Path | None = None
    """Frames of the same time: a PresentMon file, or a program's own stamps."""
    more_files: tuple[Path, ...] = ()
    """More files of the same recording: those of Windows programs, next to the kernel's."""
    scrubbed: int | None = None
    """Its number in the scrubbed recording `trace`, which may contain several."""
    servers: Servers | None = None
    """Where files with the names of its functions are fetched from, if the user asks."""

    @property
    def files(self) -> list[str]:
        """All files of the recording."""
        return [str(path) for path in (self.trace, *self.more_files) if path]

    @property
    def size(self) -> int:
        """The bytes of all its files; those of a folder are not counted."""
        return sum(path.stat().st_size for path in map(Path, self.files) if path.exists())

    def described(self, topology: SavedTopology) -> Recording:
        """The same recording with another machine."""
        return replace(self, topology=topology)

    def with_names_from(self, servers: Servers | None) -> Recording:
        """The same recording with other servers of debug files."""
        return replace(self, servers=servers)

    @property
    def samples(self) -> Path | None:
        """The file with the batches of the workload, if there is one."""
        path = self.folder / "samples.bin" if self.folder else None
        return path if path and path.exists() else None


def gather(paths: Sequence[Path]) -> list[Recording]:
    """The recordings in the given paths, in order.

    A session folder means its finished steps, a step's folder that step. A file, a
    `perf record --threads` folder or a folder of tables is one recording, and so are the kernel and
    user files of one Windows recording. A file of frames belongs to the recording before it, or to
    the only one. Raises `NothingToReadError`, or `SessionError` for a malformed session.json.
    """
    from schedlens.load import etl_parts

    found: list[Recording] = []
    captures: list[tuple[int, Path]] = []
    for path, *others in etl_parts.together(paths):
        if not path.exists():
            raise NothingToReadError(
                f"{path} does not exist: name a session folder that `collect` wrote, a perf.data, "
                "a trace.dat or an .etl file"
            )
        if path.is_file() and (presentmon.is_presentmon(path) or program_stamps.is_one(path)):
            captures.append((max(0, len(found) - 1), path))
        elif path.is_dir() and (path / session_file.NAME).exists():
            found.extend(_session(path))
        elif path.is_dir() and (path / step_file.NAME).exists():
            above = path.parent / session_file.NAME
            found.append(_step(path, session_file.read(above) if above.exists() else None))
        elif layout.is_one(path):
            found.append(Recording(path.name, path))
        elif scrubbed_file.is_one(path):
            found.extend(
                Recording(one.name, path, scrubbed=one.number)
                for one in scrubbed_file.contained(path)
            )
        elif path.is_dir() and not (path / "data").exists():
            inside = sorted(child for child in path.iterdir() if is_recording(child))
            if not inside and (path / "analysis.duckdb").exists():
                raise NothingToReadError(
                    f"{path} contains an analysis but no recordings: "
                    f"query it with `schedlens sql {path} QUERY`"
                )
            if not inside:
                raise NothingToReadError(
                    f"{path} is neither a session folder (no session.json) nor a folder with "
                    "*.data, *.dat, *.etl, *.etl.zip, *.perfetto-trace or *.pftrace recordings: "
                    "`collect -o DIR` creates one"
                )
            for file, *more in etl_parts.together(inside):
                found.append(Recording(file.name, file, more_files=tuple(more)))
        else:
            found.append(Recording(path.name, path, more_files=tuple(others)))
    for place, path in captures:
        if not found:
            raise NothingToReadError(
                f"{path} contains only frames: also name a trace of the same time"
            )
        found[place] = replace(found[place], frames=path)
    return _distinct(found)


def is_recording(path: Path) -> bool:
    """Whether a file in a folder is a recording, by its name or, for trace-cmd's, by its begin."""
    if not path.name.endswith(_TRACE_DAT):
        return path.name.endswith(_RECORDINGS)
    try:
        with path.open("rb") as file:
            return file.read(len(_TRACE_DAT_BEGIN)) == _TRACE_DAT_BEGIN
    except OSError:
        return False


def is_tables(folder: Path) -> bool:
    """Whether a folder is a recording in the form of tables."""
    return layout.is_one(folder)


def _distinct(found: list[Recording]) -> list[Recording]:
    """The recordings with distinct labels; equal labels are prefixed with their folder."""
    places = [(r.folder or r.trace or Path(r.label)).absolute() for r in found]
    taken: set[str] = set()
    labelled = []
    for recording, place in zip(found, places, strict=True):
        others = {
            path
            for other, path in zip(found, places, strict=True)
            if other.label == recording.label and path != place
        }
        name = _distinct_label(place, others) if others else recording.label
        label, number = name, 2
        while label in taken:
            label, number = f"{name} ({number})", number + 1
        taken.add(label)
        labelled.append(replace(recording, label=label))
    return labelled


def _distinct_label(place: Path, others: set[Path]) -> str:
    """The shortest end of a path, at least two parts, that no other path has."""
    for length in range(2, len(place.parts)):
        end = place.parts[-length:]
        if all(path.parts[-length:] != end for path in others):
            return "/".join(end)
    return str(place)


def _session(folder: Path) -> list[Recording]:
    session = session_file.read(folder / session_file.NAME)
    names = [step.name for step in session.steps]
    known = [folder / name for name in names if (folder / name / step_file.NAME).exists()]
    if not known:
        raise NothingToReadError(
            f"{folder} has no finished step (0 of {len(names)}): "
            f"`collect --resume {folder}` records the rest"
        )
    return [_step(step, session) for step in known]


def _step(folder: Path, session: SessionFile | None) -> Recording:
    traces = [folder / name for name in TRACES if (folder / name).exists()]
    try:
        step = step_file.read(folder / step_file.NAME)
    except SessionError as error:
        raise NothingToReadError(f"{error}: record the step again") from None
    cell = step.cell
    topology = session.topology if session is not None else None
    if cell is not None and cell.topology is not None:
        # The experiment took CPUs off- or online for this cell.
        topology = cell.topology
    # An experiment evaluates its frames as a whole (handoff_time), not each late one.
    frames = [] if cell else [folder / name for name in FRAMES if (folder / name).exists()]
    return Recording(
        label=folder.name,
        trace=traces[0] if traces else None,
        folder=folder,
        session=session,
        step=step,
        topology=topology,
        workload=_read(folder / "workload.json"),
        edges={edge: _read(folder / f"{edge}.json") for edge in ("begin", "end")},
        watch=_read(folder / "watch.json"),
        frames=frames[0] if frames else None,
    )


def _read(path: Path) -> Json:
    """The object in a file, empty if the file does not exist. Raises `NothingToReadError`."""
    if not path.exists():
        return {}
    try:
        value = json.loads(path.read_text(encoding="utf-8"))
    except (ValueError, OSError, RecursionError) as error:
        raise NothingToReadError(f"cannot read {path} ({error}): record the step again") from None
    if not isinstance(value, dict):
        raise NothingToReadError(f"{path} contains no JSON object: record the step again")
    return value
