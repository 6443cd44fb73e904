//! Collects interval rows into record batches.

use std::sync::Arc;

use arrow_array::builder::{BooleanBuilder, Int32Builder, Int64Builder, ListBuilder};
use arrow_array::{ArrayRef, RecordBatch};
use arrow_schema::{ArrowError, DataType, SchemaRef};

use crate::chunk::Output;

/// Rows in a batch: the size of a DuckDB row group.
const BATCH: usize = 122_880;

/// A value in a row.
#[derive(Clone, Copy, Debug)]
pub enum Value<'a> {
    /// INTEGER.
    Int(i32),
    /// BIGINT.
    Long(i64),
    /// INTEGER or NULL.
    OptInt(Option<i32>),
    /// BIGINT or NULL.
    OptLong(Option<i64>),
    /// BOOLEAN.
    Flag(bool),
    /// BIGINT[].
    Longs(&'a [i64]),
}

enum Column {
    Int(Int32Builder),
    Long(Int64Builder),
    Flag(BooleanBuilder),
    Longs(ListBuilder<Int64Builder>),
}

/// One interval table.
pub struct Table {
    name: &'static str,
    schema: SchemaRef,
    columns: Vec<Column>,
    rows: usize,
}

impl Table {
    /// A table as declared in `queries/schema/`.
    pub fn new(name: &'static str) -> Result<Self, ArrowError> {
        let schema = crate::schema::table(name)
            .ok_or_else(|| ArrowError::SchemaError(format!("table {name} is not declared")))?;
        let columns = schema
            .fields()
            .iter()
            .map(|field| match field.data_type() {
                DataType::Int32 => Ok(Column::Int(Int32Builder::new())),
                DataType::Int64 => Ok(Column::Long(Int64Builder::new())),
                DataType::Boolean => Ok(Column::Flag(BooleanBuilder::new())),
                DataType::List(_) => Ok(Column::Longs(ListBuilder::new(Int64Builder::new()))),
                other => Err(ArrowError::SchemaError(format!(
                    "{name}: no interval has a column of type {other}"
                ))),
            })
            .collect::<Result<_, _>>()?;
        Ok(Self { name, schema, columns, rows: 0 })
    }

    /// Appends a row, with values in the table's column order.
    pub fn push(&mut self, values: &[Value<'_>]) {
        debug_assert_eq!(values.len(), self.columns.len(), "{}", self.name);
        for (column, value) in self.columns.iter_mut().zip(values) {
            match (column, *value) {
                (Column::Int(column), Value::Int(value)) => column.append_value(value),
                (Column::Int(column), Value::OptInt(value)) => column.append_option(value),
                (Column::Long(column), Value::Long(value)) => column.append_value(value),
                (Column::Long(column), Value::OptLong(value)) => column.append_option(value),
                (Column::Flag(column), Value::Flag(value)) => column.append_value(value),
                (Column::Longs(column), Value::Longs(values)) => {
                    column.values().append_slice(values);
                    column.append(true);
                }
                (_, value) => debug_assert!(false, "{}: {value:?} in a foreign column", self.name),
            }
        }
        self.rows += 1;
    }

    /// Whether there are enough rows for a batch.
    pub fn is_full(&self) -> bool {
        self.rows >= BATCH
    }

    /// The collected rows, if any.
    pub fn take(&mut self) -> Result<Option<Output>, ArrowError> {
        if self.rows == 0 {
            return Ok(None);
        }
        self.rows = 0;
        let arrays = self
            .columns
            .iter_mut()
            .map(|column| -> ArrayRef {
                match column {
                    Column::Int(column) => Arc::new(column.finish()),
                    Column::Long(column) => Arc::new(column.finish()),
                    Column::Flag(column) => Arc::new(column.finish()),
                    Column::Longs(column) => Arc::new(column.finish()),
                }
            })
            .collect();
        let batch = RecordBatch::try_new(self.schema.clone(), arrays)?;
        Ok(Some(Output { table: self.name, batch }))
    }
}
