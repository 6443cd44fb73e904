"""Checks copies of the public recordings that tests read, and lists the missing ones.

`python tools/public_recordings.py FOLDER` searches the folder for the files that
fixtures/PUBLIC_RECORDINGS.json lists, by the sha256 of their content: plain, as .xz, or in a zip
archive, under any name. `--write TO` packs what it found into TO as the tests expect it; then run
`SCHEDLENS_SHARED=TO make test`. Exit status 0: all found. 1: some are missing. 2: no such folder.
"""

from __future__ import annotations

import argparse
import hashlib
import io
import json
import lzma
import sys
import zipfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

MANIFEST = Path(__file__).resolve().parents[1] / "fixtures" / "PUBLIC_RECORDINGS.json"
# Archives in archives: PerfView's sessions are zip files with zip files in them.
DEPTH = 3


def contents(data: bytes, name: str, depth: int = DEPTH) -> Iterator[tuple[str, bytes]]:
    """The bytes of a file, and of what is packed in it, with a name for each."""
    yield name, data
    if data.startswith(b"\xfd7zXZ\0"):
        try:
            yield name, lzma.decompress(data)
        except lzma.LZMAError:
            return
    elif depth and data.startswith(b"PK\3\4"):
        try:
            with zipfile.ZipFile(io.BytesIO(data)) as archive:
                for member in archive.namelist():
                    yield from contents(archive.read(member), f"{name}!/{member}", depth - 1)
        except (zipfile.BadZipFile, NotImplementedError, RuntimeError):
            return


def find(
    recordings: list[dict[str, Any]], folder: Path, target: Path | None
) -> tuple[dict[str, str], dict[str, str]]:
    """Where each recording was found, and files whose name fits but whose content differs."""
    by_sum = {recording["sha256"]: recording for recording in recordings}
    by_name = {
        Path(name).name: recording["path"]
        for recording in recordings
        for name in (recording["path"], recording["source"].rpartition("!/")[2])
    }
    found: dict[str, str] = {}
    differs: dict[str, str] = {}
    for path in sorted(path for path in folder.rglob("*") if path.is_file()):
        matched = False
        for name, data in contents(path.read_bytes(), str(path)):
            recording = by_sum.get(hashlib.sha256(data).hexdigest())
            if recording is None:
                continue
            matched = True
            found.setdefault(recording["path"], name)
            if target is not None:
                _write(data, target / recording["path"])
        if not matched and path.name in by_name:
            differs[by_name[path.name]] = str(path)
    return found, {path: name for path, name in differs.items() if path not in found}


def _write(data: bytes, path: Path) -> None:
    if not path.exists():
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(lzma.compress(data) if path.suffix == ".xz" else data)


def main(arguments: list[str] | None = None) -> int:
    """Exit status."""
    parser = argparse.ArgumentParser(
        description=(__doc__ or "").partition("\n\n")[2],
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("folder", type=Path, metavar="FOLDER")
    parser.add_argument("--write", type=Path, metavar="TO", help="pack what was found into TO")
    options = parser.parse_args(arguments)
    if not options.folder.is_dir():
        print(f"{options.folder} is not a folder", file=sys.stderr)
        return 2
    recordings = json.loads(MANIFEST.read_text(encoding="utf-8"))["recordings"]
    found, differs = find(recordings, options.folder, options.write)
    for recording in recordings:
        path = recording["path"]
        if path in found:
            print(f"ok       {path}")
            continue
        origin = f"{recording['source']} of {recording['repository']} at {recording['commit']}"
        if path in differs:
            print(f"differs  {path}: {differs[path]} has another sha256; expected {origin}")
        else:
            print(f"missing  {path}: {origin}")
    print(f"{len(found)} of {len(recordings)} public recordings found")
    if options.write is not None and found:
        print(f"written; run the tests with: SCHEDLENS_SHARED={options.write} make test")
    return 0 if len(found) == len(recordings) else 1


if __name__ == "__main__":
    sys.exit(main())
