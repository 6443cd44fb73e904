//! The Python interface to the writer of Perfetto traces.

use std::collections::HashMap;
use std::sync::{Mutex, PoisonError};

use arrow_array::cast::AsArray;
use arrow_array::types::{Float64Type, Int32Type, Int64Type};
use arrow_array::{Array, ArrayRef, ArrowPrimitiveType, PrimitiveArray, RecordBatch, StringArray};
use arrow_pyarrow::PyArrowType;
use arrow_schema::DataType;
use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;
use pyo3::types::PyBytes;
use schedlens_perfetto::schedule::{Event, Row, Schedule};
use schedlens_perfetto::thread_states::{self, State};
use schedlens_perfetto::track_slices::{self, Slice, Value};

/// Kinds of rows of `schedule`.
const SLICE: i32 = 0;
const WAKING: i32 = 1;
const IDLE: i32 = 2;
const FREQUENCY: i32 = 3;
const ORDER: i32 = 4;
/// Columns of `slices` that are no arguments.
const OWN_COLUMNS: [&str; 6] = ["track", "ts", "dur", "name", "flow", "flow_end"];

/// Turns rows into packets of one trace.
#[pyclass(module = "schedlens._decoders")]
struct PerfettoPackets {
    base_ns: i64,
    threads: HashMap<i64, (i32, String)>,
    schedule: Mutex<Schedule>,
}

#[pymethods]
impl PerfettoPackets {
    #[new]
    fn new(
        base_ns: i64,
        first_ns: i64,
        last_cpu: i32,
        threads: PyArrowType<RecordBatch>,
    ) -> PyResult<Self> {
        let batch = threads.0;
        let (utids, tids) = (ints::<Int64Type>(&batch, "utid")?, ints::<Int32Type>(&batch, "tid")?);
        let names = texts(&batch, "name")?;
        let threads: HashMap<i64, (i32, String)> = (0..batch.num_rows())
            .map(|row| (utids.value(row), (tids.value(row), names.value(row).to_owned())))
            .collect();
        let schedule = Schedule::new(threads.clone(), last_cpu, base_ns + first_ns);
        Ok(Self { base_ns, schedule: Mutex::new(schedule), threads })
    }

    /// Packets of rows of the schedule, in the order of CPU and time; some rows may be kept back.
    fn schedule<'py>(
        &self,
        py: Python<'py>,
        rows: PyArrowType<RecordBatch>,
    ) -> PyResult<Bound<'py, PyBytes>> {
        let bytes = py.detach(|| {
            let mut schedule = self.schedule.lock().unwrap_or_else(PoisonError::into_inner);
            let mut trace = Vec::new();
            push(&mut schedule, &rows.0, self.base_ns, &mut trace).map(|()| trace)
        })?;
        Ok(PyBytes::new(py, &bytes))
    }

    /// Packets of the rows that were kept back.
    fn end_schedule<'py>(&self, py: Python<'py>) -> Bound<'py, PyBytes> {
        let mut trace = Vec::new();
        self.schedule.lock().unwrap_or_else(PoisonError::into_inner).finish(&mut trace);
        PyBytes::new(py, &trace)
    }

    /// Packets of thread states that follow from no switch and no waking.
    fn states<'py>(
        &self,
        py: Python<'py>,
        rows: PyArrowType<RecordBatch>,
    ) -> PyResult<Bound<'py, PyBytes>> {
        let batch = rows.0;
        let (utids, times) = (ints::<Int64Type>(&batch, "utid")?, ints::<Int64Type>(&batch, "ts")?);
        let letters = texts(&batch, "state")?;
        let mut trace = Vec::new();
        for row in 0..batch.num_rows() {
            let Some((tid, name)) = self.threads.get(&utids.value(row)) else { continue };
            let letter = letters.value(row);
            let state = State::of(letter)
                .ok_or_else(|| PyValueError::new_err(format!("no state {letter}")))?;
            thread_states::write(&mut trace, times.value(row) + self.base_ns, *tid, name, state);
        }
        Ok(PyBytes::new(py, &trace))
    }

    /// Packets of slices on tracks; further columns are their arguments.
    fn slices<'py>(
        &self,
        py: Python<'py>,
        rows: PyArrowType<RecordBatch>,
    ) -> PyResult<Bound<'py, PyBytes>> {
        let bytes = py.detach(|| slices(&rows.0, self.base_ns))?;
        Ok(PyBytes::new(py, &bytes))
    }
}

fn push(
    schedule: &mut Schedule,
    batch: &RecordBatch,
    base_ns: i64,
    trace: &mut Vec<u8>,
) -> PyResult<()> {
    let (cpus, times) = (ints::<Int32Type>(batch, "cpu")?, ints::<Int64Type>(batch, "ts")?);
    let (kinds, utids) = (ints::<Int32Type>(batch, "kind")?, ints::<Int64Type>(batch, "utid")?);
    let (values, states) =
        (ints::<Int64Type>(batch, "value")?, ints::<Int32Type>(batch, "end_state")?);
    let (wakers, flags) =
        (ints::<Int64Type>(batch, "waker_utid")?, ints::<Int32Type>(batch, "flag")?);
    let (reasons, untils) = (texts(batch, "reason")?, ints::<Int64Type>(batch, "until")?);
    for row in 0..batch.num_rows() {
        let value = values.value(row);
        let event = match kinds.value(row) {
            SLICE => Event::Slice {
                utid: utids.value(row),
                priority: value as i32,
                end_state: states.value(row) as u16,
                reason: reasons.is_valid(row).then(|| reasons.value(row).to_owned()),
                until: untils.value(row) + base_ns,
                late: flags.value(row) != 0,
            },
            WAKING => Event::Waking {
                utid: utids.value(row),
                waker: wakers.value(row),
                target_cpu: value as i32,
                in_interrupt: flags.value(row) != 0,
            },
            IDLE => Event::Idle(value as u32),
            FREQUENCY => Event::Frequency(value as u32),
            ORDER => Event::Order,
            other => return Err(PyValueError::new_err(format!("no kind {other}"))),
        };
        schedule.push(Row { cpu: cpus.value(row), ts: times.value(row) + base_ns, event }, trace);
    }
    Ok(())
}

/// An argument's column.
enum Column<'a> {
    Text(&'a StringArray),
    Int(&'a PrimitiveArray<Int64Type>),
    Float(&'a PrimitiveArray<Float64Type>),
    Bool(&'a arrow_array::BooleanArray),
}

impl<'a> Column<'a> {
    fn of(name: &str, array: &'a ArrayRef) -> PyResult<Self> {
        Ok(match array.data_type() {
            DataType::Utf8 => Self::Text(array.as_string()),
            DataType::Int64 => Self::Int(array.as_primitive()),
            DataType::Float64 => Self::Float(array.as_primitive()),
            DataType::Boolean => Self::Bool(array.as_boolean()),
            other => return Err(PyValueError::new_err(format!("column {name} has type {other}"))),
        })
    }

    fn value(&self, row: usize) -> Option<Value<'a>> {
        match self {
            Self::Text(array) => array.is_valid(row).then(|| Value::Text(array.value(row))),
            Self::Int(array) => array.is_valid(row).then(|| Value::Int(array.value(row))),
            Self::Float(array) => array.is_valid(row).then(|| Value::Float(array.value(row))),
            Self::Bool(array) => array.is_valid(row).then(|| Value::Bool(array.value(row))),
        }
    }
}

fn slices(batch: &RecordBatch, base_ns: i64) -> PyResult<Vec<u8>> {
    let (tracks, times) = (ints::<Int64Type>(batch, "track")?, ints::<Int64Type>(batch, "ts")?);
    let (lengths, names) = (ints::<Int64Type>(batch, "dur")?, texts(batch, "name")?);
    let (flows, ends) = (ints::<Int64Type>(batch, "flow")?, ints::<Int64Type>(batch, "flow_end")?);
    let schema = batch.schema();
    let mut columns = Vec::new();
    for (field, array) in schema.fields().iter().zip(batch.columns()) {
        if !OWN_COLUMNS.contains(&field.name().as_str()) {
            columns.push((field.name().as_str(), Column::of(field.name(), array)?));
        }
    }
    let number = |array: &PrimitiveArray<Int64Type>, row: usize| {
        array.is_valid(row).then(|| array.value(row) as u64)
    };
    let mut trace = Vec::new();
    for row in 0..batch.num_rows() {
        let slice = Slice {
            track: tracks.value(row) as u64,
            ts: times.value(row) + base_ns,
            dur: lengths.is_valid(row).then(|| lengths.value(row)),
            name: names.value(row),
            flow: number(flows, row),
            flow_end: number(ends, row),
            arguments: columns
                .iter()
                .filter_map(|(name, column)| Some((*name, column.value(row)?)))
                .collect(),
        };
        track_slices::write(&mut trace, &slice);
    }
    Ok(trace)
}

fn column<'a>(batch: &'a RecordBatch, name: &str) -> PyResult<&'a ArrayRef> {
    batch
        .column_by_name(name)
        .ok_or_else(|| PyValueError::new_err(format!("there is no column {name}")))
}

fn ints<'a, T: ArrowPrimitiveType>(
    batch: &'a RecordBatch,
    name: &str,
) -> PyResult<&'a PrimitiveArray<T>> {
    column(batch, name)?
        .as_primitive_opt()
        .ok_or_else(|| PyValueError::new_err(format!("column {name} has another type")))
}

fn texts<'a>(batch: &'a RecordBatch, name: &str) -> PyResult<&'a StringArray> {
    column(batch, name)?
        .as_string_opt()
        .ok_or_else(|| PyValueError::new_err(format!("column {name} is no text")))
}

pub(crate) fn register(module: &Bound<'_, PyModule>) -> PyResult<()> {
    module.add_class::<PerfettoPackets>()
}
