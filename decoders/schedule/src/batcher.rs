//! Assembles columns into batches of the declared tables.

use std::cell::RefCell;
use std::collections::HashMap;
use std::sync::Arc;

use arrow_array::{Array, ArrayRef, Int64Array, RecordBatch, new_null_array};
use arrow_schema::ArrowError;

use crate::columns::{Column, Named, texts};
use crate::schema;

/// Makes batches in the declared schemas. Batches share columns that repeat one value.
#[derive(Debug)]
pub struct Batcher {
    trace_id: i64,
    numbers: RefCell<Int64Array>,
    unknown: RefCell<HashMap<arrow_schema::DataType, ArrayRef>>,
}

impl Batcher {
    /// A batcher for one recording.
    pub fn new(trace_id: i64) -> Self {
        Self {
            trace_id,
            numbers: RefCell::new(Int64Array::from(Vec::<i64>::new())),
            unknown: RefCell::default(),
        }
    }

    /// Number of the recording.
    pub fn trace_id(&self) -> i64 {
        self.trace_id
    }

    fn trace_column(&self, rows: usize) -> ArrayRef {
        let mut numbers = self.numbers.borrow_mut();
        if numbers.len() < rows {
            *numbers = Int64Array::from(vec![self.trace_id; rows]);
        }
        Arc::new(numbers.slice(0, rows))
    }

    fn null_column(&self, kind: &arrow_schema::DataType, rows: usize) -> ArrayRef {
        let mut unknown = self.unknown.borrow_mut();
        let known = unknown.entry(kind.clone()).or_insert_with(|| new_null_array(kind, rows));
        if known.len() < rows {
            *known = new_null_array(kind, rows);
        }
        known.slice(0, rows)
    }

    /// A batch of a declared table; missing columns are NULL.
    pub fn batch(
        &self,
        table: &str,
        rows: usize,
        columns: Vec<Named>,
    ) -> Result<RecordBatch, ArrowError> {
        let schema = schema::table(table)
            .ok_or_else(|| ArrowError::SchemaError(format!("table {table} is not declared")))?;
        let arrays = schema
            .fields()
            .iter()
            .map(|field| {
                let given = columns.iter().find(|(name, _)| name == field.name());
                match given {
                    Some((_, array)) => Arc::clone(array),
                    None if field.name() == "trace_id" => self.trace_column(rows),
                    None => self.null_column(field.data_type(), rows),
                }
            })
            .collect();
        RecordBatch::try_new(schema, arrays)
    }

    /// Rows of `problem`: location, description, count.
    pub fn problems<'p>(
        &self,
        rows: impl Iterator<Item = (&'p str, &'p str, i64)> + Clone,
    ) -> Result<RecordBatch, ArrowError> {
        let mut count = Column::default();
        rows.clone().for_each(|(_, _, n)| count.push(n));
        let columns = vec![
            ("place", texts(rows.clone().map(|(place, _, _)| Some(place)))),
            ("what", texts(rows.map(|(_, what, _)| Some(what)))),
        ];
        let length = count.len();
        let columns = columns.into_iter().chain([("count", count.array())]).collect();
        self.batch("problem", length, columns)
    }

    /// One row of `problem`.
    ///
    /// # Errors
    /// Fails only if a value contradicts the schema.
    pub fn problem(&self, place: &str, what: &str, count: i64) -> Result<RecordBatch, ArrowError> {
        self.problems([(place, what, count)].into_iter())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn batch_has_the_declared_columns_and_null_for_missing_ones() {
        let mut ts = Column::default();
        ts.push(7_i64);
        let mut cpu = Column::default();
        cpu.push(1_i32);
        let mut khz = Column::default();
        khz.push(2_000_000_i64);
        let columns = vec![("ts", ts.array()), ("cpu", cpu.array()), ("khz", khz.array())];
        let batch = Batcher::new(3).batch("cpu_frequency", 1, columns).expect("fits");
        assert_eq!(batch.num_columns(), 4);
        let trace: &Int64Array = batch.column(0).as_any().downcast_ref().expect("trace_id");
        assert_eq!(trace.values(), &[3]);
    }
}
