"""What a recording follows: a process, a group of processes, or the whole machine."""

from __future__ import annotations

from schedlens.machine import process_groups
from schedlens.machine.process_groups import Group
from schedlens.record import gate


class Followed:
    """The processes, as they were found last; none: the whole machine."""

    def __init__(self, pid: int | None, group: Group | None) -> None:
        self._group = group
        self.pids = process_groups.members(group) if group else [] if pid is None else [pid]

    def running(self) -> bool:
        """Whether any of them runs; the whole machine always does."""
        if not self.pids and self._group is None:
            return True
        if any(gate.running(pid) for pid in self.pids):
            return True
        if self._group is not None:
            # Only now: looking at all processes of the machine costs time within the recording.
            self.pids = process_groups.members(self._group)
        return self._group is not None and bool(self.pids)

    def __str__(self) -> str:
        if self._group is not None:
            return f"all processes of {self._group.kind}:{self._group.text}"
        return f"process {self.pids[0]}" if self.pids else "the machine"
