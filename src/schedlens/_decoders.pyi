"""The readers, written in Rust."""

from collections.abc import Iterator, Mapping
from types import TracebackType
from typing import Any

import pyarrow as pa

class Loader(Iterator[tuple[str, pa.RecordBatch]]):
    """(table, batch) of a recording that is read in the background."""

    def __iter__(self) -> Loader: ...
    def __next__(self) -> tuple[str, pa.RecordBatch]: ...
    def __enter__(self) -> Loader: ...
    def __exit__(
        self,
        kind: type[BaseException] | None,
        value: BaseException | None,
        trace: TracebackType | None,
    ) -> bool: ...
    def progress(self) -> float:
        """Share of the records that has been read, 0 to 1."""

    def close(self) -> None:
        """Stops reading, finished or not."""

class Sweep(Iterator[tuple[str, pa.RecordBatch]]):
    """(table, batch) of the interval tables."""

    def __iter__(self) -> Sweep: ...
    def __next__(self) -> tuple[str, pa.RecordBatch]: ...

class Events(Iterator[str | pa.RecordBatch]):
    """Whole lines, or record batches in the style `arrow`, in the order of time."""

    def __iter__(self) -> Events: ...
    def __next__(self) -> str | pa.RecordBatch: ...

def load(
    paths: str | list[str],
    trace_id: int,
    context: dict[str, pa.RecordBatch] | None,
    samples: str | None,
    label: str,
) -> Loader:
    """Starts loading a perf.data file or folder, the .etl files of one recording, or a folder of
    tables.

    Errors are raised with the first batch.
    """

def inspect(*paths: str) -> str:
    """Contents of a recording as JSON; several .etl files are read as one recording."""

def etl_records(*paths: str, by_time: bool) -> pa.RecordBatch:
    """Every record of a Windows log as a row, in time order or in file order.

    Columns: file, buffer, at (offset in the unpacked buffer), size, kind, pointer, cpu, ts (raw),
    ns, pid, tid, event, version, counters, items (number of extended items), payload.
    """

def etl_span(path: str) -> tuple[int, int, int | None] | None:
    """When a log was recorded: FILETIMEs of boot, begin and end; None for any other file."""

EVENT_CSV_HEADER: str
SCHEMA_VERSION: int
KWAIT_REASON: list[str]
"""Names of `KWAIT_REASON` by number."""
LINUX_LETTERS: list[str]
"""Letters of the Linux task states by bit number."""

def core_types(classes: list[int]) -> list[str]:
    """The name of the core type of each CPU, given the efficiency class of each."""

def windows_cpus(buffer: bytes) -> list[dict[str, Any]]:
    """Rows of the table `cpu` from the bytes of `GetLogicalProcessorInformationEx(RelationAll)`.

    Raises `ValueError` if they are not such bytes.
    """

def events(
    paths: list[str],
    *,
    style: str = "json",
    providers: list[str] = [],
    names: list[str] = [],
    from_ns: int | None = None,
    to_ns: int | None = None,
) -> Events:
    """The events of a perf.data or of the .etl files of one recording.

    `style` is `text`, `json`, `csv`, or `arrow`; `providers` and `names` are patterns with `*` and
    `?`, empty for all; the window is in ns from the begin of the recording.
    """

def etl_payload(
    event: int,
    version: int,
    payload: bytes,
    pointer: int,
    class_number: int | None = None,
) -> tuple[str, str] | None:
    """Name and fields (JSON) of a kernel event's payload.

    `event` is a hook or, with the first number of a class GUID, an opcode.
    """

def decode_only(path: str) -> tuple[int, int, float]:
    """Decodes a recording into batches and drops them: records, rows, seconds."""

def run_samples(path: str, trace_id: int, start_clock: int) -> pa.RecordBatch:
    """The batches in `samples.bin` as rows of `run_sample`."""

def schemas() -> dict[str, pa.Schema]:
    """The Arrow schema of each declared table."""

def sweep(trace_id: int, facts: Mapping[str, Any], inputs: Mapping[str, Any]) -> Sweep:
    """Computes the interval tables of one recording."""

def fair_share(
    trace_id: int,
    window: tuple[int, int],
    cpus: int,
    weights: pa.RecordBatchReader,
    runnable: pa.RecordBatchReader,
) -> pa.RecordBatch | None:
    """What fair sharing would cost each thread in a window, as rows of `fair_share_sum`."""

def critical_path(
    trace_id: int, frames: pa.RecordBatchReader, states: pa.RecordBatchReader
) -> pa.RecordBatch | None:
    """The critical paths of frames, as rows of `frame_path`."""
