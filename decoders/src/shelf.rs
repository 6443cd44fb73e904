//! Memory of columns that comes back when their batch is dropped.
//!
//! Fresh memory costs a page fault every 4 KiB; the frames of a recording are all about alike.

use std::sync::{Arc, Mutex, PoisonError, Weak};

use arrow_array::types::UInt8Type;
use arrow_array::{Array, ArrayRef, DictionaryArray, StringArray, UInt8Array};
use arrow_buffer::{ArrowNativeType, Buffer, ScalarBuffer, ToByteSlice};
use bytes::Bytes;

use crate::columns::internal;
use crate::error::DecodeError;

/// Columns that are kept at most.
const PLACES: usize = 64;

type Rack<T> = Mutex<Vec<Vec<T>>>;

/// Empty columns of one type, used ones first.
#[derive(Clone, Debug)]
pub(crate) struct Shelf<T>(Arc<Rack<T>>);

impl<T> Default for Shelf<T> {
    fn default() -> Self {
        Self(Arc::default())
    }
}

impl<T> Shelf<T> {
    /// An empty column.
    pub(crate) fn take(&self) -> Vec<T> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).pop().unwrap_or_default()
    }

    /// Takes a column back.
    pub(crate) fn put(&self, values: Vec<T>) {
        put(&self.0, values);
    }
}

impl<T: ArrowNativeType> Shelf<T> {
    /// The values of a finished column; its memory comes back once nobody reads them any more.
    pub(crate) fn lend(&self, values: Vec<T>) -> ScalarBuffer<T> {
        let rows = values.len();
        let lent = Lent { values, home: Arc::downgrade(&self.0) };
        ScalarBuffer::new(Buffer::from(Bytes::from_owner(lent)), 0, rows)
    }
}

fn put<T>(rack: &Rack<T>, mut values: Vec<T>) {
    values.clear();
    let mut rack = rack.lock().unwrap_or_else(PoisonError::into_inner);
    if rack.len() < PLACES {
        rack.push(values);
    }
}

struct Lent<T> {
    values: Vec<T>,
    home: Weak<Rack<T>>,
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

/// Columns that have one word in all rows; every batch has a part of them.
#[derive(Clone, Debug, Default)]
pub(crate) struct Repeated(Arc<Mutex<Vec<(&'static str, ArrayRef)>>>);

impl Repeated {
    /// A word, so many times, as `Dictionary(UInt8, Utf8)`.
    pub(crate) fn column(&self, word: &'static str, rows: usize) -> Result<ArrayRef, DecodeError> {
        let mut columns = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let known = columns.iter().find(|(known, array)| *known == word && array.len() >= rows);
        if let Some((_, array)) = known {
            return Ok(array.slice(0, rows));
        }
        let keys = UInt8Array::from(vec![0; rows]);
        let words = Arc::new(StringArray::from(vec![word]));
        let array = DictionaryArray::<UInt8Type>::try_new(keys, words).map_err(internal)?;
        columns.retain(|(known, _)| *known != word);
        columns.push((word, Arc::new(array.clone())));
        Ok(Arc::new(array))
    }
}

/// The shelves of a reader.
#[derive(Clone, Debug, Default)]
pub(crate) struct Shelves {
    pub(crate) repeated: Repeated,
    pub(crate) int64: Shelf<i64>,
    pub(crate) int32: Shelf<i32>,
    pub(crate) uint8: Shelf<u8>,
    pub(crate) boolean: Shelf<bool>,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn memory_comes_back_when_the_last_reader_is_gone_and_not_before() {
        let shelf = Shelf::<i64>::default();
        let mut column = shelf.take();
        column.extend([1, 2, 3]);
        let place = column.as_ptr();
        let read = shelf.lend(column);
        let also = read.clone();
        drop(read);
        let other = shelf.take();
        assert_ne!(other.as_ptr(), place);
        assert_eq!(&also[..], [1, 2, 3]);
        drop(also);
        let again = shelf.take();
        assert_eq!((again.as_ptr(), again.len()), (place, 0));
    }

    #[test]
    fn values_outlive_their_shelf() {
        let shelf = Shelf::<i32>::default();
        let read = shelf.lend(vec![7, 8]);
        drop(shelf);
        assert_eq!(&read[..], [7, 8]);
    }
}
