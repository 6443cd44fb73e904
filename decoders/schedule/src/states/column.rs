//! A column that grows row by row and becomes one Arrow array per batch.

use arrow_array::{ArrowPrimitiveType, BooleanArray, PrimitiveArray};
use arrow_buffer::{BooleanBuffer, NullBuffer};

use crate::pool::Pool;

/// Numbers of one column. The first row allocates room for a whole batch.
pub(super) struct Column<T: ArrowPrimitiveType> {
    values: Vec<T::Native>,
    /// One flag per row; empty while no value is missing.
    known: Vec<bool>,
    room: usize,
    pool: Pool<T::Native>,
}

impl<T: ArrowPrimitiveType> Column<T> {
    /// An empty column that hands out about `room` rows at once.
    pub(super) fn of(room: usize) -> Self {
        Self { values: Vec::new(), known: Vec::new(), room, pool: Pool::default() }
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

    /// Removes and returns up to this many first rows; later rows remain.
    pub(super) fn finish(&mut self, rows: usize) -> PrimitiveArray<T> {
        let rows = rows.min(self.values.len());
        let mut rest = self.pool.take();
        rest.extend_from_slice(&self.values[rows..]);
        let mut values = std::mem::replace(&mut self.values, rest);
        values.truncate(rows);
        let nulls = (!self.known.is_empty()).then(|| {
            let known = NullBuffer::new(BooleanBuffer::from(&self.known[..rows]));
            self.known.drain(..rows);
            known
        });
        PrimitiveArray::new(self.pool.lend(values), nulls)
    }
}

/// Flags of one column, without NULLs.
#[derive(Default)]
pub(super) struct FlagColumn(Vec<bool>);

impl FlagColumn {
    /// Adds a flag.
    #[inline]
    pub(super) fn push(&mut self, value: bool) {
        self.0.push(value);
    }

    /// Removes and returns up to this many first rows; later rows remain.
    pub(super) fn finish(&mut self, rows: usize) -> BooleanArray {
        let rows = rows.min(self.0.len());
        let flags = BooleanBuffer::from(&self.0[..rows]);
        self.0.drain(..rows);
        BooleanArray::new(flags, None)
    }
}

#[cfg(test)]
mod tests {
    use arrow_array::types::Int64Type;
    use arrow_array::{Array, Int64Array};

    use super::*;

    #[test]
    fn values_and_nulls_round_trip() {
        let mut column = Column::<Int64Type>::of(2);
        column.push(7);
        column.push_option(Some(8));
        column.push_option(None);
        column.push(9);
        column.push_option(None);
        let expected = Int64Array::from(vec![Some(7), Some(8), None, Some(9), None]);
        assert_eq!(column.finish(5), expected);
        assert_eq!(column.finish(5).len(), 0);
        column.push_option(None);
        column.push_option(Some(1));
        assert_eq!(column.finish(5), Int64Array::from(vec![None, Some(1)]));
        column.push(3);
        assert_eq!(column.finish(5).nulls(), None);
    }

    #[test]
    fn later_rows_remain() {
        let mut column = Column::<Int64Type>::of(2);
        let mut flags = FlagColumn::default();
        for row in 0..7 {
            column.push_option((row % 3 != 1).then_some(row));
            flags.push(row % 2 == 0);
        }
        let first = column.finish(4);
        assert_eq!(first, Int64Array::from(vec![Some(0), None, Some(2), Some(3)]));
        assert_eq!(flags.finish(4), BooleanArray::from(vec![true, false, true, false]));
        column.push(8);
        flags.push(true);
        assert_eq!(column.finish(9), Int64Array::from(vec![None, Some(5), Some(6), Some(8)]));
        assert_eq!(flags.finish(9), BooleanArray::from(vec![true, false, true, true]));
    }

    #[test]
    fn flags_round_trip() {
        let mut column = FlagColumn::default();
        for row in 0..70 {
            column.push(row % 3 == 0);
        }
        let expected: BooleanArray = (0..70).map(|row| Some(row % 3 == 0)).collect();
        assert_eq!(column.finish(70), expected);
        assert_eq!(column.finish(70).len(), 0);
    }
}
