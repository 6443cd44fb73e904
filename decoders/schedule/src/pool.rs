//! Column memory that returns for reuse when its batch is dropped.
//!
//! Fresh memory costs a page fault every 4 KiB, and the chunks of a recording are of similar size.

use std::sync::{Arc, Mutex, PoisonError, Weak};

use arrow_array::types::UInt8Type;
use arrow_array::{Array, ArrayRef, DictionaryArray, StringArray, UInt8Array};
use arrow_buffer::{ArrowNativeType, Buffer, ScalarBuffer, ToByteSlice};
use arrow_schema::ArrowError;
use bytes::Bytes;

/// Maximum number of columns kept.
const PLACES: usize = 64;

type FreeList<T> = Mutex<Vec<Vec<T>>>;

/// Empty columns of one type; used ones are handed out first.
#[derive(Clone, Debug)]
pub struct Pool<T>(Arc<FreeList<T>>);

impl<T> Default for Pool<T> {
    fn default() -> Self {
        Self(Arc::default())
    }
}

impl<T> Pool<T> {
    /// An empty column.
    pub fn take(&self) -> Vec<T> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).pop().unwrap_or_default()
    }

    /// Returns a column to the pool.
    pub fn put(&self, values: Vec<T>) {
        put(&self.0, values);
    }
}

impl<T: ArrowNativeType> Pool<T> {
    /// The values of a finished column. Their memory returns to the pool once nobody reads them.
    pub fn lend(&self, values: Vec<T>) -> ScalarBuffer<T> {
        let rows = values.len();
        let lent = Lent { values, home: Arc::downgrade(&self.0) };
        ScalarBuffer::new(Buffer::from(Bytes::from_owner(lent)), 0, rows)
    }
}

fn put<T>(free: &FreeList<T>, mut values: Vec<T>) {
    values.clear();
    let mut free = free.lock().unwrap_or_else(PoisonError::into_inner);
    if free.len() < PLACES {
        free.push(values);
    }
}

struct Lent<T> {
    values: Vec<T>,
    home: Weak<FreeList<T>>,
}

impl<T: ArrowNativeType> AsRef<[u8]> for Lent<T> {
    fn as_ref(&self) -> &[u8] {
        self.values.to_byte_slice()
    }
}

impl<T> Drop for Lent<T> {
    fn drop(&mut self) {
        if let Some(home) = self.home.upgrade() {
            put(&home, std::mem::take(&mut self.values));
        }
    }
}

/// Columns with one word in all rows; each batch gets a slice of them.
#[derive(Clone, Debug, Default)]
pub struct Repeated(Arc<Mutex<Vec<(&'static str, ArrayRef)>>>);

impl Repeated {
    /// A word repeated `rows` times, as `Dictionary(UInt8, Utf8)`.
    pub fn column(&self, word: &'static str, rows: usize) -> Result<ArrayRef, ArrowError> {
        let mut columns = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let known = columns.iter().find(|(known, array)| *known == word && array.len() >= rows);
        if let Some((_, array)) = known {
            return Ok(array.slice(0, rows));
        }
        let keys = UInt8Array::from(vec![0; rows]);
        let words = Arc::new(StringArray::from(vec![word]));
        let array = DictionaryArray::<UInt8Type>::try_new(keys, words)?;
        columns.retain(|(known, _)| *known != word);
        columns.push((word, Arc::new(array.clone())));
        Ok(Arc::new(array))
    }
}

/// The pools of a reader.
#[derive(Clone, Debug, Default)]
pub struct Pools {
    /// Columns of one word.
    pub repeated: Repeated,
    /// Columns of `BIGINT`.
    pub int64: Pool<i64>,
    /// Columns of `INTEGER`.
    pub int32: Pool<i32>,
    /// Keys of columns with few different words.
    pub uint8: Pool<u8>,
    /// Columns of `BOOLEAN`.
    pub boolean: Pool<bool>,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn memory_returns_once_the_last_reader_is_gone() {
        let pool = Pool::<i64>::default();
        let mut column = pool.take();
        column.extend([1, 2, 3]);
        let place = column.as_ptr();
        let read = pool.lend(column);
        let also = read.clone();
        drop(read);
        let other = pool.take();
        assert_ne!(other.as_ptr(), place);
        assert_eq!(&also[..], [1, 2, 3]);
        drop(also);
        let again = pool.take();
        assert_eq!((again.as_ptr(), again.len()), (place, 0));
    }

    #[test]
    fn values_outlive_their_pool() {
        let pool = Pool::<i32>::default();
        let read = pool.lend(vec![7, 8]);
        drop(pool);
        assert_eq!(&read[..], [7, 8]);
    }
}
