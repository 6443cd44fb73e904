//! The state machine for base tables from Python, processed in chunks.

use std::sync::{Mutex, PoisonError};

use arrow_array::RecordBatch;
use arrow_pyarrow::{FromPyArrow, ToPyArrow};
use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;
use schedlens_loader::error::DecodeError;
use schedlens_loader::without_panic;
use schedlens_schedule::frame::{Frame, Output};
use schedlens_schedule::schema;
use schedlens_schedule::states::{End, Settings, Source, StateMachine};

type Batches<'py> = Vec<(&'static str, Bound<'py, PyAny>)>;

/// Reads chunks of base tables and returns corrected and derived tables; see [`StateMachine`].
#[pyclass(module = "schedlens._decoders")]
struct States {
    trace_id: i64,
    machine: Mutex<Option<StateMachine>>,
}

#[pymethods]
impl States {
    /// A machine for tables of `source` (`perf`, `etw` or `perfetto`).
    #[new]
    fn new(
        trace_id: i64,
        source: &str,
        tick_ns: Option<i64>,
        yields_recorded: bool,
        has_wakings: bool,
    ) -> PyResult<Self> {
        if !(0..=i64::from(i32::MAX)).contains(&trace_id) {
            return Err(PyValueError::new_err(format!("trace_id {trace_id} is not in 0..2^31")));
        }
        let source = match source {
            "perf" => Source::Perf,
            "etw" => Source::Etw,
            "perfetto" => Source::Perfetto,
            _ => return Err(PyValueError::new_err(format!("no source is named {source}"))),
        };
        let settings = Settings { trace_id, source, tick_ns, yields_recorded, has_wakings };
        Ok(Self { trace_id, machine: Mutex::new(Some(StateMachine::new(settings))) })
    }

    /// Processes all rows before `until_ns` that were not in an earlier chunk.
    fn push<'py>(
        &self,
        py: Python<'py>,
        until_ns: i64,
        batches: Vec<(String, Bound<'py, PyAny>)>,
    ) -> PyResult<Batches<'py>> {
        let mut taken = Vec::new();
        for (table, batch) in &batches {
            taken.push((self.declared(table, batch)?, RecordBatch::from_pyarrow_bound(batch)?));
        }
        let frame = Frame { batches: taken, until_ns };
        let outputs = py.detach(|| {
            let mut machine = self.machine.lock().unwrap_or_else(PoisonError::into_inner);
            without_panic(|| {
                let machine = machine.as_mut().ok_or_else(finished)?;
                Ok(machine.push(&frame)?)
            })
        });
        handed_out(py, outputs)
    }

    /// Closes everything that is open and returns the remaining outputs.
    fn finish<'py>(
        &self,
        py: Python<'py>,
        first_ns: i64,
        last_ns: i64,
        threads: Bound<'py, PyAny>,
        cpus: Bound<'py, PyAny>,
    ) -> PyResult<Batches<'py>> {
        self.declared("thread", &threads)?;
        self.declared("cpu", &cpus)?;
        let end = End {
            first_ns,
            last_ns,
            threads: RecordBatch::from_pyarrow_bound(&threads)?,
            cpus: RecordBatch::from_pyarrow_bound(&cpus)?,
            snapshot_thread: None,
        };
        let outputs = py.detach(|| {
            let mut machine = self.machine.lock().unwrap_or_else(PoisonError::into_inner);
            let machine = machine.take();
            without_panic(|| Ok(machine.ok_or_else(finished)?.finish(&end)?))
        });
        handed_out(py, outputs)
    }
}

impl States {
    /// The declared name of a table. Rejects a batch that does not match its schema.
    fn declared(&self, table: &str, batch: &Bound<'_, PyAny>) -> PyResult<&'static str> {
        let (name, declared) = schema::tables().get_key_value(table).ok_or_else(|| {
            PyValueError::new_err(format!("trace {}: no table is named {table}", self.trace_id))
        })?;
        let found = arrow_schema::Schema::from_pyarrow_bound(&batch.getattr("schema")?)?;
        if found.fields() != declared.fields() {
            return Err(PyValueError::new_err(format!(
                "table {table}: the batch is not in the declared schema"
            )));
        }
        Ok(name.as_str())
    }
}

fn finished() -> DecodeError {
    DecodeError::Internal { what: "the machine has finished".to_owned() }
}

fn handed_out(py: Python<'_>, outputs: Result<Vec<Output>, DecodeError>) -> PyResult<Batches<'_>> {
    let outputs = outputs.map_err(|error| PyValueError::new_err(error.to_string()))?;
    let filled = outputs.into_iter().filter(|output| output.batch.num_rows() > 0);
    filled.map(|output| Ok((output.table, output.batch.to_pyarrow(py)?))).collect()
}

/// Adds the class to the module.
pub(crate) fn register(module: &Bound<'_, PyModule>) -> PyResult<()> {
    module.add_class::<States>()
}
