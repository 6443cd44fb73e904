"""The files of a lake, by key, on any file system that Arrow or fsspec knows."""

from __future__ import annotations

import contextlib
import datetime
import io
import os
import re
import shutil
import tempfile
import threading
import uuid
from collections import OrderedDict
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any, TypeVar

import pyarrow as pa
import pyarrow.fs as pafs

from schedlens.errors import LakeError
from schedlens.lake.extras import needed

if TYPE_CHECKING:
    import duckdb

# The name of the file system that DuckDB reads a remote lake through.
PROTOCOL = "schedlens-lake"
STAGING = "_staging"

# An upload to these appears as a whole or not at all; elsewhere a file is renamed into its place.
_OBJECT_STORES = ("s3", "gcs", "abfs")
_URL = re.compile(r"[A-Za-z][A-Za-z0-9+.-]+://")

T = TypeVar("T")


@dataclass(frozen=True)
class Found:
    """A file of a lake: its key, its size in bytes, and when it was written (ns, Unix time)."""

    key: str
    size: int
    written_ns: int


class LakeFiles:
    """The files below one folder or URL; a key is a path relative to it.

    `place` is a folder, or a URL such as `s3://bucket/lake?region=eu-north-1`, with the options
    that Arrow takes. Raises `LakeError` if no file system has that name. All methods raise
    `LakeError` where the file system fails.
    """

    def __init__(self, place: str | Path) -> None:
        self.place = str(place)
        self._fs, self._root = self._opened(self.place)
        kind = self._fs.type_name
        self.is_local = kind == "local"
        self._is_object_store = kind in _OBJECT_STORES

    def __reduce__(self) -> tuple[type[LakeFiles], tuple[str]]:
        # A file system of fsspec may contain locks, so another process opens it again.
        return LakeFiles, (self.place,)

    def _opened(self, place: str) -> tuple[Any, str]:
        if not _URL.match(place):
            return pafs.LocalFileSystem(), str(Path(place).absolute())
        try:
            fs, root = pafs.FileSystem.from_uri(place)
        except (pa.ArrowInvalid, pa.ArrowNotImplementedError, OSError):
            url_to_fs = needed("fsspec.core", "lake").url_to_fs
            try:
                inner, root = url_to_fs(place)
            except (ValueError, ImportError, OSError) as error:
                raise LakeError(f"cannot use {place} as a lake: {_reason(error)}") from None
            fs = pafs.PyFileSystem(pafs.FSSpecHandler(inner))
        return fs, root.rstrip("/")

    def write(self, key: str, data: bytes) -> None:
        """A file with these bytes; a reader sees the old file, the new one, or none."""

        def work() -> None:
            if self._is_object_store:
                # One write, then the close that makes the object: a killed process leaves none.
                with self._fs.open_output_stream(self._path(key)) as out:
                    out.write(data)
                return
            aside = self._path(f"{STAGING}/{uuid.uuid4().hex}")
            self._folder(aside)
            with self._fs.open_output_stream(aside) as out:
                out.write(data)
            self._into_place(aside, self._path(key))

        self._tried("write", key, work)

    def put(self, file: Path, key: str) -> None:
        """Moves or uploads a file of `staging()` to its key."""
        if self.is_local:
            self._tried("write", key, lambda: self._into_place(str(file), self._path(key)))
            return
        self.write(key, file.read_bytes())
        file.unlink()

    def _into_place(self, aside: str, path: str) -> None:
        if not self.is_local:
            self._folder(path)
            self._fs.move(aside, path)
            return
        # The data first, then the name: after a crash, a name without data would look complete.
        handle = os.open(aside, os.O_RDONLY)
        try:
            os.fsync(handle)
        finally:
            os.close(handle)
        try:
            Path(aside).replace(path)
        except FileNotFoundError:
            Path(path).parent.mkdir(parents=True, exist_ok=True)
            Path(aside).replace(path)

    @contextmanager
    def staging(self) -> Iterator[Path]:
        """A local folder for files that `put` then moves; removed at the end."""

        def made() -> Path:
            if not self.is_local:
                return Path(tempfile.mkdtemp(prefix="schedlens-lake-"))
            folder = Path(self._path(f"{STAGING}/{uuid.uuid4().hex}"))
            folder.mkdir(parents=True)
            return folder

        folder = self._tried("write", STAGING, made)
        try:
            yield folder
        finally:
            shutil.rmtree(folder, ignore_errors=True)

    def read(self, key: str) -> bytes | None:
        """The bytes of a file; None if there is none."""

        def work() -> bytes | None:
            try:
                with self._fs.open_input_stream(self._path(key)) as file:
                    return bytes(file.read())
            except FileNotFoundError:
                return None

        return self._tried("read", key, work)

    def listed(self, folder: str) -> list[Found]:
        """All files below a folder, by key; none if it does not exist."""

        def work() -> list[Found]:
            selector = pafs.FileSelector(self._path(folder), recursive=True, allow_not_found=True)
            cut = len(self._root) + 1
            return sorted(
                (
                    Found(info.path[cut:], info.size, info.mtime_ns or 0)
                    for info in self._fs.get_file_info(selector)
                    if info.type == pafs.FileType.File
                ),
                key=lambda found: found.key,
            )

        return self._tried("list", folder, work)

    def delete(self, key: str) -> None:
        """Removes a file, if there is one, and folders that are then empty."""

        def work() -> None:
            with contextlib.suppress(FileNotFoundError):
                self._fs.delete_file(self._path(key))
            if self.is_local:
                folder = Path(self._path(key)).parent
                # A folder with files refuses to be removed, which ends this.
                with contextlib.suppress(OSError):
                    while folder != Path(self._root):
                        folder.rmdir()
                        folder = folder.parent

        self._tried("delete", key, work)

    def location(self, key: str) -> str:
        """The name by which DuckDB reads a file, after `attach`."""
        return self._path(key) if self.is_local else f"{PROTOCOL}://{key}"

    def attach(self, con: duckdb.DuckDBPyConnection) -> None:
        """Lets a connection read the files of a remote lake; a local one needs nothing."""
        if not self.is_local:
            con.register_filesystem(_for_duckdb(self))

    def size(self, key: str) -> int:
        """The size of a file in bytes."""
        return int(
            self._tried("read", key, lambda: self._fs.get_file_info(self._path(key)).size or 0)
        )

    def opened(self, key: str) -> IO[bytes]:
        """A file to read at any place."""
        opened: IO[bytes] = self._tried(
            "read", key, lambda: self._fs.open_input_file(self._path(key))
        )
        return opened

    def _path(self, key: str) -> str:
        return f"{self._root}/{key}"

    def _folder(self, path: str) -> None:
        self._fs.create_dir(path.rpartition("/")[0], recursive=True)

    def _tried(self, verb: str, key: str, work: Callable[[], T]) -> T:
        try:
            return work()
        except (OSError, pa.ArrowException) as error:
            raise LakeError(
                f"cannot {verb} {key} in the lake {self.place}: {_reason(error)}"
            ) from None


def _reason(error: BaseException) -> str:
    text = error.strerror if isinstance(error, OSError) and error.strerror else str(error)
    return (text.splitlines() or [type(error).__name__])[0]


def _for_duckdb(files: LakeFiles) -> Any:
    """A file system of fsspec that answers DuckDB without a request for each listed file.

    DuckDB expands the name of every file before it reads any. Names from the manifest need no
    expansion, and a request for each of thousands takes longer than the query.
    """
    base: Any = needed("fsspec", "lake").AbstractFileSystem
    kept = _Kept(files)

    class Reading(base):  # type: ignore[misc]
        protocol = PROTOCOL
        cachable = False

        def glob(self, path: str, **_: Any) -> list[str]:
            return [path]

        def exists(self, path: str, **_: Any) -> bool:
            return True

        def info(self, path: str, **_: Any) -> dict[str, Any]:
            return {"name": path, "size": kept.size(_key(path)), "type": "file"}

        def modified(self, path: str) -> datetime.datetime:
            # Names are hashes of their content: a file never changes.
            return datetime.datetime.fromtimestamp(0, datetime.UTC)

        def _open(self, path: str, mode: str = "rb", **_: Any) -> IO[bytes]:
            return kept.opened(_key(path))

    return Reading()


class _Kept:
    """Small files that were read lately: DuckDB opens the same ones for every query."""

    _WHOLE = 4 << 20
    _MOST = 256 << 20

    def __init__(self, files: LakeFiles) -> None:
        self._files = files
        self._sizes: dict[str, int] = {}
        self._data: OrderedDict[str, bytes] = OrderedDict()
        self._total = 0
        self._lock = threading.Lock()

    def size(self, key: str) -> int:
        """The size of a file in bytes, requested once."""
        if key not in self._sizes:
            self._sizes[key] = self._files.size(key)
        return self._sizes[key]

    def opened(self, key: str) -> IO[bytes]:
        """A file to read at any place; a small one is read as a whole."""
        if self.size(key) > self._WHOLE:
            return self._files.opened(key)
        with self._lock:
            data = self._data.get(key)
        if data is None:
            data = self._files.read(key)
            if data is None:
                raise FileNotFoundError(key)
            with self._lock:
                if key not in self._data:
                    self._total += len(data)
                self._data[key] = data
                while self._total > self._MOST:
                    self._total -= len(self._data.popitem(last=False)[1])
        return io.BytesIO(data)


def _key(path: str) -> str:
    return path.removeprefix(f"{PROTOCOL}://")
