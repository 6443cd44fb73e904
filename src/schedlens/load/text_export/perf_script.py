"""Makes a perf.data from a text of perf script."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from schedlens import _decoders
from schedlens.output.leftover import TemporaryFolder


@dataclass(frozen=True)
class Problem:
    """Lines that could not be read: a row of the table `problem`."""

    place: str
    what: str
    count: int


@contextmanager
def made(path: Path) -> Iterator[tuple[Path, tuple[Problem, ...]]]:
    """The perf.data and what could not be read, until the block ends.

    Raises `NotATraceError` if the text has no event, and what reading and writing raise.
    """
    with TemporaryFolder() as folder:
        data = folder / "perf.data"
        said = json.loads(_decoders.perf_script_data(str(path), str(data)))
        found = [
            Problem(f"line {problem['line']}", problem["what"], problem["count"])
            for problem in said["problems"]
        ]
        step = said["step_ns"]
        if step is not None and step > 1:
            what = (
                f"times have steps of {step:,} ns, so records of one step have equal times: "
                "print them with `perf script --ns`"
            )
            found.append(Problem("perf script", what, 1))
        yield data, tuple(found)
