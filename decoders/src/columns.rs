//! Columns that grow row by row and become Arrow arrays.

use std::cell::RefCell;
use std::collections::HashMap;
use std::sync::Arc;

use arrow_array::types::UInt8Type;
use arrow_array::{
    Array, ArrayRef, BooleanArray, DictionaryArray, Int32Array, Int64Array, RecordBatch,
    StringArray, UInt8Array, new_null_array,
};
use arrow_buffer::{BooleanBuffer, BooleanBufferBuilder, Buffer, NullBuffer, ScalarBuffer};

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

    /// Adds known values one by one.
    #[inline]
    pub(crate) fn extend_with(&mut self, values: impl ExactSizeIterator<Item = T>) {
        self.values.extend(values);
    }

    /// Rows so far.
    pub(crate) fn len(&self) -> usize {
        self.values.len()
    }

    /// All values; those that are unknown are zero.
    pub(crate) fn values(&self) -> &[T] {
        &self.values
    }

    /// A value; `None`: it is unknown, or there is no such row.
    pub(crate) fn get(&self, row: usize) -> Option<T> {
        let known = self.unknown.binary_search(&(row as u32)).is_err();
        self.values.get(row).copied().filter(|_| known)
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

    /// The same; NULL where `known` says no.
    pub(crate) fn array_where(self, shelf: &Shelf<i64>, known: Bits) -> ArrayRef {
        Arc::new(Int64Array::new(shelf.lend(self.values), known.nulls()))
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

    /// The same; NULL where `known` says no.
    pub(crate) fn array_where(self, shelf: &Shelf<i32>, known: Bits) -> ArrayRef {
        Arc::new(Int32Array::new(shelf.lend(self.values), known.nulls()))
    }
}

impl Column<bool> {
    /// As `Boolean`.
    pub(crate) fn array(self) -> ArrayRef {
        let nulls = self.nulls();
        Arc::new(BooleanArray::new(BooleanBuffer::from(self.values), nulls))
    }
}

impl Column<bool> {
    /// As `Boolean`; the memory goes back to the shelf.
    pub(crate) fn array_from(self, shelf: &Shelf<bool>) -> ArrayRef {
        let nulls = self.nulls();
        let values = BooleanBuffer::from(&*self.values);
        shelf.put(self.values);
        Arc::new(BooleanArray::new(values, nulls))
    }
}

/// Flags, a bit each.
#[derive(Debug, Default)]
pub(crate) struct Bits {
    words: Vec<u64>,
    len: usize,
}

/// Bits of a word.
const WORD: usize = 64;

impl Bits {
    /// Adds flags.
    #[inline]
    pub(crate) fn extend(&mut self, mut flags: impl ExactSizeIterator<Item = bool>) {
        while flags.len() > 0 {
            let free = WORD - self.len % WORD;
            let fresh = free.min(flags.len());
            let mut word = 0;
            for (bit, flag) in flags.by_ref().take(fresh).enumerate() {
                word |= u64::from(flag) << bit;
            }
            match self.words.last_mut().filter(|_| free < WORD) {
                Some(last) => *last |= word << (WORD - free),
                None => self.words.push(word),
            }
            self.len += fresh;
        }
    }

    /// Whether a flag is set.
    pub(crate) fn has(&self, row: usize) -> bool {
        self.words.get(row / WORD).is_some_and(|word| word >> (row % WORD) & 1 != 0)
    }

    /// Sets a flag that is there.
    pub(crate) fn set(&mut self, row: usize) {
        if let Some(word) = self.words.get_mut(row / WORD) {
            *word |= 1 << (row % WORD);
        }
    }

    fn buffer(self) -> BooleanBuffer {
        BooleanBuffer::new(Buffer::from_vec(self.words), 0, self.len)
    }

    /// As `Boolean`.
    pub(crate) fn array(self) -> ArrayRef {
        Arc::new(BooleanArray::new(self.buffer(), None))
    }

    fn nulls(self) -> Option<NullBuffer> {
        Some(NullBuffer::new(self.buffer())).filter(|nulls| nulls.null_count() > 0)
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

    /// A word; `None`: it is unknown, or there is no such row.
    pub(crate) fn get(&self, row: usize) -> Option<&str> {
        self.words.get(usize::from(self.keys.get(row)?)).map(String::as_str)
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
    fn bits_come_out_as_they_went_in_over_the_borders_of_words() {
        for parts in [vec![0], vec![1], vec![63, 1, 1], vec![64, 64], vec![10, 200, 3, 0, 61]] {
            let mut bits = Bits::default();
            let mut all = Vec::new();
            for part in parts {
                let flags: Vec<bool> =
                    (0..part).map(|n| (n * 7 + all.len()).is_multiple_of(3)).collect();
                bits.extend(flags.iter().copied());
                all.extend(flags);
            }
            if all.len() > 1 && !all[1] {
                bits.set(1);
                all[1] = true;
            }
            assert!((0..all.len()).all(|row| bits.has(row) == all[row]));
            assert_eq!(bits.array().as_ref(), &BooleanArray::from(all) as &dyn Array);
        }
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
