"""The readers, written in Rust."""

from collections.abc import Callable, Iterator, Mapping
from types import TracebackType
from typing import Any, TypedDict

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

class WindowsRows(Iterator[pa.RecordBatch]):
    """Record batches of a text of xperf or wpaexporter."""

    def __init__(self, path: str) -> None: ...
    def __iter__(self) -> WindowsRows: ...
    def __next__(self) -> pa.RecordBatch: ...
    @property
    def schema(self) -> pa.Schema:
        """Columns of the batches."""

    def read(self) -> int:
        """Bytes read so far."""

    def summary(self) -> str:
        """What the text stated and what could not be read, once all rows are read, as JSON."""

def replay(
    cpus: list[tuple[int, bool, bool, float]],
    shared_speed: float,
    threads: list[tuple[int, int, list[int], int | None, bool, tuple[bytes, bytes, bytes]]],
    needed: list[int],
    sections: list[tuple[int, list[float]]],
    parking: list[tuple[int, int, bool]],
    *,
    quantum_ns: int,
    wake_boost: int,
    starved_ns: int,
    until_ns: int,
    linux: tuple[
        float,
        int,
        list[tuple[int | None, float, tuple[float, int] | None]],
        list[tuple[int, bool, bool]],
    ]
    | None = None,
    limits: list[tuple[float, int, int, list[int]]] = ...,
    moves_running: bool = True,
    stranded_share: float = 0.0,
    watched: list[int] = ...,
    goal_ns: float = 0.0,
) -> tuple[
    list[list[int]],
    list[list[int]],
    list[list[int]],
    list[int],
    list[list[int]],
    tuple[int, int] | None,
    int,
]:
    """Runs the programs of threads: (lengths of frames, times of marks, running time by CPU, ready
    time, responses of watched threads, each by thread; when they ran first and had done work of
    `goal_ns`; number of switches).

    `cpus`: (lowest CPU of the core, is a second sibling, is an E core, speed). A thread: (process,
    priority, CPUs, ideal CPU, EcoQoS, program). `linux`: slice, tick, groups (parent, shares, quota
    with period), and by thread its group and whether it takes turns with its equals; None: the
    rules of Windows. Raises `ValueError`.
    """

def text_kind(path: str) -> str | None:
    """What a text is: `perf_script`, `xperf` or `wpa`; None for any other file."""

def perf_script_data(path: str, out: str) -> str:
    """Writes a text of perf script as a perf.data; JSON with records, step_ns and problems."""

class SymbolSources(TypedDict):
    """Where names of functions are looked for."""

    kallsyms: str | None
    perf_maps: list[str]
    debug: list[str]
    symbol_path: str
    cache: tuple[str, str]
    fetch: Callable[[str, str, str], bool] | None

def load(
    paths: str | list[str],
    trace_id: int,
    context: dict[str, pa.RecordBatch] | None,
    samples: str | None,
    label: str,
    symbols: SymbolSources | None = None,
) -> Loader:
    """Starts loading a perf.data file or folder, a trace.dat, the .etl files of one recording, or a
    folder of tables.

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

def etl_scrub(path: str, out: str, rename: Callable[[str, str], str]) -> tuple[int, int, int]:
    """Writes an .etl file again with other names; returns how many records were written, how many
    of these without payload, and how many were left out.

    `rename` returns what stands for the text of a field. Records keep buffer, time, thread and
    CPU. Raises `OSError` for several logs, or for times of the wall clock.
    """

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
    """The events of a perf.data, of a trace.dat, or of the .etl files of one recording.

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

class PerfettoPackets:
    """Turns rows into packets of one Perfetto trace; each call returns the bytes of whole packets.

    `base_ns` is added to all times. `threads` has the columns utid, tid, name; other threads are
    written as the idle thread. `first_ns` is the start of the trace, `last_cpu` its highest CPU.
    """

    def __init__(
        self, base_ns: int, first_ns: int, last_cpu: int, threads: pa.RecordBatch
    ) -> None: ...
    def schedule(self, rows: pa.RecordBatch) -> bytes:
        """Rows of `schedlens.export.schedule_rows.schedule`; some may be kept back."""

    def end_schedule(self) -> bytes:
        """The rows that were kept back."""

    def states(self, rows: pa.RecordBatch) -> bytes:
        """States (utid, ts, state: Created, R, S, D, T) that follow from no switch or waking."""

    def slices(self, rows: pa.RecordBatch) -> bytes:
        """Slices on tracks: track, ts, dur (None: an instant), name, flow, flow_end, arguments."""

def schemas() -> dict[str, pa.Schema]:
    """The Arrow schema of each declared table."""

def zero_nulls(rows: pa.RecordBatch) -> pa.RecordBatch:
    """The same rows, with zeros and empty values in memory where they are NULL.

    DuckDB leaves there what its memory contained before, which can be parts of names.
    """

def sweep(trace_id: int, facts: Mapping[str, Any], inputs: Mapping[str, Any]) -> Sweep:
    """Computes the interval tables of one recording."""

def summarize(
    trace_id: int,
    window: tuple[int, int],
    machine: tuple[int | None, list[tuple[int, float]]],
    weights: pa.RecordBatchReader,
    groups: pa.RecordBatchReader,
    runnable: pa.RecordBatchReader,
) -> list[tuple[str, pa.RecordBatch]]:
    """The rows of the summary tables for a window, by table."""

class TimeColumns(Iterator[pa.RecordBatch]):
    """Rows of columns of time."""

    def __iter__(self) -> TimeColumns: ...
    def __next__(self) -> pa.RecordBatch: ...

def time_columns(parts: pa.RecordBatchReader, start_ns: int, widths: list[int]) -> TimeColumns:
    """What each lane of a timeline does in columns of time."""

def critical_path(
    trace_id: int, frames: pa.RecordBatchReader, states: pa.RecordBatchReader
) -> pa.RecordBatch | None:
    """The critical paths of frames, as rows of `frame_path`."""
