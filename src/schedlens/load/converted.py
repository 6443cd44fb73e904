"""Recordings that become another one first: Perfetto traces, and texts of other programs."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from schedlens import _decoders
from schedlens.errors import SchedlensError
from schedlens.load.perfetto import content, table_folder
from schedlens.load.text_export import perf_script, windows_folder

PERF_SCRIPT, XPERF, WPA = "perf_script", "xperf", "wpa"


@dataclass(frozen=True)
class Converted:
    """A recording that the readers take."""

    path: Path
    source: str | None = None
    """`trace.source`, if not the one that the readers write."""
    problems: tuple[perf_script.Problem, ...] = ()
    """Rows of `problem` that they do not know."""


def kind(path: Path) -> str | None:
    """Which of these a file is, by its content: perfetto, perf_script, xperf or wpa; else None."""
    if not path.is_file():
        return None
    return _decoders.text_kind(str(path)) or ("perfetto" if content.is_one(path) else None)


@contextmanager
def made(
    path: Path, progress: Callable[[float], None] = lambda share: None
) -> Iterator[Converted | None]:
    """The recording to read instead, until the block ends; None if the readers take this one."""
    found = kind(path)
    if found is None:
        yield None
    elif found == PERF_SCRIPT:
        with perf_script.made(path) as (data, problems), _named(data, path):
            yield Converted(data, PERF_SCRIPT, problems)
    elif found in (XPERF, WPA):
        with windows_folder.made(path, found, progress) as folder, _named(folder, path):
            yield Converted(folder)
    else:
        with table_folder.made(path, progress) as folder, _named(folder, path):
            yield Converted(folder)


@contextmanager
def _named(made_path: Path, path: Path) -> Iterator[None]:
    """Errors name the recording, not what was made of it."""
    try:
        yield
    except SchedlensError as error:
        raise type(error)(str(error).replace(str(made_path), str(path))) from None
