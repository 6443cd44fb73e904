//! Base-table batches as typed columns, in the order (ts, cpu, seq).

use arrow_array::types::{Int32Type, Int64Type, UInt8Type};
use arrow_array::{
    Array, ArrowPrimitiveType, BooleanArray, DictionaryArray, PrimitiveArray, RecordBatch,
    StringArray,
};

use super::StateError;

fn typed<'a, A: Array + 'static>(
    table: &'static str,
    column: &'static str,
    batch: &'a RecordBatch,
) -> Result<&'a A, StateError> {
    let array = batch.column_by_name(column).ok_or(StateError::NoColumn { table, column })?;
    array.as_any().downcast_ref::<A>().ok_or_else(|| StateError::ColumnType {
        table,
        column,
        found: array.data_type().to_string(),
    })
}

/// A numeric column with NULLs.
pub(super) struct Numbers<'a, T: ArrowPrimitiveType> {
    values: &'a [T::Native],
    nulls: Option<&'a arrow_buffer::NullBuffer>,
}

/// Times, thread numbers, positions.
pub(super) type Longs<'a> = Numbers<'a, Int64Type>;
/// CPU numbers, states, priorities.
pub(super) type Ints<'a> = Numbers<'a, Int32Type>;

impl<'a, T: ArrowPrimitiveType> Numbers<'a, T> {
    /// The column of that name.
    pub(super) fn of(
        table: &'static str,
        column: &'static str,
        batch: &'a RecordBatch,
    ) -> Result<Self, StateError> {
        let array: &PrimitiveArray<T> = typed(table, column, batch)?;
        Ok(Self { values: array.values(), nulls: array.nulls().filter(|n| n.null_count() > 0) })
    }

    #[inline]
    pub(super) fn get(&self, row: usize) -> Option<T::Native> {
        match self.nulls {
            Some(nulls) if nulls.is_null(row) => None,
            _ => Some(self.values[row]),
        }
    }

    /// The value, undefined if it is NULL: for columns declared NOT NULL.
    #[inline]
    pub(super) fn at(&self, row: usize) -> T::Native {
        self.values[row]
    }
}

/// A flag column with NULLs.
pub(super) struct Flags<'a>(&'a BooleanArray);

impl<'a> Flags<'a> {
    /// The column of that name.
    pub(super) fn of(
        table: &'static str,
        column: &'static str,
        batch: &'a RecordBatch,
    ) -> Result<Self, StateError> {
        Ok(Self(typed(table, column, batch)?))
    }

    #[inline]
    pub(super) fn get(&self, row: usize) -> Option<bool> {
        (!self.0.is_null(row)).then(|| self.0.value(row))
    }
}

/// A text column with each text replaced by `number(text)`, called once per word of a dictionary.
pub(super) fn numbered<N: Copy>(
    table: &'static str,
    column: &'static str,
    batch: &RecordBatch,
    mut number: impl FnMut(Option<&str>) -> N,
) -> Result<Vec<N>, StateError> {
    let array = batch.column_by_name(column).ok_or(StateError::NoColumn { table, column })?;
    if let Some(texts) = array.as_any().downcast_ref::<StringArray>() {
        return Ok(texts.iter().map(number).collect());
    }
    let words: &DictionaryArray<UInt8Type> = typed(table, column, batch)?;
    let texts: &StringArray = words.values().as_any().downcast_ref().ok_or_else(|| {
        StateError::ColumnType { table, column, found: array.data_type().to_string() }
    })?;
    let unknown = number(None);
    let numbers: Vec<N> = texts.iter().map(number).collect();
    let keys = words.keys();
    Ok((0..keys.len())
        .map(|row| {
            let key = (!keys.is_null(row)).then(|| usize::from(keys.value(row)));
            key.and_then(|key| numbers.get(key)).copied().unwrap_or(unknown)
        })
        .collect())
}

/// Iterates over the rows of one table in time order.
pub(super) struct Cursor<'a> {
    ts: &'a [i64],
    /// The row order, if it differs from the batch.
    order: Option<Vec<u32>>,
    len: usize,
    next: usize,
    /// Rows with an earlier time than the row before them.
    pub(super) backwards: u64,
}

impl<'a> Cursor<'a> {
    /// Rows by (ts, cpu, seq). Tables whose rows have no position lack `seq`.
    pub(super) fn new(ts: &Longs<'a>, cpu: &Ints<'_>, seq: Option<&Longs<'_>>) -> Self {
        let ts = ts.values;
        let key = |row: usize| (ts[row], cpu.values[row], seq.map_or(0, |seq| seq.values[row]));
        let backwards = ts.windows(2).filter(|pair| pair[1] < pair[0]).count() as u64;
        let sorted = (1..ts.len()).all(|row| key(row - 1) <= key(row));
        let order = (!sorted).then(|| {
            let mut order: Vec<u32> = (0..ts.len() as u32).collect();
            order.sort_by_key(|&row| key(row as usize));
            order
        });
        Self { ts, order, len: ts.len(), next: 0, backwards }
    }

    /// The row at a position in the order.
    #[inline]
    pub(super) fn row(&self, place: usize) -> usize {
        match &self.order {
            Some(order) => order[place] as usize,
            None => place,
        }
    }

    /// Time of the next row, or the largest time if no row is left.
    #[inline]
    pub(super) fn next_ts(&self) -> i64 {
        if self.next < self.len { self.ts[self.row(self.next)] } else { i64::MAX }
    }

    /// Whether rows are left.
    #[inline]
    pub(super) fn left(&self) -> bool {
        self.next < self.len
    }

    /// Takes the rows up to and including a time, as positions in the order.
    #[inline]
    pub(super) fn take_until(&mut self, ts: i64) -> std::ops::Range<usize> {
        let from = self.next;
        while self.next < self.len && self.ts[self.row(self.next)] <= ts {
            self.next += 1;
        }
        from..self.next
    }
}
