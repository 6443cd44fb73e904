"""The options of `collect` that exist only on Windows."""

from __future__ import annotations

from dataclasses import dataclass, fields

from schedlens.errors import PlanError
from schedlens.load.session_file import SavedOptions
from schedlens.record.request import Request

SHORTEST_RING_S, LONGEST_RING_S = 1.0, 600.0


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
            if not SHORTEST_RING_S <= self.ring_s <= LONGEST_RING_S:
                raise PlanError(
                    f"--ring: {self.ring_s:g} is not between {SHORTEST_RING_S:g} and "
                    f"{LONGEST_RING_S:g} seconds"
                )
            if request.experiment:
                raise PlanError("--ring waits for a rare event, but an experiment records each of "
                                "its cells completely")  # fmt: skip
            if request.workload or request.command:
                raise PlanError("--ring waits for a rare event: start the program yourself, and "
                                "name it with --process, or record the machine")  # fmt: skip
            if seconds_given:
                raise PlanError("--ring records until Enter: --seconds has no effect with it")
            if request.repeats != 1:
                raise PlanError("--ring records once: --repeat has no effect with it")
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
        if request.stacks or request.samples_hz:
            raise PlanError("--stacks and --samples work only on Linux: analyze does not read the "
                            "stacks of .etl files yet")  # fmt: skip
        if request.light:
            raise PlanError("--light works only on Linux: the WPR profile has no second record")
