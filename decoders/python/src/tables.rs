//! Tables as Python has them: their schemas, and rows without what NULLs leave in memory.

use arrow_array::RecordBatch;
use arrow_pyarrow::{PyArrowType, ToPyArrow};
use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;
use pyo3::types::PyDict;
use schedlens_schedule::{null_slots, schema};

/// The Arrow schema of each declared table.
#[pyfunction]
fn schemas(py: Python<'_>) -> PyResult<Bound<'_, PyDict>> {
    let schemas = PyDict::new(py);
    for (name, schema) in schema::tables() {
        schemas.set_item(name, schema.to_pyarrow(py)?)?;
    }
    Ok(schemas)
}

/// The same rows, with zeros in memory where they are NULL.
#[pyfunction]
fn zero_nulls(
    py: Python<'_>,
    rows: PyArrowType<RecordBatch>,
) -> PyResult<PyArrowType<RecordBatch>> {
    let zeroed = py.detach(|| null_slots::zeroed(&rows.0));
    zeroed.map(PyArrowType).map_err(|error| PyValueError::new_err(error.to_string()))
}

pub fn register(module: &Bound<'_, PyModule>) -> PyResult<()> {
    module.add_function(wrap_pyfunction!(schemas, module)?)?;
    module.add_function(wrap_pyfunction!(zero_nulls, module)?)
}
