"""Writes an .etl file again with hashed names, for people who look into the decoder."""

from __future__ import annotations

import secrets
import shutil
import tempfile
import zipfile
from pathlib import Path, PureWindowsPath
from typing import BinaryIO

from schedlens import _decoders
from schedlens.errors import SessionError
from schedlens.export.scrub_rules import Rules
from schedlens.output import whole_file

# The log in the archive. GitHub takes .zip files, and no .etl.
MEMBER = "scrubbed.etl"
# The same for every file: when it was written is nobody's business.
_DATE = (1980, 1, 1, 0, 0, 0)
# Names of processes and images, of threads, and of marks of programs.
_NAMES = {"ImageFileName", "ImageName", "FileName", "ThreadName", "Message"}
_COUNTERS = {"CounterName", "SourceName"}


def write(trace: Path, path: Path, salt: bytes | None = None) -> str:
    """Writes an archive with the log; returns what it contains, in one line.

    Records keep their buffer, time, thread and CPU. Payloads are kept as far as their layout is
    known, with hashed names and without other texts; other events have none. `salt` is the secret
    of the hashes, by default a random one that is forgotten. Raises `TraceError`, `NoSpaceError`
    or `SessionError`, and leaves no half-written file.
    """
    rules = Rules(salt or secrets.token_bytes(32))

    def rename(field: str, text: str) -> str:
        if field in _COUNTERS:
            return rules.counter(text)
        # Image files have the path of the file.
        return rules.name(PureWindowsPath(text).name) if field in _NAMES else ""

    with tempfile.TemporaryDirectory(prefix=f"{path.name}.", dir=path.parent) as folder:
        log = Path(folder) / MEMBER
        try:
            written, emptied, left_out = _decoders.etl_scrub(str(trace), str(log), rename)
        except OSError as error:
            raise SessionError(f"cannot scrub {error}") from None

        def fill(out: BinaryIO) -> None:
            info = zipfile.ZipInfo(MEMBER, _DATE)
            info.compress_type = zipfile.ZIP_DEFLATED
            with (
                zipfile.ZipFile(out, "w") as archive,
                archive.open(info, "w", force_zip64=True) as member,
                log.open("rb") as source,
            ):
                shutil.copyfileobj(source, member)

        whole_file.write(path, fill)
    return f"{written:,} records, {emptied:,} of them without payload; {left_out:,} left out"
