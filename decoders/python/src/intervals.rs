//! The Python interface to the intervals.

use std::sync::{Mutex, PoisonError};

use arrow_array::RecordBatch;
use arrow_array::ffi_stream::RecordBatchStreamReader;
use arrow_pyarrow::PyArrowType;
use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;
use pyo3::types::PyDict;
use schedlens_schedule::intervals::{
    Batches, Facts, Group, Inputs, IntervalError, Intervals, RunnableInputs, TimeColumns, Window,
    critical_path as walk, summarize as summaries_of,
};

/// An iterator of `(table, RecordBatch)`.
#[pyclass(module = "schedlens._decoders", name = "Sweep")]
struct PySweep {
    sweep: Mutex<Intervals>,
}

#[pymethods]
impl PySweep {
    fn __iter__(this: PyRef<'_, Self>) -> PyRef<'_, Self> {
        this
    }

    fn __next__(
        &self,
        py: Python<'_>,
    ) -> PyResult<Option<(&'static str, PyArrowType<RecordBatch>)>> {
        let next = py
            .detach(|| self.sweep.lock().unwrap_or_else(PoisonError::into_inner).next())
            .transpose()
            .map_err(error)?;
        Ok(next.map(|output| (output.table, PyArrowType(output.batch))))
    }
}

/// Finds the intervals of one recording.
///
/// `facts` contains `first_ns`, `end_ns`, `tick_ns` (integers), `parking_needed`, `by_tick`,
/// `yields_recorded` and `lossy` (booleans); `inputs` a `RecordBatchReader` for each of `cpu`,
/// `affinity`, `seen`, `parking`, `throttled`, `short_idle`, `not_running`, `slices`, `cpu_state` and
/// `ready`. Raises `KeyError` if one is missing and `ValueError` if a stream is invalid.
#[pyfunction]
fn sweep(
    py: Python<'_>,
    trace_id: i64,
    facts: &Bound<'_, PyDict>,
    inputs: &Bound<'_, PyDict>,
) -> PyResult<PySweep> {
    let facts = facts.as_any();
    let inputs = inputs.as_any();
    let stream = |name: &str| -> PyResult<Batches> {
        let reader: PyArrowType<RecordBatchStreamReader> = inputs.get_item(name)?.extract()?;
        Ok(Box::new(reader.0))
    };
    let facts = Facts {
        trace_id,
        first_ns: facts.get_item("first_ns")?.extract()?,
        end_ns: facts.get_item("end_ns")?.extract()?,
        parking_needed: facts.get_item("parking_needed")?.extract()?,
        by_tick: facts.get_item("by_tick")?.extract()?,
        tick_ns: facts.get_item("tick_ns")?.extract()?,
        yields_recorded: facts.get_item("yields_recorded")?.extract()?,
        lossy: facts.get_item("lossy")?.extract()?,
    };
    let inputs = Inputs {
        cpu: stream("cpu")?,
        affinity: stream("affinity")?,
        seen: stream("seen")?,
        parking: stream("parking")?,
        throttled: stream("throttled")?,
        short_idle: stream("short_idle")?,
        not_running: stream("not_running")?,
        slices: stream("slices")?,
        cpu_state: stream("cpu_state")?,
        ready: stream("ready")?,
    };
    let sweep = py.detach(|| Intervals::new(facts, inputs)).map_err(error)?;
    Ok(PySweep { sweep: Mutex::new(sweep) })
}

/// The critical paths of frames, as a batch of `frame_path`; None if there are no frames.
///
/// `frames` is a `RecordBatchReader` of upid, frame, utid, start_ns, end_ns; `states` one of utid,
/// ts, dur, state, waker_utid. Raises `ValueError` if a stream is invalid.
#[pyfunction]
fn critical_path(
    py: Python<'_>,
    trace_id: i64,
    frames: PyArrowType<RecordBatchStreamReader>,
    states: PyArrowType<RecordBatchStreamReader>,
) -> PyResult<Option<PyArrowType<RecordBatch>>> {
    let (frames, states): (Batches, Batches) = (Box::new(frames.0), Box::new(states.0));
    let found = py.detach(|| walk(trace_id, frames, states)).map_err(error)?;
    Ok(found.map(|output| PyArrowType(output.batch)))
}

/// The summary tables of one recording that have rows, as a list of `(table, RecordBatch)`.
///
/// `window` is (start, end) in ns; `machine` the number of CPUs online, None if unknown, and the
/// (parent, weight) of each group in which threads share them, counted from 1: 0 is the root;
/// `weights` a `RecordBatchReader` of utid, weight, is_unclear, group; `groups` one of utid, pool,
/// process; `runnable` one of ts, dur, utid, is_ready, by rising ts. Raises `ValueError` if a stream
/// is invalid.
#[pyfunction]
fn summarize(
    py: Python<'_>,
    trace_id: i64,
    window: (i64, i64),
    machine: (Option<i64>, Vec<(usize, f64)>),
    weights: PyArrowType<RecordBatchStreamReader>,
    groups: PyArrowType<RecordBatchStreamReader>,
    runnable: PyArrowType<RecordBatchStreamReader>,
) -> PyResult<Vec<(&'static str, PyArrowType<RecordBatch>)>> {
    let (cpus, sharing) = machine;
    let inputs = RunnableInputs {
        sharing: sharing.into_iter().map(|(parent, weight)| Group { parent, weight }).collect(),
        weights: Box::new(weights.0),
        groups: Box::new(groups.0),
        runnable: Box::new(runnable.0),
    };
    let window = Window { trace_id, start_ns: window.0, end_ns: window.1 };
    let found = py.detach(|| summaries_of(window, cpus, inputs)).map_err(error)?;
    Ok(found.into_iter().map(|output| (output.table, PyArrowType(output.batch))).collect())
}

/// An iterator of `RecordBatch`.
#[pyclass(module = "schedlens._decoders", name = "TimeColumns")]
struct PyTimeColumns {
    columns: Mutex<TimeColumns>,
}

#[pymethods]
impl PyTimeColumns {
    fn __iter__(this: PyRef<'_, Self>) -> PyRef<'_, Self> {
        this
    }

    fn __next__(&self, py: Python<'_>) -> PyResult<Option<PyArrowType<RecordBatch>>> {
        let next = py.detach(|| self.columns.lock().unwrap_or_else(PoisonError::into_inner).next());
        Ok(next.transpose().map_err(error)?.map(PyArrowType))
    }
}

/// What each lane of a timeline does in columns of time, in batches of width_ns, lane, first,
/// columns, key, ns, begins.
///
/// `parts` is a `RecordBatchReader` of lane, ts, end_ns, key. Columns of each of the widths begin at
/// `start_ns`; a width is a power of two, and wider than the one before it. Several rows of a lane
/// and a key in one column are to be added up. Raises `ValueError` if a width or the stream is
/// invalid.
#[pyfunction]
fn time_columns(
    parts: PyArrowType<RecordBatchStreamReader>,
    start_ns: i64,
    widths: Vec<i64>,
) -> PyResult<PyTimeColumns> {
    let columns = TimeColumns::new(Box::new(parts.0), start_ns, &widths).map_err(error)?;
    Ok(PyTimeColumns { columns: Mutex::new(columns) })
}

fn error(error: IntervalError) -> PyErr {
    PyValueError::new_err(error.to_string())
}

/// Adds the intervals to the module.
pub fn register(module: &Bound<'_, PyModule>) -> PyResult<()> {
    module.add_class::<PySweep>()?;
    module.add_class::<PyTimeColumns>()?;
    module.add_function(wrap_pyfunction!(time_columns, module)?)?;
    module.add_function(wrap_pyfunction!(sweep, module)?)?;
    module.add_function(wrap_pyfunction!(summarize, module)?)?;
    module.add_function(wrap_pyfunction!(critical_path, module)?)
}
