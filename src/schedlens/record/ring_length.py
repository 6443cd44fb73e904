"""What `collect --ring` cannot be combined with on any system."""

from __future__ import annotations

from schedlens.errors import PlanError
from schedlens.record.request import Request

SHORTEST_S, LONGEST_S = 1.0, 600.0


def check(ring_s: float, request: Request, *, seconds_given: bool) -> None:
    """Raises `PlanError` for a ring of another length, or with options that it rules out."""
    if not SHORTEST_S <= ring_s <= LONGEST_S:
        raise PlanError(
            f"--ring: {ring_s:g} is not between {SHORTEST_S:g} and {LONGEST_S:g} seconds"
        )
    if request.experiment:
        raise PlanError("--ring waits for a rare event, but an experiment records each of its "
                        "cells completely")  # fmt: skip
    if request.workload or request.command:
        raise PlanError("--ring waits for a rare event: start the program yourself, and name it "
                        "with --process, or record the machine")  # fmt: skip
    if seconds_given:
        raise PlanError("--ring records until Enter: --seconds has no effect with it")
    if request.repeats != 1:
        raise PlanError("--ring records once: --repeat has no effect with it")
