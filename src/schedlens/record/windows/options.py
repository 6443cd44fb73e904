"""What `collect` is asked for beside the request, on Windows alone."""

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
        """The options that are not at their default, as they are typed."""
        named = {
            "--recorder": self.recorder,
            "--presents": self.presents or None,
            "--presentmon": self.presentmon,
            "--ring": self.ring_s,
            "--stop-on-frame": self.stop_on_frame_ms,
        }
        return [name for name, value in named.items() if value is not None]

    def check(self, request: Request, *, seconds_given: bool) -> None:
        """Raises `PlanError` for what contradicts itself or the request."""
        if self.ring_s is not None:
            if not SHORTEST_RING_S <= self.ring_s <= LONGEST_RING_S:
                raise PlanError(
                    f"--ring: {self.ring_s:g} is not between {SHORTEST_RING_S:g} and "
                    f"{LONGEST_RING_S:g} seconds"
                )
            if request.experiment:
                raise PlanError("--ring waits for something rare: an experiment records each of "
                                "its cells from begin to end")  # fmt: skip
            if request.workload or request.command:
                raise PlanError("--ring waits for something rare: start the program yourself, and "
                                "name it with --process, or give neither")  # fmt: skip
            if seconds_given:
                raise PlanError("--ring records until Enter: --seconds has no meaning with it")
            if request.repeats != 1:
                raise PlanError("--ring records once: --repeat has no meaning with it")
        if self.stop_on_frame_ms is not None:
            if self.stop_on_frame_ms <= 0:
                raise PlanError(f"--stop-on-frame: {self.stop_on_frame_ms:g} ms is no frame time")
            if self.ring_s is None:
                raise PlanError("--stop-on-frame ends a --ring: give one, such as --ring 30")
            if self.presentmon is None:
                raise PlanError("--stop-on-frame needs --presentmon PATH: it is PresentMon that "
                                "sees the frames while they come")  # fmt: skip
        if request.light:
            raise PlanError("--light is for Linux: the profile for Windows has no second record")

    def as_json(self) -> dict[str, Any]:
        """The object `windows` of session.json."""
        return asdict(self)


def from_json(value: object) -> Options:
    """The options of a session; raises `SessionError`."""
    try:
        given: dict[str, Any] = dict(value or {})  # type: ignore[call-overload]
        return Options(**given)
    except (TypeError, ValueError) as error:
        raise SessionError(f"session.json holds no options to go on with: {error}") from None
