"""The single events of a recording with their decoded fields."""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, cast

from schedlens import _decoders
from schedlens.errors import NothingToReadError
from schedlens.load import converted, recording
from schedlens.load.arrow_folder import layout

if TYPE_CHECKING:
    import pyarrow as pa

_NS_PER_S = 1_000_000_000


def read(
    paths: str | Path | Sequence[str | Path],
    *,
    provider: str | Sequence[str] = (),
    name: str | Sequence[str] = (),
    from_s: float | None = None,
    to_s: float | None = None,
) -> pa.RecordBatchReader:
    """The events of one recording in the order of time, as Arrow batches that are read on demand.

    `paths` is a perf.data, a trace.dat, the .etl files of one recording, or the folder of a step.
    `provider` and `name` are patterns with `*` and `?`, of which one must match; case does not
    matter. A name matches with its group (`Thread/CSwitch`), without it, and as the id in the file.
    The window is in seconds from the begin of the recording, `to_s` excluded.

    Columns: ts_ns (from the begin of the recording), cpu, pid, tid, provider, name, id, version,
    fields (a JSON object; NULL if nothing describes the event). Raises `NothingToReadError`,
    `NotATraceError`, `DamagedTraceError`, or `UnsupportedTraceError`.
    """
    import pyarrow as pa

    paths = [paths] if isinstance(paths, (str, Path)) else paths
    found = files([Path(path) for path in paths])
    events = _events(found, "arrow", _listed(provider), _listed(name), from_s, to_s)
    batches = cast("Iterator[pa.RecordBatch]", events)
    first = next(batches)
    return pa.RecordBatchReader.from_batches(first.schema, itertools.chain([first], batches))


def texts(
    found: list[str],
    style: str,
    provider: Sequence[str],
    name: Sequence[str],
    from_s: float | None,
    to_s: float | None,
) -> Iterator[str]:
    """The same events of such files as whole lines in the style `text`, `json`, or `csv`."""
    if style == "csv":
        yield _decoders.EVENT_CSV_HEADER + "\n"
    yield from cast("Iterator[str]", _events(found, style, provider, name, from_s, to_s))


def files(paths: Sequence[Path]) -> list[str]:
    """The files of the one recording behind these paths; raises `NothingToReadError`."""
    recordings = recording.gather(paths)
    if recordings[0].scrubbed is not None:
        raise NothingToReadError(
            f"{recordings[0].trace} is a scrubbed recording: it contains tables, and no events; "
            "give the recording it was made from"
        )
    if len(recordings) != 1:
        first = recordings[0].trace or paths[0]
        raise NothingToReadError(
            f"there are {len(recordings)} recordings: give one of them, such as {first}"
        )
    (only,) = recordings
    if only.trace is None:
        raise NothingToReadError(f"{only.label} has no recording: record the step again")
    if layout.is_one(only.trace):
        raise NothingToReadError(
            f"{only.trace} is a folder of tables: give the recording it was made from"
        )
    kind = converted.kind(only.trace)
    if kind == "perfetto":
        raise NothingToReadError(
            f"{only.trace} is a Perfetto trace: `schedlens events` prints those of perf.data and "
            ".etl files; use Perfetto's table ftrace_event instead"
        )
    if kind is not None:
        raise NothingToReadError(
            f"{only.trace} is a text, so its events are already printed: use `schedlens inspect` "
            "or `analyze`, or give the recording it was made from"
        )
    return only.files


def _listed(patterns: str | Sequence[str]) -> list[str]:
    return [patterns] if isinstance(patterns, str) else list(patterns)


def _events(
    found: list[str],
    style: str,
    provider: Sequence[str],
    name: Sequence[str],
    from_s: float | None,
    to_s: float | None,
) -> Iterator[str | pa.RecordBatch]:
    return _decoders.events(
        found,
        style=style,
        providers=list(provider),
        names=list(name),
        from_ns=None if from_s is None else round(from_s * _NS_PER_S),
        to_ns=None if to_s is None else round(to_s * _NS_PER_S),
    )
