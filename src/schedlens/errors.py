"""The errors a user can cause: each is one line that says what was found and what to do."""

from __future__ import annotations

import difflib
from collections.abc import Sequence


class SchedlensError(Exception):
    """Base class; `str()` is the line for the terminal."""


class NotATraceError(SchedlensError):
    """The file is not a recording that a decoder knows."""


class DamagedTraceError(SchedlensError):
    """The recording is too damaged to read any of it."""


class UnsupportedTraceError(SchedlensError):
    """The recording is complete, but no decoder reads its form."""


class QueryFileError(SchedlensError):
    """A file in queries/ lacks its documentation."""

    def __init__(self, name: str, why: str) -> None:
        super().__init__(f"queries/{name}: {why}")


class UnknownNameError(SchedlensError):
    """A name is unknown."""

    def __init__(self, what: str, name: str, known: Sequence[str], listing: str = "") -> None:
        near = difflib.get_close_matches(name, known, n=3)
        hint = f"did you mean {', '.join(near)}? " if near else ""
        every = f"{listing} lists them" if listing else f"choose from {', '.join(known)}"
        super().__init__(f"no {what} named '{name}': {hint}{every}")


class UnknownQueryError(UnknownNameError):
    """There is no query of that name."""

    def __init__(self, name: str, known: Sequence[str]) -> None:
        super().__init__("query", name, known, "`schedlens queries`")


class NothingToReadError(SchedlensError):
    """No recording was found where one was expected."""


class NothingLoadedError(NothingToReadError):
    """None of the recordings can be read; `lines` has the reason for each."""

    def __init__(self, lines: Sequence[str]) -> None:
        super().__init__(lines[0])
        self.lines = tuple(lines)


class WindowError(SchedlensError):
    """The window ends before it starts, or is outside a recording."""


class AccessError(SchedlensError):
    """A path or a statement that a server for agents does not allow."""


class DatabaseError(SchedlensError):
    """The database cannot be written or read."""


class SizeError(SchedlensError):
    """A text is not a size in bytes, or the size is too small."""


class PlanError(SchedlensError):
    """`collect` cannot plan the request on this machine."""


class TopologyError(SchedlensError):
    """The system's description of its CPUs is missing or contradicts itself."""


class SymbolServerError(SchedlensError):
    """A server of debug files is named in a way that cannot be asked."""


class SessionError(SchedlensError):
    """A session folder cannot be written, read or resumed."""


class WorkloadError(SchedlensError):
    """The workload program is missing, refused its arguments, or died."""


class KnobError(SchedlensError):
    """A setting of the machine cannot be changed or restored."""


class RecorderError(SchedlensError):
    """The recorder cannot do what was requested."""


class UnknownWorkloadError(UnknownNameError):
    """There is no kernel of that name."""

    def __init__(self, name: str, known: Sequence[str]) -> None:
        super().__init__("workload", name, known, "`schedlens workloads list`")


class NoSpaceError(SchedlensError):
    """The disk is full."""


class LakeError(SchedlensError):
    """A lake cannot be written or read."""


class FleetError(SchedlensError):
    """The cluster cannot process the recordings."""


class RulesError(SchedlensError):
    """A file with the rules of a gate is malformed."""


class MissingExtraError(SchedlensError):
    """A package that only some commands need is not installed."""

    def __init__(self, package: str, extra: str) -> None:
        super().__init__(
            f"this needs the package {package}: install it with `pip install schedlens[{extra}]`"
        )


class ChangeError(SchedlensError):
    """A change to try is malformed, or it fits no thread of the recording."""
