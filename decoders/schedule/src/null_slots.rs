//! What an Arrow array has in memory where a row is NULL.
//!
//! DuckDB leaves there what its memory contained before, which can be parts of names. A file with
//! such bytes says more than its rows do, and is a different one each time.

use arrow_array::{RecordBatch, make_array};
use arrow_data::ArrayData;
use arrow_data::transform::MutableArrayData;
use arrow_schema::ArrowError;

/// The same rows, with zeros and empty values in memory where a row is NULL, at any depth.
pub fn zeroed(rows: &RecordBatch) -> Result<RecordBatch, ArrowError> {
    let columns = rows.columns().iter().map(|column| array(column.to_data()).map(make_array));
    RecordBatch::try_new(rows.schema(), columns.collect::<Result<_, _>>()?)
}

fn array(mut data: ArrayData) -> Result<ArrayData, ArrowError> {
    if !data.child_data().is_empty() {
        let children = data.child_data().iter().cloned().map(array).collect::<Result<_, _>>()?;
        data = data.into_builder().child_data(children).build()?;
    }
    let Some(nulls) = data.nulls().filter(|nulls| nulls.null_count() > 0) else {
        return Ok(data);
    };
    let mut made = MutableArrayData::try_new(vec![&data], true, data.len())?;
    let mut done = 0;
    for (start, end) in nulls.valid_slices() {
        made.try_extend_nulls(start - done)?;
        made.try_extend(0, start, end)?;
        done = end;
    }
    made.try_extend_nulls(data.len() - done)?;
    Ok(made.freeze())
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use arrow_array::types::Int64Type;
    use arrow_array::{
        Array, ArrayRef, BooleanArray, DictionaryArray, Int64Array, ListArray, StringArray,
        StructArray,
    };
    use arrow_buffer::{BooleanBuffer, Buffer, NullBuffer, OffsetBuffer, ScalarBuffer};
    use arrow_schema::{DataType, Field, Fields};

    use super::*;

    fn known() -> NullBuffer {
        NullBuffer::from(vec![true, false, true, false, false])
    }

    /// Numbers whose NULLs have something else in memory.
    fn numbers() -> Int64Array {
        Int64Array::new(ScalarBuffer::from(vec![5, 66, 7, 88, 99]), Some(known()))
    }

    fn through(column: ArrayRef) -> ArrayRef {
        let rows = RecordBatch::try_from_iter([("column", Arc::clone(&column))]).expect("rows");
        let found = Arc::clone(zeroed(&rows).expect("zeros").column(0));
        assert_eq!(found.as_ref(), column.as_ref());
        found
    }

    fn values(data: &ArrayData) -> &[i64] {
        &data.buffer(0)[..data.len()]
    }

    #[test]
    fn numbers_are_zero_where_they_are_null() {
        assert_eq!(values(&numbers().to_data()), [5, 66, 7, 88, 99]);
        assert_eq!(values(&through(Arc::new(numbers())).to_data()), [5, 0, 7, 0, 0]);
    }

    #[test]
    fn part_of_a_longer_column_is_zeroed_too() {
        let part = through(Arc::new(numbers().slice(1, 3)));
        assert_eq!(values(&part.to_data()), [0, 7, 0]);
    }

    #[test]
    fn column_without_nulls_is_the_same() {
        let column = Int64Array::from(vec![1, 2, 3]);
        let found = through(Arc::new(column.clone()));
        assert!(found.to_data().ptr_eq(&column.to_data()));
    }

    #[test]
    fn booleans_are_false_where_they_are_null() {
        let bits = BooleanBuffer::from(vec![true; 5]);
        let found = through(Arc::new(BooleanArray::new(bits, Some(known()))));
        let data = found.to_data();
        assert_eq!(data.buffers()[0].as_slice(), [0b0_0101]);
    }

    #[test]
    fn texts_are_empty_where_they_are_null() {
        let offsets = OffsetBuffer::<i32>::from_lengths([1, 6, 0, 0, 2]);
        let text = Buffer::from(b"asecretbc".as_slice());
        let found = through(Arc::new(StringArray::new(offsets, text, Some(known()))));
        assert_eq!(found.to_data().buffers()[1].as_slice(), b"a");
    }

    #[test]
    fn keys_of_dictionaries_are_zero_where_they_are_null() {
        let keys = Int64Array::new(ScalarBuffer::from(vec![1, 77, 0, 88, 99]), Some(known()));
        let words = Arc::new(StringArray::from(vec!["a", "b"]));
        // Keys of NULLs are out of bounds, as garbage is.
        let dictionary = DictionaryArray::<Int64Type>::try_new(keys, words).expect("a dictionary");
        let found = through(Arc::new(dictionary));
        assert_eq!(values(&found.to_data()), [1, 0, 0, 0, 0]);
    }

    #[test]
    fn fields_of_structs_and_elements_of_lists_are_zeroed() {
        let fields = Fields::from(vec![Field::new("n", DataType::Int64, true)]);
        let inner: ArrayRef = Arc::new(numbers());
        let found = through(Arc::new(StructArray::new(fields, vec![inner.clone()], None)));
        assert_eq!(values(&found.to_data().child_data()[0]), [5, 0, 7, 0, 0]);
        let item = Arc::new(Field::new_list_field(DataType::Int64, true));
        // The second list is NULL, but has the third number.
        let lengths = OffsetBuffer::<i32>::from_lengths([2, 1, 2]);
        let nulls = NullBuffer::from(vec![true, false, true]);
        let found = through(Arc::new(ListArray::new(item, lengths, inner, Some(nulls))));
        assert_eq!(values(&found.to_data().child_data()[0]), [5, 0, 0, 0]);
    }
}
