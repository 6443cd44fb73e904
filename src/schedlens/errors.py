"""Every error a user can cause, as one line that says what was found and what to do."""

from __future__ import annotations

import difflib
from collections.abc import Sequence


class SchedlensError(Exception):
    """Base of all of them; `str()` is the line for the terminal."""


class NotATraceError(SchedlensError):
    """The file is no recording that a decoder knows."""


class DamagedTraceError(SchedlensError):
    """The recording is damaged so far that nothing of it can be read."""


class UnsupportedTraceError(SchedlensError):
    """The recording is whole, but of a form that no decoder reads."""


class QueryFileError(SchedlensError):
    """A file in queries/ does not document itself."""

    def __init__(self, name: str, why: str) -> None:
        super().__init__(f"queries/{name}: {why}")


class UnknownNameError(SchedlensError):
    """A name was given that is not among those there are."""

    def __init__(self, what: str, name: str, known: Sequence[str], listing: str = "") -> None:
        near = difflib.get_close_matches(name, known, n=3)
        hint = f"did you mean {', '.join(near)}? " if near else ""
        every = f"{listing} lists them" if listing else f"there are {', '.join(known)}"
        super().__init__(f"no {what} named '{name}': {hint}{every}")


class UnknownQueryError(UnknownNameError):
    """No question of that name ships."""

    def __init__(self, name: str, known: Sequence[str]) -> None:
        super().__init__("query", name, known, "`schedlens queries`")


class NothingToReadError(SchedlensError):
    """No recording was found where one was expected."""


class DatabaseError(SchedlensError):
    """The database cannot be written or read."""


class PlanError(SchedlensError):
    """What was asked of `collect` cannot be planned on this machine."""


class TopologyError(SchedlensError):
    """The system's description of its CPUs is missing or contradicts itself."""


class SessionError(SchedlensError):
    """A session folder cannot be written, or is not one to go on with."""


class WorkloadError(SchedlensError):
    """The workload program is missing, refused the job, or died."""


class KnobError(SchedlensError):
    """A setting of the machine cannot be changed, or cannot be put back."""


class RecorderError(SchedlensError):
    """The recorder cannot do what was asked of it."""


class UnknownWorkloadError(UnknownNameError):
    """No kernel of that name ships."""

    def __init__(self, name: str, known: Sequence[str]) -> None:
        super().__init__("workload", name, known, "`schedlens workloads list`")


class NoSpaceError(SchedlensError):
    """The disk is full."""
