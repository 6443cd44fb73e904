//! The Python module `schedlens._decoders`.

mod intervals;
mod perfetto;
mod replay;
mod tables;
mod text_export;

use std::collections::{BTreeMap, HashMap};
use std::fs::File;
use std::io::{BufWriter, Write};
use std::path::{Path, PathBuf};
use std::sync::mpsc::RecvTimeoutError;
use std::sync::{Arc, Mutex, Once, PoisonError};
use std::time::Duration;

use arrow_array::RecordBatch;
use arrow_pyarrow::{FromPyArrow, ToPyArrow};
use pyo3::exceptions::{PyRuntimeError, PyValueError};
use pyo3::prelude::*;
use pyo3::types::{PyDict, PyString, PyType};
use schedlens_etl::facts::description::classic;
use schedlens_etl::{Log, scrub};
use schedlens_input::event::{CSV_HEADER, Wanted};
use schedlens_loader::error::{DecodeError, ErrorKind};
use schedlens_loader::event_lines::{Batch, EventBatches, Style};
use schedlens_loader::format::{self, Format};
use schedlens_loader::load::{Load, Request};
use schedlens_loader::open::{decode_only as decode, inspect as inspect_files};
use schedlens_loader::session;
use schedlens_loader::stacks::{Fetch, Sources};
use schedlens_loader::{THREAD_NAME, without_panic};
use schedlens_schedule::schema;
use schedlens_symbols::SymbolPath;
use schedlens_system::processors::Topology;
use schedlens_system::thread_states::{KWAIT_REASON, LINUX_LETTERS};

/// How long to wait for a batch before checking for Ctrl-C.
const PATIENCE: Duration = Duration::from_millis(50);

/// The exception for an error, prefixed with the file.
fn exception(py: Python<'_>, path: &Path, error: &DecodeError) -> PyErr {
    let message = format!("{}: {error}", path.display());
    let class = match error.kind() {
        ErrorKind::NotATrace => "NotATraceError",
        ErrorKind::Damaged => "DamagedTraceError",
        ErrorKind::Unsupported => "UnsupportedTraceError",
        ErrorKind::Context => return PyValueError::new_err(message),
        ErrorKind::Io => {
            let DecodeError::Io(cause) = error else { return PyRuntimeError::new_err(message) };
            return std::io::Error::new(cause.kind(), message).into();
        }
    };
    let found = py
        .import("schedlens.errors")
        .and_then(|errors| errors.getattr(class))
        .and_then(|class| Ok(class.cast_into::<PyType>()?));
    match found {
        Ok(class) => PyErr::from_type(class, (message,)),
        Err(missing) => missing,
    }
}

/// Runs work in a thread whose panics are not printed, while other Python threads continue.
fn apart<T: Send + 'static>(
    py: Python<'_>,
    path: &Path,
    work: impl FnOnce() -> Result<T, DecodeError> + Send + 'static,
) -> PyResult<T> {
    let ended = py.detach(|| {
        let thread = std::thread::Builder::new()
            .name(THREAD_NAME.to_owned())
            .spawn(move || without_panic(work))?;
        thread.join().unwrap_or_else(|_| {
            Err(DecodeError::Internal { what: "the reader stopped".to_owned() })
        })
    });
    ended.map_err(|error| exception(py, path, &error))
}

/// Keeps panics of reading threads off the terminal: they become exceptions.
fn silence_readers() {
    static ONCE: Once = Once::new();
    ONCE.call_once(|| {
        let before = std::panic::take_hook();
        std::panic::set_hook(Box::new(move |info| {
            if std::thread::current().name() != Some(THREAD_NAME) {
                before(info);
            }
        }));
    });
}

/// Iterator over (table, batch) of a recording that is read in the background.
#[pyclass(module = "schedlens._decoders")]
struct Loader {
    path: PathBuf,
    load: Mutex<Option<Load>>,
}

impl Loader {
    fn take(&self) -> Option<Load> {
        self.load.lock().unwrap_or_else(PoisonError::into_inner).take()
    }
}

#[pymethods]
impl Loader {
    fn __iter__(slf: PyRef<'_, Self>) -> PyRef<'_, Self> {
        slf
    }

    fn __next__<'py>(
        &self,
        py: Python<'py>,
    ) -> PyResult<Option<(&'static str, Bound<'py, PyAny>)>> {
        loop {
            let received = py.detach(|| {
                let load = self.load.lock().unwrap_or_else(PoisonError::into_inner);
                load.as_ref().map(|load| load.batches.recv_timeout(PATIENCE))
            });
            match received {
                Some(Ok(Ok(output))) => {
                    return Ok(Some((output.table, output.batch.to_pyarrow(py)?)));
                }
                Some(Ok(Err(error))) => {
                    self.close(py);
                    return Err(exception(py, &self.path, &error));
                }
                Some(Err(RecvTimeoutError::Timeout)) => py.check_signals()?,
                None | Some(Err(RecvTimeoutError::Disconnected)) => return Ok(None),
            }
        }
    }

    /// Share of the records read so far, 0 to 1.
    fn progress(&self) -> f64 {
        let load = self.load.lock().unwrap_or_else(PoisonError::into_inner);
        load.as_ref().map_or(1.0, |load| load.progress.share())
    }

    /// Stops reading, finished or not.
    fn close(&self, py: Python<'_>) {
        if let Some(load) = self.take() {
            py.detach(|| load.close());
        }
    }

    fn __enter__(slf: PyRef<'_, Self>) -> PyRef<'_, Self> {
        slf
    }

    fn __exit__(
        &self,
        py: Python<'_>,
        _kind: Bound<'_, PyAny>,
        _value: Bound<'_, PyAny>,
        _trace: Bound<'_, PyAny>,
    ) -> bool {
        self.close(py);
        false
    }
}

impl Drop for Loader {
    fn drop(&mut self) {
        if let Some(load) = self.take() {
            // Its thread may be waiting for Python, to fetch a file.
            Python::attach(|py| py.detach(|| load.close()));
        }
    }
}

/// A recording's file, or its files.
#[derive(FromPyObject)]
enum Paths {
    One(PathBuf),
    Many(Vec<PathBuf>),
}

impl Paths {
    fn all(self) -> Vec<PathBuf> {
        match self {
            Self::One(path) => vec![path],
            Self::Many(paths) => paths,
        }
    }
}

/// Where names of functions are looked for, as a dictionary.
#[derive(FromPyObject)]
#[pyo3(from_item_all)]
struct SymbolSources {
    /// A copy of `/proc/kallsyms`.
    kallsyms: Option<PathBuf>,
    /// Folders with `perf-PID.map` files.
    perf_maps: Vec<PathBuf>,
    /// Folders with debug files.
    debug: Vec<PathBuf>,
    /// Where PDB files are looked for, in the form of `_NT_SYMBOL_PATH`.
    symbol_path: String,
    /// Folders with fetched files: PDB files, and files by build id.
    cache: (PathBuf, PathBuf),
    /// Fetches a file: kind, name, and identifier to whether it is there now. None: nothing is.
    fetch: Option<Py<PyAny>>,
}

impl From<SymbolSources> for Sources {
    fn from(given: SymbolSources) -> Self {
        let SymbolSources { kallsyms, perf_maps, debug, symbol_path, cache, fetch } = given;
        let mut pdbs = SymbolPath::parse(&symbol_path);
        pdbs.push(cache.0);
        let fetch = fetch.map(|fetch| {
            Fetch(Arc::new(move |kind: &str, name: &str, id: &str| {
                // A fetch that fails leaves functions without names.
                Python::attach(|py| fetch.call1(py, (kind, name, id))?.extract(py))
                    .unwrap_or_default()
            }))
        });
        Self { kallsyms, perf_maps, debug, pdbs, debuginfod: vec![cache.1], fetch }
    }
}

/// Starts loading a recording: a perf.data file or folder, the .etl files of one recording, or a
/// folder of tables.
///
/// `context`: tables of the session by name, with raw times and, if a table has a column `utid`,
/// thread ids in a column `tid`. `samples`: path of `samples.bin`. `symbols`: where names of
/// functions are looked for.
#[pyfunction]
#[pyo3(signature = (paths, trace_id, context, samples, label, symbols = None))]
fn load(
    paths: Paths,
    trace_id: i64,
    context: Option<Bound<'_, PyDict>>,
    samples: Option<PathBuf>,
    label: String,
    symbols: Option<SymbolSources>,
) -> PyResult<Loader> {
    let mut tables = BTreeMap::new();
    for (table, batch) in context.iter().flat_map(|context| context.iter()) {
        tables.insert(table.extract::<String>()?, RecordBatch::from_pyarrow_bound(&batch)?);
    }
    if !(0..=i64::from(i32::MAX)).contains(&trace_id) {
        return Err(PyValueError::new_err(format!("trace_id {trace_id} is not in 0..2^31")));
    }
    let paths = paths.all();
    let path = paths.first().cloned().unwrap_or_default();
    let symbols = symbols.map(SymbolSources::into).unwrap_or_default();
    let request = Request { paths, trace_id, context: tables, samples, label, symbols };
    let load = Load::start(request).map_err(|error| PyRuntimeError::new_err(error.to_string()))?;
    Ok(Loader { path, load: Mutex::new(Some(load)) })
}

/// The contents of a recording as JSON. Accepts several files of one recording.
#[pyfunction]
#[pyo3(signature = (*paths))]
fn inspect(py: Python<'_>, paths: Vec<PathBuf>) -> PyResult<String> {
    let Some(path) = paths.first().cloned() else {
        return Err(PyValueError::new_err("no recording given"));
    };
    apart(py, &path, move || inspect_files(&paths))
}

/// The records of a Windows log in time order or file order, as a table with one row per record.
#[pyfunction]
#[pyo3(signature = (*paths, by_time))]
fn etl_records(py: Python<'_>, paths: Vec<PathBuf>, by_time: bool) -> PyResult<Bound<'_, PyAny>> {
    let path = paths.first().cloned().unwrap_or_default();
    let batch =
        apart(py, &path, move || schedlens_loader::etl::listing(Log::open(&paths)?, by_time))?;
    batch.to_pyarrow(py)
}

/// When the log in an .etl file was recorded: (FILETIME of boot, of its start, of its end or None);
/// None for any other file.
#[pyfunction]
fn etl_span(py: Python<'_>, path: PathBuf) -> PyResult<Option<(u64, u64, Option<u64>)>> {
    let file = path.clone();
    apart(py, &path, move || {
        if format::of(&file)? != Format::Etl {
            return Ok(None);
        }
        let log = Log::open(&[file])?;
        let header = log.header();
        Ok(Some((header.boot_time, header.start_time, header.end_time)))
    })
}

/// Writes an .etl file again with the names that `rename(field, text)` returns, and without other
/// texts: records written, of these without payload, and left out.
#[pyfunction]
fn etl_scrub(
    py: Python<'_>,
    path: PathBuf,
    out: PathBuf,
    rename: Py<PyAny>,
) -> PyResult<(u64, u64, u64)> {
    let file = path.clone();
    let failed = Arc::new(Mutex::new(None));
    let failure = Arc::clone(&failed);
    let written = apart(py, &path, move || {
        let log = Log::open(&[file])?;
        let mut known: HashMap<(String, String), String> = HashMap::new();
        let mut named = |field: &str, text: &str| {
            let key = (field.to_owned(), text.to_owned());
            known.entry(key).or_insert_with(|| renamed(&rename, field, text, &failure)).clone()
        };
        let mut sink = BufWriter::new(File::create(out)?);
        let written = scrub::scrub(&log, &mut named, &mut sink)?;
        sink.flush()?;
        Ok(written)
    })?;
    match failed.lock().unwrap_or_else(PoisonError::into_inner).take() {
        Some(error) => Err(error),
        None => Ok((written.records, written.emptied, written.left_out)),
    }
}

/// What stands for a text; empty if `rename` fails, which `failure` keeps.
fn renamed(rename: &Py<PyAny>, field: &str, text: &str, failure: &Mutex<Option<PyErr>>) -> String {
    Python::attach(|py| rename.call1(py, (field, text))?.extract(py)).unwrap_or_else(|error| {
        failure.lock().unwrap_or_else(PoisonError::into_inner).get_or_insert(error);
        String::new()
    })
}

/// Iterator over the events of a recording in time order: texts of whole lines, or record batches
/// in the style `arrow`.
#[pyclass(module = "schedlens._decoders")]
struct Events {
    path: PathBuf,
    batches: Mutex<Option<EventBatches>>,
}

#[pymethods]
impl Events {
    fn __iter__(slf: PyRef<'_, Self>) -> PyRef<'_, Self> {
        slf
    }

    fn __next__<'py>(&self, py: Python<'py>) -> PyResult<Option<Bound<'py, PyAny>>> {
        loop {
            let received = py.detach(|| {
                let batches = self.batches.lock().unwrap_or_else(PoisonError::into_inner);
                batches.as_ref().map(|batches| batches.batches.recv_timeout(PATIENCE))
            });
            match received {
                Some(Ok(Ok(Batch::Lines(lines)))) => {
                    return Ok(Some(PyString::new(py, &lines).into_any()));
                }
                Some(Ok(Ok(Batch::Rows(batch)))) => return batch.to_pyarrow(py).map(Some),
                Some(Ok(Err(error))) => return Err(exception(py, &self.path, &error)),
                Some(Err(RecvTimeoutError::Timeout)) => py.check_signals()?,
                None | Some(Err(RecvTimeoutError::Disconnected)) => return Ok(None),
            }
        }
    }
}

impl Drop for Events {
    fn drop(&mut self) {
        if let Some(batches) = self.batches.lock().unwrap_or_else(PoisonError::into_inner).take() {
            batches.close();
        }
    }
}

/// Starts reading the events of a perf.data file or of the .etl files of one recording.
///
/// `style` is `text`, `json`, `csv` or `arrow`; `providers` and `names` are patterns with `*` and
/// `?`, empty for all; the window is in ns from the start of the recording.
#[pyfunction]
#[pyo3(signature = (paths, *, style = "json", providers = vec![], names = vec![], from_ns = None, to_ns = None))]
fn events(
    paths: Vec<PathBuf>,
    style: &str,
    providers: Vec<String>,
    names: Vec<String>,
    from_ns: Option<i64>,
    to_ns: Option<i64>,
) -> PyResult<Events> {
    let style = match style {
        "text" => Style::Text,
        "json" => Style::Json,
        "csv" => Style::Csv,
        "arrow" => Style::Arrow,
        other => return Err(PyValueError::new_err(format!("unknown style {other}"))),
    };
    let Some(path) = paths.first().cloned() else {
        return Err(PyValueError::new_err("no recording given"));
    };
    let wanted = Wanted { providers, names, from_ns, to_ns };
    let batches = EventBatches::start(paths, wanted, style)
        .map_err(|error| PyRuntimeError::new_err(error.to_string()))?;
    Ok(Events { path, batches: Mutex::new(Some(batches)) })
}

/// Name and fields (JSON) of a kernel event's payload, or None.
///
/// `event` is a hook or, with the first number of a class GUID, an opcode.
#[pyfunction]
#[pyo3(signature = (event, version, payload, pointer, class_number = None))]
fn etl_payload(
    event: u16,
    version: u8,
    payload: &[u8],
    pointer: usize,
    class_number: Option<u32>,
) -> PyResult<Option<(String, String)>> {
    if pointer != 4 && pointer != 8 {
        return Err(PyValueError::new_err(format!("pointers have 4 or 8 bytes, not {pointer}")));
    }
    let found = classic((class_number, event, version), payload, pointer);
    Ok(found.map(|(name, fields)| (name.to_owned(), fields.json().to_string())))
}

/// Reads a recording into base-table batches and discards them: (records, rows, seconds).
#[pyfunction]
fn decode_only(py: Python<'_>, path: PathBuf) -> PyResult<(u64, u64, f64)> {
    let file = path.clone();
    apart(py, &path, move || decode(&[file]))
}

/// The batches in `samples.bin` as rows of `run_sample`, with times from `start_clock`.
#[pyfunction]
fn run_samples(
    py: Python<'_>,
    path: PathBuf,
    trace_id: i64,
    start_clock: i64,
) -> PyResult<Bound<'_, PyAny>> {
    let file = path.clone();
    let batch = apart(py, &path, move || {
        let (batch, _torn) = session::run_samples(&std::fs::read(&file)?, (trace_id, start_clock))?;
        Ok(batch)
    })?;
    batch.to_pyarrow(py)
}

/// The name of the core type of each CPU, given the efficiency class of each.
#[pyfunction]
fn core_types(classes: Vec<u32>) -> Vec<String> {
    schedlens_core_types::names(&classes)
}

/// Rows of the table `cpu` from the bytes of `GetLogicalProcessorInformationEx(RelationAll)`.
#[pyfunction]
fn windows_cpus<'py>(py: Python<'py>, buffer: &[u8]) -> PyResult<Vec<Bound<'py, PyDict>>> {
    let topology =
        Topology::read(buffer).map_err(|error| PyValueError::new_err(error.to_string()))?;
    let rows = topology.cpus.iter().zip(topology.core_types());
    rows.map(|(cpu, core_type)| {
        let row = PyDict::new(py);
        row.set_item("cpu", cpu.cpu)?;
        row.set_item("online", true)?;
        row.set_item("core_type", core_type)?;
        for (name, number) in cpu.columns() {
            row.set_item(name, number)?;
        }
        Ok(row)
    })
    .collect()
}

#[pymodule]
fn _decoders(module: &Bound<'_, PyModule>) -> PyResult<()> {
    silence_readers();
    module.add_class::<Loader>()?;
    module.add("SCHEMA_VERSION", schema::VERSION)?;
    module.add("KWAIT_REASON", KWAIT_REASON.to_vec())?;
    module.add("LINUX_LETTERS", LINUX_LETTERS.to_vec())?;
    module.add_function(wrap_pyfunction!(core_types, module)?)?;
    module.add_function(wrap_pyfunction!(load, module)?)?;
    module.add_function(wrap_pyfunction!(inspect, module)?)?;
    module.add_function(wrap_pyfunction!(etl_records, module)?)?;
    module.add_function(wrap_pyfunction!(decode_only, module)?)?;
    module.add_class::<Events>()?;
    module.add_function(wrap_pyfunction!(events, module)?)?;
    module.add("EVENT_CSV_HEADER", CSV_HEADER)?;
    module.add_function(wrap_pyfunction!(etl_span, module)?)?;
    module.add_function(wrap_pyfunction!(etl_scrub, module)?)?;
    module.add_function(wrap_pyfunction!(etl_payload, module)?)?;
    module.add_function(wrap_pyfunction!(run_samples, module)?)?;
    module.add_function(wrap_pyfunction!(windows_cpus, module)?)?;
    perfetto::register(module)?;
    text_export::register(module)?;
    intervals::register(module)?;
    tables::register(module)?;
    replay::register(module)
}
