"""The options of `collect --ring` on Linux."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from schedlens.errors import PlanError
from schedlens.record import ring_length
from schedlens.record.request import Request


@dataclass(frozen=True, slots=True, kw_only=True)
class RingOptions:
    """How long the ring is, what makes it save its events, and how many incidents to keep.

    Each field has the name of its parameter in `commands/collect.py`.
    """

    ring_s: float | None = None
    incidents: int | None = None
    stop_on_frame_ms: float | None = None
    stop_on_ready_ms: float | None = None
    stop_on_cpu_pct: float | None = None
    stop_on_command: str | None = None
    frames: Path | None = None

    @property
    def keep(self) -> int:
        """How many incidents to keep; recording ends at the first one if it is one."""
        return self.incidents or 1

    @property
    def has_threshold(self) -> bool:
        """Whether anything but the user ends the ring."""
        return any(
            value is not None
            for value in (
                self.stop_on_frame_ms,
                self.stop_on_ready_ms,
                self.stop_on_cpu_pct,
                self.stop_on_command,
            )
        )

    def check(self, request: Request, *, seconds_given: bool) -> None:
        """Raises `PlanError` for options that contradict each other or the request."""
        thresholds = {
            "--stop-on-frame": self.stop_on_frame_ms,
            "--stop-on-ready": self.stop_on_ready_ms,
            "--stop-on-cpu": self.stop_on_cpu_pct,
        }
        for name, value in thresholds.items():
            if value is not None and value <= 0:
                raise PlanError(f"{name}: {value:g} is not above 0")
        if self.ring_s is None:
            given = {**thresholds, "--stop-on-command": self.stop_on_command,
                     "--incidents": self.incidents, "--frames": self.frames}  # fmt: skip
            for name, given_value in given.items():
                if given_value is not None:
                    raise PlanError(f"{name} works only with --ring: add one, such as --ring 30")
            return
        ring_length.check(self.ring_s, request, seconds_given=seconds_given)
        if request.counters:
            raise PlanError("--ring does not record --counters: remove one of them")
        if (self.stop_on_frame_ms is None) != (self.frames is None):
            raise PlanError("--stop-on-frame and --frames FILE work only together: FILE contains "
                            "the frames that the program stamps (docs/frame-marks.md)")  # fmt: skip
        if self.stop_on_cpu_pct is not None and request.pid is None:
            raise PlanError("--stop-on-cpu requires --process or --pid: whose CPU time?")
