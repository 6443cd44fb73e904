//! A column that grows row by row and becomes an Arrow array at once.

use arrow_array::{ArrowPrimitiveType, BooleanArray, PrimitiveArray};
use arrow_buffer::{BooleanBuffer, NullBuffer};

/// Numbers of one column; room for a whole batch is taken with the first row.
pub(super) struct Column<T: ArrowPrimitiveType> {
    values: Vec<T::Native>,
    /// One flag a row; empty while no value is missing.
    known: Vec<bool>,
    room: usize,
}

impl<T: ArrowPrimitiveType> Column<T> {
    /// An empty column that is handed out when it has about `room` rows.
    pub(super) fn of(room: usize) -> Self {
        Self { values: Vec::new(), known: Vec::new(), room }
    }

    /// Adds a value.
    #[inline]
    pub(super) fn push(&mut self, value: T::Native) {
        self.make_room();
        self.values.push(value);
        if !self.known.is_empty() {
            self.known.push(true);
        }
    }

    /// Adds a value that may be missing.
    #[inline]
    pub(super) fn push_option(&mut self, value: Option<T::Native>) {
        self.make_room();
        if value.is_none() && self.known.is_empty() {
            self.known.reserve(self.values.capacity());
            self.known.resize(self.values.len(), true);
            self.known.push(false);
        } else if !self.known.is_empty() {
            self.known.push(value.is_some());
        }
        self.values.push(value.unwrap_or_default());
    }

    #[inline]
    fn make_room(&mut self) {
        if self.values.capacity() == 0 {
            self.values.reserve(self.room);
        }
    }

    /// The rows so far; the column is empty again.
    pub(super) fn finish(&mut self) -> PrimitiveArray<T> {
        let known = std::mem::take(&mut self.known);
        let nulls = (!known.is_empty()).then(|| NullBuffer::new(BooleanBuffer::from(known)));
        PrimitiveArray::new(std::mem::take(&mut self.values).into(), nulls)
    }
}

/// Flags of one column, all of them known.
#[derive(Default)]
pub(super) struct FlagColumn(Vec<bool>);

impl FlagColumn {
    /// Adds a flag.
    #[inline]
    pub(super) fn push(&mut self, value: bool) {
        self.0.push(value);
    }

    /// The rows so far; the column is empty again.
    pub(super) fn finish(&mut self) -> BooleanArray {
        BooleanArray::new(BooleanBuffer::from(std::mem::take(&mut self.0)), None)
    }
}

#[cfg(test)]
mod tests {
    use arrow_array::types::Int64Type;
    use arrow_array::{Array, Int64Array};

    use super::*;

    #[test]
    fn values_and_gaps_come_out_as_they_went_in() {
        let mut column = Column::<Int64Type>::of(2);
        column.push(7);
        column.push_option(Some(8));
        column.push_option(None);
        column.push(9);
        column.push_option(None);
        let expected = Int64Array::from(vec![Some(7), Some(8), None, Some(9), None]);
        assert_eq!(column.finish(), expected);
        assert_eq!(column.finish().len(), 0);
        column.push_option(None);
        column.push_option(Some(1));
        assert_eq!(column.finish(), Int64Array::from(vec![None, Some(1)]));
        column.push(3);
        assert_eq!(column.finish().nulls(), None);
    }

    #[test]
    fn flags_come_out_as_they_went_in() {
        let mut column = FlagColumn::default();
        for row in 0..70 {
            column.push(row % 3 == 0);
        }
        let expected: BooleanArray = (0..70).map(|row| Some(row % 3 == 0)).collect();
        assert_eq!(column.finish(), expected);
        assert_eq!(column.finish().len(), 0);
    }
}
