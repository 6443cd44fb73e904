//! Columns that grow row by row and become Arrow arrays.

use std::cell::RefCell;
use std::collections::HashMap;
use std::sync::Arc;

use arrow_array::types::UInt8Type;
use arrow_array::{
    Array, ArrayRef, BooleanArray, DictionaryArray, Int32Array, Int64Array, RecordBatch,
    StringArray, UInt8Array, new_null_array,
};
use arrow_buffer::{BooleanBuffer, BooleanBufferBuilder, NullBuffer, ScalarBuffer};

use crate::error::DecodeError;
use crate::schema;
use crate::shelf::Shelf;

/// Numbers, some of them unknown.
#[derive(Debug)]
pub(crate) struct Column<T> {
    values: Vec<T>,
    unknown: Vec<u32>,
}

impl<T> Default for Column<T> {
    fn default() -> Self {
        Self { values: Vec::new(), unknown: Vec::new() }
    }
}

impl<T: Copy + Default> Column<T> {
    /// With room for that many rows.
    pub(crate) fn with_capacity(rows: usize) -> Self {
        Self::within(Vec::with_capacity(rows))
    }

    /// Empty, in memory that may have been used before.
    pub(crate) fn within(values: Vec<T>) -> Self {
        Self { values, unknown: Vec::new() }
    }

    /// A known value.
    #[inline]
    pub(crate) fn push(&mut self, value: T) {
        self.values.push(value);
    }

    /// A value or NULL.
    #[inline]
    pub(crate) fn push_option(&mut self, value: Option<T>) {
        if value.is_none() {
            self.unknown.push(self.values.len() as u32);
        }
        self.values.push(value.unwrap_or_default());
    }

    /// Adds known values.
    pub(crate) fn extend(&mut self, values: &[T]) {
        self.values.extend_from_slice(values);
    }

    /// The value that gets this row's number will be NULL; rows are told of in order.
    #[inline(never)]
    pub(crate) fn unknown_at(&mut self, row: usize) {
        self.unknown.push(row as u32);
    }

    /// Rows so far.
    pub(crate) fn len(&self) -> usize {
        self.values.len()
    }

    /// Whether a row holds NULL.
    pub(crate) fn is_unknown(&self, row: usize) -> bool {
        self.unknown.binary_search(&(row as u32)).is_ok()
    }

    /// All values; those that are unknown are zero.
    pub(crate) fn values(&self) -> &[T] {
        &self.values
    }

    /// Replaces a value, known or not; rows that are not there are left alone.
    pub(crate) fn set(&mut self, row: usize, value: T) {
        if let Some(slot) = self.values.get_mut(row) {
            *slot = value;
            if let Ok(at) = self.unknown.binary_search(&(row as u32)) {
                self.unknown.remove(at);
            }
        }
    }

    fn nulls(&self) -> Option<NullBuffer> {
        if self.unknown.is_empty() {
            return None;
        }
        if self.unknown.len() == self.values.len() {
            return Some(NullBuffer::new_null(self.values.len()));
        }
        let mut known = BooleanBufferBuilder::new(self.values.len());
        known.append_n(self.values.len(), true);
        for row in &self.unknown {
            known.set_bit(*row as usize, false);
        }
        Some(NullBuffer::new(known.finish()))
    }
}

impl Column<i64> {
    /// As `Int64`.
    pub(crate) fn array(self) -> ArrayRef {
        let nulls = self.nulls();
        Arc::new(Int64Array::new(ScalarBuffer::from(self.values), nulls))
    }

    /// As `Int64`, in memory that comes back to the shelf.
    pub(crate) fn array_from(self, shelf: &Shelf<i64>) -> ArrayRef {
        let nulls = self.nulls();
        Arc::new(Int64Array::new(shelf.lend(self.values), nulls))
    }
}

impl Column<i32> {
    /// As `Int32`.
    pub(crate) fn array(self) -> ArrayRef {
        let nulls = self.nulls();
        Arc::new(Int32Array::new(ScalarBuffer::from(self.values), nulls))
    }

    /// As `Int32`, in memory that comes back to the shelf.
    pub(crate) fn array_from(self, shelf: &Shelf<i32>) -> ArrayRef {
        let nulls = self.nulls();
        Arc::new(Int32Array::new(shelf.lend(self.values), nulls))
    }
}

impl Column<bool> {
    /// As `Boolean`.
    pub(crate) fn array(self) -> ArrayRef {
        let nulls = self.nulls();
        Arc::new(BooleanArray::new(BooleanBuffer::from(self.values), nulls))
    }

    /// As `Boolean`; the memory goes back to the shelf.
    pub(crate) fn array_from(self, shelf: &Shelf<bool>) -> ArrayRef {
        let nulls = self.nulls();
        let values = BooleanBuffer::from(&*self.values);
        shelf.put(self.values);
        Arc::new(BooleanArray::new(values, nulls))
    }
}

impl Column<u8> {
    /// Numbers of the given words as `Dictionary(UInt8, Utf8)`, in memory that comes back.
    pub(crate) fn words_from(
        self,
        shelf: &Shelf<u8>,
        words: &[&str],
    ) -> Result<ArrayRef, DecodeError> {
        let nulls = self.nulls();
        let keys = UInt8Array::new(shelf.lend(self.values), nulls);
        let words = Arc::new(StringArray::from(words.to_vec()));
        let array = DictionaryArray::<UInt8Type>::try_new(keys, words).map_err(internal)?;
        Ok(Arc::new(array))
    }
}

/// Texts of which there are few different ones.
#[derive(Debug, Default)]
pub(crate) struct Words {
    keys: Column<u8>,
    words: Vec<String>,
}

impl Words {
    /// A word by its number in the list that [`Words::array_of`] gets.
    #[inline]
    pub(crate) fn push_number(&mut self, number: u8) {
        self.keys.push(number);
    }

    /// As [`Words::array`], of rows pushed by number.
    pub(crate) fn array_of(mut self, words: &[&str]) -> Result<ArrayRef, DecodeError> {
        self.words = words.iter().map(|word| (*word).to_owned()).collect();
        self.array()
    }

    /// Number of a word in this column; `None` once there are too many different ones.
    pub(crate) fn key(&mut self, word: &str) -> Option<u8> {
        if let Some(at) = self.words.iter().position(|known| known == word) {
            return u8::try_from(at).ok();
        }
        let key = u8::try_from(self.words.len()).ok()?;
        self.words.push(word.to_owned());
        Some(key)
    }

    /// A word or NULL.
    #[inline]
    pub(crate) fn push(&mut self, word: Option<&str>) {
        let key = word.and_then(|word| self.key(word));
        self.keys.push_option(key);
    }

    /// As `Dictionary(UInt8, Utf8)`.
    pub(crate) fn array(mut self) -> Result<ArrayRef, DecodeError> {
        let nulls = self.keys.nulls();
        if self.words.is_empty() {
            self.words.push(String::new());
        }
        let keys = UInt8Array::new(ScalarBuffer::from(self.keys.values), nulls);
        let words = StringArray::from(self.words);
        let array =
            DictionaryArray::<UInt8Type>::try_new(keys, Arc::new(words)).map_err(internal)?;
        Ok(Arc::new(array))
    }
}

/// Texts, each of its own.
pub(crate) fn texts<S: AsRef<str>>(rows: impl Iterator<Item = Option<S>>) -> ArrayRef {
    Arc::new(rows.collect::<StringArray>())
}

/// Column name and array.
pub(crate) type Named = (&'static str, ArrayRef);

/// Makes batches in the declared schemas; columns that repeat one value are shared by all.
#[derive(Debug)]
pub struct Batcher {
    trace_id: i64,
    numbers: RefCell<Int64Array>,
    unknown: RefCell<HashMap<arrow_schema::DataType, ArrayRef>>,
}

impl Batcher {
    /// For one recording.
    pub fn new(trace_id: i64) -> Self {
        Self {
            trace_id,
            numbers: RefCell::new(Int64Array::from(Vec::<i64>::new())),
            unknown: RefCell::default(),
        }
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

    /// A batch of a declared table; columns that are not given are NULL.
    pub(crate) fn batch(
        &self,
        table: &str,
        rows: usize,
        columns: Vec<Named>,
    ) -> Result<RecordBatch, DecodeError> {
        let schema = schema::table(table).ok_or_else(|| DecodeError::Internal {
            what: format!("table {table} is not declared"),
        })?;
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
        RecordBatch::try_new(schema, arrays).map_err(internal)
    }

    /// Rows of `problem`: place, what, count.
    pub(crate) fn problems<'p>(
        &self,
        rows: impl Iterator<Item = (&'p str, &'p str, i64)> + Clone,
    ) -> Result<RecordBatch, DecodeError> {
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
    /// Only what contradicts the schema.
    pub fn problem(&self, place: &str, what: &str, count: i64) -> Result<RecordBatch, DecodeError> {
        self.problems([(place, what, count)].into_iter())
    }
}

/// An array that does not fit its table: never a matter of the recording.
pub(crate) fn internal(error: arrow_schema::ArrowError) -> DecodeError {
    DecodeError::Internal { what: error.to_string() }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_batch_has_the_declared_columns_and_null_where_nothing_was_given() {
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

    #[test]
    fn an_unknown_value_can_be_filled_in_later() {
        let mut column = Column::default();
        column.push_option(None::<i64>);
        column.push_option(None);
        column.set(1, 5);
        let array = column.array();
        assert!(array.is_null(0));
        assert!(array.is_valid(1));
    }

    #[test]
    fn words_beyond_the_two_hundred_and_fifty_sixth_are_unknown() {
        let mut words = Words::default();
        for number in 0..300 {
            words.push(Some(&format!("w{number}")));
        }
        let array = words.array().expect("built");
        assert_eq!(array.null_count(), 44);
    }
}
