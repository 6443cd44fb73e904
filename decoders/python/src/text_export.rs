//! Texts that other programs printed.

use std::path::PathBuf;
use std::sync::{Mutex, PoisonError};

use arrow_pyarrow::ToPyArrow;
use pyo3::prelude::*;
use schedlens_loader::text_export::{self, TextRows};
use schedlens_text::Kind;

use crate::{apart, exception};

/// What a text is: `perf_script`, `xperf` or `wpa`; None for any other file.
#[pyfunction]
fn text_kind(py: Python<'_>, path: PathBuf) -> PyResult<Option<&'static str>> {
    let file = path.clone();
    let found = apart(py, &path, move || text_export::kind(&file))?;
    Ok(found.map(|kind| match kind {
        Kind::PerfScript => "perf_script",
        Kind::Dumper => "xperf",
        Kind::Precise => "wpa",
    }))
}

/// Writes a text of perf script as a perf.data. Returns JSON: `records`, `step_ns` (of a step of the
/// last decimal of its times) and `problems` (`line`, `what`, `count`).
#[pyfunction]
fn perf_script_data(py: Python<'_>, path: PathBuf, out: PathBuf) -> PyResult<String> {
    let file = path.clone();
    let found = apart(py, &path, move || text_export::perf_data(&file, &out, |_| true))?;
    Ok(found.to_string())
}

/// Iterator over record batches of a text of xperf or wpaexporter.
#[pyclass(module = "schedlens._decoders")]
struct WindowsRows {
    path: PathBuf,
    rows: Mutex<TextRows>,
}

#[pymethods]
impl WindowsRows {
    #[new]
    fn open(py: Python<'_>, path: PathBuf) -> PyResult<Self> {
        let file = path.clone();
        let rows = apart(py, &path, move || TextRows::open(&file))?;
        Ok(Self { path, rows: Mutex::new(rows) })
    }

    fn __iter__(slf: PyRef<'_, Self>) -> PyRef<'_, Self> {
        slf
    }

    fn __next__<'py>(&self, py: Python<'py>) -> PyResult<Option<Bound<'py, PyAny>>> {
        let next = || self.rows.lock().unwrap_or_else(PoisonError::into_inner).next_batch();
        match py.detach(next) {
            Ok(batch) => batch.map(|batch| batch.to_pyarrow(py)).transpose(),
            Err(error) => Err(exception(py, &self.path, &error)),
        }
    }

    /// Columns of the batches.
    #[getter]
    fn schema<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyAny>> {
        let rows = self.rows.lock().unwrap_or_else(PoisonError::into_inner);
        rows.schema().to_pyarrow(py)
    }

    /// Bytes read so far.
    fn read(&self) -> u64 {
        self.rows.lock().unwrap_or_else(PoisonError::into_inner).read()
    }

    /// What the text stated and what could not be read, once all rows are read, as JSON.
    fn summary(&self) -> String {
        self.rows.lock().unwrap_or_else(PoisonError::into_inner).summary().to_string()
    }
}

pub fn register(module: &Bound<'_, PyModule>) -> PyResult<()> {
    module.add_class::<WindowsRows>()?;
    module.add_function(wrap_pyfunction!(text_kind, module)?)?;
    module.add_function(wrap_pyfunction!(perf_script_data, module)?)
}
