"""Where the names of functions in a recording's stacks are looked for."""

from __future__ import annotations

import os
import re
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from schedlens.load import symbol_cache
from schedlens.load.recording import Recording

if TYPE_CHECKING:
    from schedlens._decoders import SymbolSources

# More folders laid out like /usr/lib/debug, separated as in PATH.
VARIABLE = "SCHEDLENS_DEBUG_PATH"
# Folders and caches of symbol servers, as debuggers of Windows read it.
SYMBOL_PATH = "_NT_SYMBOL_PATH"
# What `collect` keeps in a session and in a step: see collectors/perf_stacks.py.
_KALLSYMS = "kallsyms.gz"
_PERF_MAPS = "perf-maps"


def shares(recordings: Sequence[Recording]) -> str | None:
    """One line about folders of other machines in the symbol path of Windows recordings."""
    traces = [recording.trace for recording in recordings]
    if not any(trace is not None and ".etl" in trace.name.lower() for trace in traces):
        return None
    elements = re.split(r"[;*]", os.environ.get(SYMBOL_PATH, ""))
    found = [place for place in map(str.strip, elements) if place.startswith(("\\\\", "//"))]
    if not found:
        return None
    more = f" and {len(found) - 1} more" if len(found) > 1 else ""
    return (
        f"symbols: {SYMBOL_PATH}: {found[0]}{more} is not read, because it is on another machine: "
        "name a folder with a copy, or one where the share is mounted"
    )


def of(recording: Recording) -> SymbolSources:
    """The copies in the session folder, then the files of this machine."""
    step = recording.folder
    folders = [step, step.parent] if step is not None else []
    trace = recording.trace
    if trace is not None:
        folders.append(trace.parent)
    copies = [folder / _KALLSYMS for folder in folders]
    maps = [folder / _PERF_MAPS for folder in folders[:1]]
    return {
        "kallsyms": next((str(path) for path in copies if path.is_file()), None),
        "perf_maps": [str(path) for path in (*maps, Path(tempfile.gettempdir())) if path.is_dir()],
        "debug": [path for path in os.environ.get(VARIABLE, "").split(os.pathsep) if path],
        "symbol_path": os.environ.get(SYMBOL_PATH, ""),
        "cache": (str(symbol_cache.pdbs()), str(symbol_cache.debug_files())),
        "fetch": recording.servers.fetch if recording.servers else None,
    }
