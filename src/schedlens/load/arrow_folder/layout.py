"""Names in a folder of base tables as Arrow files; the extension reads such folders."""

from __future__ import annotations

from pathlib import Path

# Lists what the folder contains; written last.
MANIFEST = "tables.json"
FORMAT = "schedlens-tables"
VERSION = 1
SUFFIX = ".arrow"
# What the manifest says about the recording: columns of `trace`, and the time at ns 0.
FACTS = (
    "path", "host", "os", "cpu_model", "clock_name", "start_clock", "clock_hz",
    "start_time_utc_ns", "first_ns", "duration_ns", "events_lost", "buffers_lost",
)  # fmt: skip


def is_one(path: Path) -> bool:
    """Whether a path is such a folder, complete or not."""
    return path.is_dir() and ((path / MANIFEST).exists() or any(path.glob(f"*{SUFFIX}")))
