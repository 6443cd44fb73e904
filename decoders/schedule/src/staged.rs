//! Columns of tables with very many rows, filled block by block.

use arrow_array::ArrayRef;

use crate::columns::Column;
use crate::pool::{Pool, Pools};

/// Rows in a block. Blocks are stored inside their table, so that a row costs one store per column.
const BLOCK: usize = 256;

/// A column whose last rows are still in a block.
#[derive(Debug)]
pub struct Staged<T> {
    block: [T; BLOCK],
    column: Column<T>,
}

impl<T: Copy + Default> Staged<T> {
    /// An empty block on top of an empty column.
    pub fn new(column: Column<T>) -> Self {
        Self { block: [T::default(); BLOCK], column }
    }

    /// Writes a row. Write the rows in order, each once.
    #[inline(always)]
    pub fn put(&mut self, row: usize, value: T) {
        self.block[row % BLOCK] = value;
    }

    /// Writes a row or NULL.
    #[inline(always)]
    pub fn put_option(&mut self, row: usize, value: Option<T>) {
        match value {
            Some(value) => self.put(row, value),
            None => {
                self.put(row, T::default());
                self.column.unknown_at(row);
            }
        }
    }

    /// Call this after each row: it moves a full block into the column.
    pub fn settle(&mut self, rows: usize) {
        let fresh = rows - self.column.len();
        self.column.extend(self.block.get(..fresh).unwrap_or(&self.block));
    }

    /// The column with all rows.
    pub fn column(mut self, rows: usize) -> Column<T> {
        self.settle(rows);
        self.column
    }
}

/// A value in a row: known, or perhaps NULL.
pub trait Cell {
    /// What the column holds.
    type Stored;

    /// Writes it to a column.
    fn put(self, staged: &mut Staged<Self::Stored>, row: usize);
}

impl<T: Copy + Default> Cell for Option<T> {
    type Stored = T;

    #[inline(always)]
    fn put(self, staged: &mut Staged<T>, row: usize) {
        staged.put_option(row, self);
    }
}

/// A type of column whose memory comes from a pool.
pub trait Pooled: Copy + Default {
    /// The pool of this type.
    fn pool(pools: &Pools) -> &Pool<Self>;

    /// The column in memory that returns to its pool.
    fn array(column: Column<Self>, pools: &Pools) -> ArrayRef;
}

/// The types with a pool, each also as a value that is always known.
macro_rules! pooled {
    ($($kind:ty: $pool:ident),*) => {$(
        impl Cell for $kind {
            type Stored = $kind;

            #[inline(always)]
            fn put(self, staged: &mut Staged<$kind>, row: usize) {
                staged.put(row, self);
            }
        }

        impl Pooled for $kind {
            fn pool(pools: &Pools) -> &Pool<$kind> {
                &pools.$pool
            }

            fn array(column: Column<$kind>, pools: &Pools) -> ArrayRef {
                column.array_from(&pools.$pool)
            }
        }
    )*};
}

pooled!(i64: int64, i32: int32, bool: boolean);

impl Cell for u8 {
    type Stored = u8;

    #[inline(always)]
    fn put(self, staged: &mut Staged<u8>, row: usize) {
        staged.put(row, self);
    }
}

impl<T: Pooled> Staged<T> {
    /// An empty block on top of an empty column of the pool.
    pub fn from_pool(pools: &Pools) -> Self {
        Self::new(Column::within(T::pool(pools).take()))
    }

    /// All rows, in memory that returns to the pool.
    pub fn array(self, rows: usize, pools: &Pools) -> ArrayRef {
        T::array(self.column(rows), pools)
    }
}

/// Whether this number of rows fills the last block.
#[inline(always)]
pub fn is_full(rows: usize) -> bool {
    rows.is_multiple_of(BLOCK)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rows_survive_block_boundaries() {
        for rows in [0, 1, 255, 256, 257, 700] {
            let mut staged = Staged::new(Column::default());
            for row in 0..rows {
                staged.put_option(row, (row % 100 != 7).then_some(row as i32));
                if is_full(row + 1) {
                    staged.settle(row + 1);
                }
            }
            let mut plain = Column::default();
            (0..rows).for_each(|row| plain.push_option((row % 100 != 7).then_some(row as i32)));
            assert_eq!(&staged.column(rows).array(), &plain.array());
        }
    }
}
