"""How long each query of an analysis took, and for which analyzer or section it ran."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass

import duckdb


@dataclass
class Timing:
    """A step of the analysis: `part` is a phase, an analyzer or a section; `sql` its query.

    `sql` is empty for a phase as a whole. Times are wall-clock seconds.
    """

    part: str
    sql: str
    seconds: float
    left_out: bool = False


SHOWN = 30


class Timings:
    """Collects the times of one analysis."""

    def __init__(self) -> None:
        self.phases: list[Timing] = []
        self.queries: list[Timing] = []
        self._part = ""

    def slowest(self, most: int = SHOWN) -> list[Timing]:
        """The slowest queries, the slowest first."""
        return sorted(self.queries, key=lambda timing: -timing.seconds)[:most]

    @contextmanager
    def phase(self, name: str) -> Iterator[None]:
        """Times a phase as a whole; the times of several of one name are added up."""
        timing = next((one for one in self.phases if one.part == name), None)
        if timing is None:
            timing = Timing(name, "", 0.0)
            self.phases.append(timing)
        begin = time.perf_counter()
        try:
            yield
        finally:
            timing.seconds += time.perf_counter() - begin

    @contextmanager
    def of(self, part: str) -> Iterator[None]:
        """Attributes the queries in the block to an analyzer or a section."""
        before, self._part = self._part, part
        try:
            yield
        finally:
            self._part = before

    @contextmanager
    def query(self, sql: str) -> Iterator[None]:
        """Times a query; one that needs too much memory counts as left out."""
        timing = Timing(self._part, sql, 0.0)
        begin = time.perf_counter()
        try:
            yield
        except duckdb.OutOfMemoryException:
            timing.left_out = True
            raise
        finally:
            timing.seconds = time.perf_counter() - begin
            self.queries.append(timing)
