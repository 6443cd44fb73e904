"""Progress of a sweep: a bar with the remaining time on a terminal, else a line per step."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable
from types import TracebackType
from typing import Self

from rich.console import Console
from rich.progress import (
    BarColumn,
    Progress,
    ProgressColumn,
    Task,
    TextColumn,
    TimeElapsedColumn,
    TimeRemainingColumn,
)
from rich.text import Text

from schedlens.output.terminal import escape

# Often enough for a clock; each redraw adds a context switch to the recording.
DRAWN_PER_S = 2.0


class Sweep:
    """The progress of steps that are expected to take `costs` seconds each.

    The remaining time is the cost of the remaining steps at the pace of the finished ones.
    """

    def __init__(self, costs: list[float], console: Console | None = None) -> None:
        self._console = console or Console(stderr=True, highlight=False)
        self._costs = costs
        self._spent = 0.0
        self._done = 0
        self._begun = self._step_begun = time.monotonic()
        self._bar: Progress | None = None
        if self._console.is_terminal:
            self._bar = Progress(
                TextColumn("{task.fields[step]}"),
                BarColumn(),
                TextColumn("{task.completed:.0f}/{task.total:.0f}"),
                TimeElapsedColumn(),
                _Left(self),
                console=self._console,
                transient=True,
                refresh_per_second=DRAWN_PER_S,
            )
            self._task = self._bar.add_task("", total=len(costs), step="")

    def __enter__(self) -> Self:
        if self._bar:
            self._bar.start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        if self._bar:
            self._bar.stop()

    def begin(self, name: str) -> None:
        """A step begins."""
        self._step_begun = time.monotonic()
        if self._bar:
            self._bar.update(self._task, step=escape(name))

    def end(self, text: str) -> None:
        """A step ended; `text` says how."""
        self._spent += self._costs[self._done]
        self._done += 1
        self._step_begun = time.monotonic()
        line = f"[{self._done}/{len(self._costs)}] {text}"
        if self._bar:
            self._bar.update(self._task, completed=self._done)
            self._bar.console.print(escape(line))
        else:
            self._console.print(escape(line), soft_wrap=True)
            sys.stderr.flush()

    @property
    def left_s(self) -> float:
        """Estimated seconds to the end, at the pace of the finished steps."""
        now = time.monotonic()
        pace = (self._step_begun - self._begun) / self._spent if self._spent else 1.0
        return max(0.0, pace * sum(self._costs[self._done :]) - (now - self._step_begun))


class _Left(ProgressColumn):
    """The remaining time, computed at each redraw."""

    def __init__(self, sweep: Sweep) -> None:
        super().__init__()
        self._sweep = sweep

    def render(self, task: Task) -> Text:
        return Text(f"{clock(self._sweep.left_s)} left")


def clock(seconds: float) -> str:
    """Seconds as minutes and seconds, or hours."""
    minutes, rest = divmod(round(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours}:{minutes:02d}:{rest:02d}" if hours else f"{minutes}:{rest:02d}"


class bar:
    """A bar for one long task with the time left, on a terminal; nothing elsewhere."""

    def __init__(self, *, quiet: bool = False) -> None:
        self.quiet = quiet or not sys.stderr.isatty()

    def __enter__(self) -> Callable[[str, float], None]:
        if self.quiet:
            return lambda label, share: None
        self.progress = Progress(
            TextColumn("{task.description}"),
            BarColumn(),
            TimeRemainingColumn(),
            console=Console(stderr=True),
            transient=True,
        )
        task = self.progress.add_task("", total=1.0)
        self.progress.start()

        def update(label: str, share: float) -> None:
            self.progress.update(task, description=label, completed=share)

        return update

    def __exit__(self, *_: object) -> None:
        if not self.quiet:
            self.progress.stop()
