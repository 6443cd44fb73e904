//! Collects interval rows into record batches.

use std::sync::Arc;

use arrow_array::builder::{Int64Builder, ListBuilder};
use arrow_array::{ArrayRef, RecordBatch};
use arrow_schema::{ArrowError, DataType, Field, Schema, SchemaRef};

use crate::chunk::Output;
use crate::columns::{Column as Numbers, Words};

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
    /// VARCHAR.
    Text(&'static str),
}

enum Column {
    Int(Numbers<i32>),
    Long(Numbers<i64>),
    Flag(Numbers<bool>),
    Longs(ListBuilder<Int64Builder>),
    Text(Words),
}

impl Column {
    /// An empty column for a type of the schema; `None` if no interval has such a column.
    fn of(kind: &DataType) -> Option<Self> {
        Some(match kind {
            DataType::Int32 => Self::Int(Numbers::default()),
            DataType::Int64 => Self::Long(Numbers::default()),
            DataType::Boolean => Self::Flag(Numbers::default()),
            DataType::Utf8 => Self::Text(Words::default()),
            DataType::List(_) => Self::Longs(ListBuilder::new(Int64Builder::new())),
            _ => return None,
        })
    }

    /// An empty column of the same type, with room for a batch.
    fn empty(&self) -> Self {
        match self {
            Self::Int(_) => Self::Int(Numbers::within(Vec::with_capacity(BATCH))),
            Self::Long(_) => Self::Long(Numbers::within(Vec::with_capacity(BATCH))),
            Self::Flag(_) => Self::Flag(Numbers::within(Vec::with_capacity(BATCH))),
            Self::Longs(_) => Self::Longs(ListBuilder::new(Int64Builder::new())),
            Self::Text(_) => Self::Text(Words::default()),
        }
    }

    fn array(self) -> Result<ArrayRef, ArrowError> {
        Ok(match self {
            Self::Int(column) => column.array(),
            Self::Long(column) => column.array(),
            Self::Flag(column) => column.array(),
            Self::Longs(mut column) => Arc::new(column.finish()),
            Self::Text(column) => column.array()?,
        })
    }
}

/// One interval table.
pub struct Table {
    name: &'static str,
    schema: SchemaRef,
    columns: Vec<Column>,
    rows: usize,
    /// Rows of a batch.
    most: usize,
    /// The columns of batches that are full: DuckDB stores each as it is, without a copy.
    full: Vec<Vec<Column>>,
}

impl Table {
    /// A table as declared in `queries/schema/`, in batches.
    pub fn new(name: &'static str) -> Result<Self, ArrowError> {
        Self::of(name, BATCH)
    }

    /// The same in one batch, for few rows.
    pub fn whole(name: &'static str) -> Result<Self, ArrowError> {
        Self::of(name, usize::MAX)
    }

    fn of(name: &'static str, most: usize) -> Result<Self, ArrowError> {
        let schema = crate::schema::table(name)
            .ok_or_else(|| ArrowError::SchemaError(format!("table {name} is not declared")))?;
        let columns = columns_of(&schema)?;
        Ok(Self { name, schema, columns, rows: 0, most, full: Vec::new() })
    }

    /// Appends a row, with values in the table's column order.
    #[inline]
    pub fn push(&mut self, values: &[Value<'_>]) {
        debug_assert_eq!(values.len(), self.columns.len(), "{}", self.name);
        for (column, value) in self.columns.iter_mut().zip(values) {
            match (column, *value) {
                (Column::Int(column), Value::Int(value)) => column.push(value),
                (Column::Int(column), Value::OptInt(value)) => column.push_option(value),
                (Column::Long(column), Value::Long(value)) => column.push(value),
                (Column::Long(column), Value::OptLong(value)) => column.push_option(value),
                (Column::Flag(column), Value::Flag(value)) => column.push(value),
                (Column::Longs(column), Value::Longs(values)) => {
                    column.values().append_slice(values);
                    column.append(true);
                }
                (Column::Text(column), Value::Text(value)) => column.push(Some(value)),
                (_, value) => debug_assert!(false, "{}: {value:?} in a foreign column", self.name),
            }
        }
        self.rows += 1;
        if self.rows >= self.most {
            self.finish();
        }
    }

    fn finish(&mut self) {
        let empty = self.columns.iter().map(Column::empty).collect();
        self.full.push(std::mem::replace(&mut self.columns, empty));
        self.rows = 0;
    }

    /// Full batches; with `all`, also one that is partly filled.
    #[inline]
    pub fn take(&mut self, all: bool, into: &mut Vec<Output>) -> Result<(), ArrowError> {
        if all && self.rows > 0 {
            self.finish();
        }
        for columns in self.full.drain(..) {
            let arrays = columns.into_iter().map(Column::array).collect::<Result<Vec<_>, _>>()?;
            // Texts have few distinct values and are passed on as a dictionary.
            let fields = self.schema.fields().iter().zip(&arrays).map(|(field, array)| {
                Field::new(field.name(), array.data_type().clone(), field.is_nullable())
            });
            let schema = Arc::new(Schema::new(fields.collect::<Vec<_>>()));
            into.push(Output { table: self.name, batch: RecordBatch::try_new(schema, arrays)? });
        }
        Ok(())
    }

    /// The batch of a `whole` table, if it has rows.
    pub fn last(mut self) -> Result<Option<Output>, ArrowError> {
        let mut found = Vec::new();
        self.take(true, &mut found)?;
        Ok(found.pop())
    }
}

fn columns_of(schema: &SchemaRef) -> Result<Vec<Column>, ArrowError> {
    let column = |field: &Arc<Field>| {
        Column::of(field.data_type()).ok_or_else(|| {
            ArrowError::SchemaError(format!(
                "no interval has a column of type {}",
                field.data_type()
            ))
        })
    };
    schema.fields().iter().map(column).collect()
}
