"""The options of `collect` that exist only on Windows."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Any, Literal

from schedlens.errors import PlanError, SessionError
from schedlens.record.request import Request

SHORTEST_RING_S, LONGEST_RING_S = 1.0, 600.0


@dataclass(frozen=True)
class Options:
    """The recorder, presented frames, and the ring that keeps only the last seconds."""

    recorder: Literal["wpr", "xperf"] | None = None
    presents: bool = False
    presentmon: str | None = None
    ring_s: float | None = None
    stop_on_frame_ms: float | None = None

    @property
    def given(self) -> list[str]:
        """The options that differ from their default, as the user types them."""
        named = {
            "--recorder": self.recorder,
            "--presents": self.presents or None,
            "--presentmon": self.presentmon,
            "--ring": self.ring_s,
            "--stop-on-frame": self.stop_on_frame_ms,
        }
        return [name for name, value in named.items() if value is not None]

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
        if request.light:
            raise PlanError("--light works only on Linux: the WPR profile has no second record")

    def as_json(self) -> dict[str, Any]:
        """The object `windows` of session.json."""
        return asdict(self)


def from_json(value: object) -> Options:
    """The options of a session. Raises `SessionError`."""
    try:
        given: dict[str, Any] = dict(value or {})  # type: ignore[call-overload]
        return Options(**given)
    except (TypeError, ValueError) as error:
        raise SessionError(f"session.json contains no valid options: {error}") from None
