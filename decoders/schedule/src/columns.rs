//! Columns that grow row by row and become Arrow arrays.

use std::sync::Arc;

use arrow_array::types::UInt8Type;
use arrow_array::{
    ArrayRef, BooleanArray, DictionaryArray, Int32Array, Int64Array, StringArray, UInt8Array,
};
use arrow_buffer::{BooleanBuffer, BooleanBufferBuilder, Buffer, NullBuffer, ScalarBuffer};
use arrow_schema::ArrowError;

use crate::pool::Pool;

/// Numbers with NULLs.
#[derive(Debug)]
pub struct Column<T> {
    values: Vec<T>,
    unknown: Vec<u32>,
}

impl<T> Default for Column<T> {
    fn default() -> Self {
        Self { values: Vec::new(), unknown: Vec::new() }
    }
}

impl<T: Copy + Default> Column<T> {
    /// An empty column that reuses the given memory.
    pub fn within(values: Vec<T>) -> Self {
        Self { values, unknown: Vec::new() }
    }

    /// Appends a known value.
    #[inline]
    pub fn push(&mut self, value: T) {
        self.values.push(value);
    }

    /// Appends a value or NULL.
    #[inline]
    pub fn push_option(&mut self, value: Option<T>) {
        if value.is_none() {
            self.unknown.push(self.values.len() as u32);
        }
        self.values.push(value.unwrap_or_default());
    }

    /// Appends known values.
    pub fn extend(&mut self, values: &[T]) {
        self.values.extend_from_slice(values);
    }

    /// Makes the value with this row number NULL. Call it in row order.
    #[inline(never)]
    pub fn unknown_at(&mut self, row: usize) {
        self.unknown.push(row as u32);
    }

    /// Appends known values from an iterator.
    #[inline]
    pub fn extend_with(&mut self, values: impl ExactSizeIterator<Item = T>) {
        self.values.extend(values);
    }

    /// Number of rows.
    pub fn len(&self) -> usize {
        self.values.len()
    }

    /// Whether the column is empty.
    pub fn is_empty(&self) -> bool {
        self.values.is_empty()
    }

    /// All values; unknown ones are zero.
    pub fn values(&self) -> &[T] {
        &self.values
    }

    /// The value of a row; `None` if it is unknown or the row does not exist.
    pub(crate) fn get(&self, row: usize) -> Option<T> {
        let known = self.unknown.binary_search(&(row as u32)).is_err();
        self.values.get(row).copied().filter(|_| known)
    }

    /// Replaces a value, known or unknown. Ignores rows that do not exist.
    pub fn set(&mut self, row: usize, value: T) {
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
    pub fn array(self) -> ArrayRef {
        let nulls = self.nulls();
        Arc::new(Int64Array::new(ScalarBuffer::from(self.values), nulls))
    }

    /// As `Int64`, in memory that returns to the pool.
    pub fn array_from(self, pool: &Pool<i64>) -> ArrayRef {
        let nulls = self.nulls();
        Arc::new(Int64Array::new(pool.lend(self.values), nulls))
    }

    /// As `Int64`, NULL where `known` is false.
    pub fn array_where(self, pool: &Pool<i64>, known: Bits) -> ArrayRef {
        Arc::new(Int64Array::new(pool.lend(self.values), known.nulls()))
    }
}

impl Column<i32> {
    /// As `Int32`.
    pub fn array(self) -> ArrayRef {
        let nulls = self.nulls();
        Arc::new(Int32Array::new(ScalarBuffer::from(self.values), nulls))
    }

    /// As `Int32`, in memory that returns to the pool.
    pub fn array_from(self, pool: &Pool<i32>) -> ArrayRef {
        let nulls = self.nulls();
        Arc::new(Int32Array::new(pool.lend(self.values), nulls))
    }

    /// As `Int32`, NULL where `known` is false.
    pub fn array_where(self, pool: &Pool<i32>, known: Bits) -> ArrayRef {
        Arc::new(Int32Array::new(pool.lend(self.values), known.nulls()))
    }
}

impl Column<bool> {
    /// As `Boolean`.
    pub fn array(self) -> ArrayRef {
        let nulls = self.nulls();
        Arc::new(BooleanArray::new(BooleanBuffer::from(self.values), nulls))
    }
}

impl Column<bool> {
    /// As `Boolean`; the memory returns to the pool.
    pub fn array_from(self, pool: &Pool<bool>) -> ArrayRef {
        let nulls = self.nulls();
        let values = BooleanBuffer::from(&*self.values);
        pool.put(self.values);
        Arc::new(BooleanArray::new(values, nulls))
    }
}

/// Flags, one bit each.
#[derive(Debug, Default)]
pub struct Bits {
    words: Vec<u64>,
    len: usize,
}

/// Bits in a word.
const WORD: usize = 64;

impl Bits {
    /// Appends flags.
    #[inline]
    pub fn extend(&mut self, mut flags: impl ExactSizeIterator<Item = bool>) {
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
    pub fn has(&self, row: usize) -> bool {
        self.words.get(row / WORD).is_some_and(|word| word >> (row % WORD) & 1 != 0)
    }

    /// Sets an existing flag.
    pub fn set(&mut self, row: usize) {
        if let Some(word) = self.words.get_mut(row / WORD) {
            *word |= 1 << (row % WORD);
        }
    }

    fn buffer(self) -> BooleanBuffer {
        BooleanBuffer::new(Buffer::from_vec(self.words), 0, self.len)
    }

    /// As `Boolean`.
    pub fn array(self) -> ArrayRef {
        Arc::new(BooleanArray::new(self.buffer(), None))
    }

    fn nulls(self) -> Option<NullBuffer> {
        Some(NullBuffer::new(self.buffer())).filter(|nulls| nulls.null_count() > 0)
    }
}

impl Column<u8> {
    /// Indexes into `words` as `Dictionary(UInt8, Utf8)`, in memory that returns to the pool.
    pub fn words_from(self, pool: &Pool<u8>, words: &[&str]) -> Result<ArrayRef, ArrowError> {
        let nulls = self.nulls();
        let keys = UInt8Array::new(pool.lend(self.values), nulls);
        let words = Arc::new(StringArray::from(words.to_vec()));
        let array = DictionaryArray::<UInt8Type>::try_new(keys, words)?;
        Ok(Arc::new(array))
    }
}

/// Texts with few distinct values.
#[derive(Debug, Default)]
pub struct Words {
    keys: Column<u8>,
    words: Vec<String>,
}

impl Words {
    /// Index of a word in this column; `None` once the column has too many distinct words.
    pub fn key(&mut self, word: &str) -> Option<u8> {
        if let Some(at) = self.words.iter().position(|known| known == word) {
            return u8::try_from(at).ok();
        }
        let key = u8::try_from(self.words.len()).ok()?;
        self.words.push(word.to_owned());
        Some(key)
    }

    /// Appends a word or NULL.
    #[inline]
    pub fn push(&mut self, word: Option<&str>) {
        let key = word.and_then(|word| self.key(word));
        self.keys.push_option(key);
    }

    /// The word of a row; `None` if it is unknown or the row does not exist.
    pub(crate) fn get(&self, row: usize) -> Option<&str> {
        self.words.get(usize::from(self.keys.get(row)?)).map(String::as_str)
    }

    /// As `Dictionary(UInt8, Utf8)`.
    pub fn array(mut self) -> Result<ArrayRef, ArrowError> {
        let nulls = self.keys.nulls();
        if self.words.is_empty() {
            self.words.push(String::new());
        }
        let keys = UInt8Array::new(ScalarBuffer::from(self.keys.values), nulls);
        let words = StringArray::from(self.words);
        let array = DictionaryArray::<UInt8Type>::try_new(keys, Arc::new(words))?;
        Ok(Arc::new(array))
    }
}

/// Texts without a dictionary.
pub fn texts<S: AsRef<str>>(rows: impl Iterator<Item = Option<S>>) -> ArrayRef {
    Arc::new(rows.collect::<StringArray>())
}

/// Column name and array.
pub type Named = (&'static str, ArrayRef);

#[cfg(test)]
mod tests {
    use arrow_array::Array;

    use super::*;

    #[test]
    fn unknown_value_can_be_set_later() {
        let mut column = Column::default();
        column.push_option(None::<i64>);
        column.push_option(None);
        column.set(1, 5);
        let array = column.array();
        assert!(array.is_null(0));
        assert!(array.is_valid(1));
    }

    #[test]
    fn bits_survive_word_boundaries() {
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
