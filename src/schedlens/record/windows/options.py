"""The options of `collect` that exist only on Windows."""

from __future__ import annotations

from dataclasses import dataclass, fields
from typing import TYPE_CHECKING

from schedlens.errors import PlanError
from schedlens.load.session_file import SavedOptions
from schedlens.record import ring_length
from schedlens.record.request import Request

if TYPE_CHECKING:
    from collectors import etw_command
else:
    from schedlens.collectors import etw_command


@dataclass(frozen=True, slots=True)
class Options(SavedOptions):
    """The recorder, presented frames, and the ring that keeps only the last seconds."""

    @classmethod
    def of_session(cls, saved: SavedOptions | None) -> Options:
        """The options of a session; None: the defaults."""
        saved = saved or SavedOptions()
        return cls(**{field.name: getattr(saved, field.name) for field in fields(saved)})

    def check(self, request: Request, *, seconds_given: bool) -> None:
        """Raises `PlanError` for options that contradict each other or the request."""
        if self.ring_s is not None:
            ring_length.check(self.ring_s, request, seconds_given=seconds_given)
        if self.stop_on_frame_ms is not None:
            if self.stop_on_frame_ms <= 0:
                raise PlanError(f"--stop-on-frame: {self.stop_on_frame_ms:g} ms is no frame time")
            if self.ring_s is None:
                raise PlanError("--stop-on-frame ends a --ring: add one, such as --ring 30")
            if self.presentmon is None:
                raise PlanError("--stop-on-frame requires --presentmon PATH, because only "
                                "PresentMon reports frames as they happen")  # fmt: skip
            if request.process is None and request.pid is None:
                raise PlanError("--stop-on-frame requires --process or --pid: otherwise the first "
                                "slow frame of any program, such as explorer.exe, ends "
                                "the ring")  # fmt: skip
        if request.stacks not in (None, "fp"):
            raise PlanError(f"--stacks {request.stacks} works only on Linux: Windows walks stacks "
                            "itself, so use --stacks without a value")  # fmt: skip
        _check_rate(self.recorder, request.samples_hz)
        if request.light:
            raise PlanError("--light works only on Linux: the WPR profile has no second record")


def _check_rate(recorder: str | None, samples_hz: int | None) -> None:
    """Raises `PlanError` for a rate that the recorder cannot sample at."""
    usual, most = etw_command.SAMPLES_HZ, etw_command.MOST_SAMPLES_HZ
    if samples_hz is None or samples_hz == usual:
        return
    if recorder != "xperf":
        raise PlanError(
            f"--samples {samples_hz}: WPR samples {usual} times a second; use --samples {usual}, "
            "or --recorder xperf"
        )
    if samples_hz > most:
        raise PlanError(f"--samples {samples_hz}: Windows samples at most {most} times a second")
