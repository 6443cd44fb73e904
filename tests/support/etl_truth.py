"""What another decoder read from the same bytes, in the terms of this one.

Microsoft's TraceEvent names some fields differently, moves bits, and errs in a few places, which
the README next to the files lists. Everything that is not listed here must be equal.
"""

from __future__ import annotations

import datetime
import json
import lzma
from pathlib import Path
from typing import Any

import pytest
import shared_files

SHARED = shared_files.folder() / "etw"

Json = dict[str, Any]

# Property of the other decoder: field here.
_ALIASES = {
    "InitialTimeQPC": "InitialTime",
    "KernelImageFileName": "ImageFileName",
    "KernelFileName": "FileName",
    "FileKey": "FileObject",
    "AwakenedThreadID": "TThreadId",
    "SampleSource": "Source",
    "MemoryCount": "PageFaultCount",
    "EventTimeStampQPC": "EventTimeStamp",
    "frames": "Stack",
    "items": "Entries",
    "Filters": "Options",
    "BootTime100ns": "BootTime",
    "StartTime100ns": "StartTime",
    "EndTime100ns": "EndTime",
    "MaxFileSize": "MaximumFileSize",
    "UTCOffsetMinutes": "Bias",
    "TargetID": "TargetId",
    "Message": "MessageNumber",
}
# By event, if one name means several fields.
_ALIASES_OF = {
    ("EventTraceHeader", "LogFileName"): "FileName",
    ("ReadyThread", "Flags"): "Flag",
    ("Mark", "Value"): "Message",
    ("KernelQueueDequeue", "Count"): "EntryCount",
    ("SampledProfile", "Priority"): "Flags",
    ("SampledProfile", "ExecutingDPC"): "Flags",
    ("SampledProfile", "ExecutingISR"): "Flags",
    ("DiskIo", "Priority"): "IrpFlags",
    # The affinity replaced the start address and kept its name in the other decoder.
    ("Thread", "StartAddr"): "Affinity",
}

# Its own errors and oddities: (event, property) and why the value is not compared.
NOT_TAKEN = {
    ("SystemConfigIRQ", "IRQNum"): "v3: read at offset 8 instead of 12",
    ("ISR", "Vector"): "one byte instead of two; v1 read with v2's layout",
    ("ISR", "ReturnValue"): "v1 read with v2's layout",
    ("CSwitch", "NewThreadQuantum"): "the layout of v1 for all versions",
    ("CSwitch", "OldThreadQuantum"): "the layout of v1 for all versions",
    ("CSwitch", "OldThreadWaitMode"): "from v3 on the byte contains flags; it is read whole",
    ("UdpIp", "context"): "not a field of v2",
    ("UdpIp", "dsize"): "not a field of v2",
    ("LastBranchRecord", "CaptureTimeStampRelativeMSec"): "a raw time without its clock",
    ("SystemConfigPnP", "DeviceIDStart"): "an offset, not a field",
    ("Thread", "ParentThreadID"): "the header's id under another name",
    ("Thread", "ParentProcessID"): "the header's id under another name",
}
# Header ids that the other decoder takes from the payload in some events.
HEADER_IDS = {"@ThreadID", "@ProcessID", "@tid", "@pid"}


def need_shared(*names: str) -> Path:
    """The folder of the truth files; skips the test if one of them is missing."""
    shared_files.need(*(f"etw/{name}" for name in names))
    return SHARED


def corpus_file(name: str, folder: Path) -> Path:
    """A file of the corpus, unpacked into `folder`."""
    for kind in ("corpus", "synthetic"):
        packed = SHARED / kind / f"{name}.etl.xz"
        if packed.exists():
            path = folder / f"{name}.etl"
            if not path.exists():
                path.write_bytes(lzma.decompress(packed.read_bytes()))
            return path
    pytest.skip(shared_files.reason(f"{name}.etl.xz"))


def load(name: str) -> Any:
    """A truth file."""
    return json.loads((need_shared(f"truth/{name}") / "truth" / name).read_text(encoding="utf-8"))


def load_table(name: str) -> Any:
    """A table of layouts."""
    return json.loads((need_shared(f"tables/{name}") / "tables" / name).read_text(encoding="utf-8"))


class _Absent:
    """A property without a counterpart in the payload."""


ABSENT = _Absent()


def ours(event: str, version: int, name: str, fields: Json) -> Any:
    """The value of the other decoder's property in the fields read here; `ABSENT` if none."""
    if (event, name) in NOT_TAKEN or name in HEADER_IDS:
        return ABSENT
    if event == "Thread" and name == "StartAddr" and version < 3:
        key = "StartAddr"
    else:
        key = _ALIASES_OF.get((event, name)) or _ALIASES.get(name) or name
    by_lower = {field.lower(): value for field, value in fields.items()}
    if name == "FrameCount":
        return len(fields.get("Stack", []))
    if name == "NumBranches":
        return len(fields.get("Entries", []))
    if key.lower() not in by_lower:
        return ABSENT
    value = by_lower[key.lower()]
    if event == "LastBranchRecord" and name == "items":
        return [entry[end] for entry in value for end in ("From", "To")]
    if event in ("DiskIo", "DiskIoFlush") and name in ("IrpFlags", "Priority"):
        # Bits 17 to 19 are the priority.
        return value & ~(7 << 17) if name == "IrpFlags" else value >> 17 & 7
    if event == "SampledProfile" and name == "Priority":
        return value >> 3
    if event == "SampledProfile" and name in ("ExecutingDPC", "ExecutingISR"):
        return bool(value & (1 if name == "ExecutingDPC" else 2))
    return value


def same(name: str, theirs: Any, here: Any) -> bool:
    """Whether two values are equal except for the sign and width of the other decoder."""
    if isinstance(theirs, bool) or isinstance(here, bool):
        return bool(theirs) == bool(here)
    if isinstance(theirs, int) and isinstance(here, int):
        width = 32 if name in _NARROW else 64
        return (theirs - here) % (1 << width) == 0 or _signed(theirs, here)
    if isinstance(theirs, list) and isinstance(here, list):
        return len(theirs) == len(here) and all(
            same(name, a, b) for a, b in zip(theirs, here, strict=True)
        )
    if name == "InstallDate" and isinstance(theirs, str):
        begin = datetime.datetime(1601, 1, 1, tzinfo=datetime.UTC)
        when = datetime.datetime.fromisoformat(theirs[:26] + "+00:00")
        return bool((when - begin) // datetime.timedelta(microseconds=1) == here // 10)
    return bool(theirs == here)


# Properties with only the low 32 bits.
_NARROW = {"ImageSize"}


def _signed(theirs: int, here: int) -> bool:
    """A negative number is one whose top bit is set, in the width of the field."""
    return theirs < 0 and any((theirs - here) % (1 << width) == 0 for width in (8, 16, 32))
