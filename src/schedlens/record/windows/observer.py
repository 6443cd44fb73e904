"""The system state at both edges of a step on Windows, read by the workload program."""

from __future__ import annotations

import json
from typing import Any

from schedlens.errors import RecorderError, WorkloadError
from schedlens.load.step_file import Reported
from schedlens.output import typed_json
from schedlens.record import workload_program
from schedlens.record.windows.conversation import Conversation

Json = dict[str, Any]

LIMIT_S = 60.0


def command() -> list[str]:
    """The command of the observer."""
    return [workload_program.program(), "observe"]


def reported(end: Json) -> Reported | None:
    """Takes the load that the system reports out of the snapshot at the end; None: not reported.

    Raises `RecorderError` if the observer sent another form of it.
    """
    value = end.pop("reported", None)
    try:
        return None if value is None else typed_json.parsed(Reported, value, "reported")
    except typed_json.FieldError as error:
        raise RecorderError(f"cannot observe the system: {error}") from None


class Observer:
    """A waiting observer; `begin` and `end` are the objects of begin.json and end.json."""

    def __init__(self) -> None:
        self.command = command()
        self._program = Conversation(self.command)
        try:
            self._program.expect("ready", LIMIT_S)
        except BaseException:
            self.close()
            raise

    def begin(self) -> Json:
        """The snapshot at the start. Raises `RecorderError`."""
        return self._ask("begin")

    def end(self) -> Json:
        """The snapshot at the end, with `reported`. Raises `RecorderError`."""
        return self._ask("end")

    def close(self) -> None:
        """Ends the observer."""
        self._program.kill()

    def _ask(self, edge: str) -> Json:
        self._program.say(edge)
        try:
            value = json.loads(self._program.hear(LIMIT_S))
        except (ValueError, WorkloadError) as error:
            raise RecorderError(f"cannot observe the system: {error}") from None
        if not isinstance(value, dict) or not isinstance(value.get("mono_ns"), int):
            raise RecorderError("cannot observe the system: the observer sent no snapshot")
        return value
