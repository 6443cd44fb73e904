"""Removes what a lake need not keep: old tables of records and states, and leftovers."""

from __future__ import annotations

import datetime
import time
from dataclasses import dataclass

from schedlens.lake import checkpoint, manifest, written
from schedlens.lake.file_access import LakeFiles

# A writer needs less than this from its first file to its entry.
_ABANDONED_NS = 24 * 3600 * 10**9


@dataclass(frozen=True)
class Removed:
    """Recordings whose raw tables were removed, files of killed writers, and bytes of both."""

    recordings: int
    leftovers: int
    size: int


def apply(files: LakeFiles, days: int, today: datetime.date | None = None) -> Removed:
    """Removes the raw tables of recordings that are more than `days` days old.

    Findings, sketches, scrubbed extracts, and the facts of each recording remain. An entry is
    replaced before its files are deleted, so an interrupted run leaves no entry without its files;
    the next one deletes the rest. Raises `LakeError`.
    """
    oldest = (today or datetime.datetime.now(datetime.UTC).date()) - datetime.timedelta(days=days)
    known = checkpoint.known(files)
    recordings = 0
    for trace_id, entry in known.entries.items():
        raw = set(entry.tables) - set(written.KEPT)
        if raw and datetime.date.fromisoformat(entry.date) < oldest:
            manifest.write(files, entry.without(raw))
            known.entries[trace_id] = entry.without(raw)
            recordings += 1
    needed = {key for entry in known.entries.values() for key in entry.file_keys()}
    leftovers, size = 0, 0
    abandoned = time.time_ns() - _ABANDONED_NS
    for found in files.listed(manifest.TABLES):
        if found.key in needed:
            continue
        trace_id = _trace_id(found.key)
        retained = known.entries.get(trace_id)
        is_removed = retained is not None and not retained.is_raw
        if is_removed or found.written_ns < abandoned:
            files.delete(found.key)
            leftovers += not is_removed
            size += found.size
    return Removed(recordings, leftovers, size)


def _trace_id(key: str) -> int:
    part = key.rpartition("/")[0].rpartition("trace_id=")[2]
    return int(part) if part.isdigit() else 0
