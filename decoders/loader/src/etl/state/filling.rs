//! Chunks being filled, and closed ones that later records may still change.

use std::collections::VecDeque;

use crate::etl::Tables;
use crate::etl::rows::Rows;

/// A chunk with this many rows is closed at the next later time. It is small enough to be in the
/// CPU cache when the next stage reads it.
pub(in crate::etl) const CHUNK_ROWS: usize = 1 << 14;

/// Rows of one chunk.
#[derive(Debug, Default)]
pub(in crate::etl) struct Filling {
    pub(in crate::etl) tables: Tables,
    pub(in crate::etl) rows: Rows,
    /// Number of the chunk.
    pub(in crate::etl) number: u64,
    /// All rows before this time belong to earlier chunks.
    pub(in crate::etl) from_ns: i64,
}

impl Filling {
    /// Number of rows in all tables.
    pub(in crate::etl) fn len(&self) -> usize {
        self.tables.rows() + self.rows.len()
    }
}

/// Closed chunks that have not been handed out, by time.
#[derive(Debug, Default)]
pub(in crate::etl) struct Closed {
    pub(in crate::etl) chunks: VecDeque<Filling>,
    pub(in crate::etl) rows: usize,
}

impl Closed {
    /// The chunk with that number.
    pub(in crate::etl) fn numbered(&mut self, number: u64) -> Option<&mut Filling> {
        let first = self.chunks.front()?.number;
        self.chunks.get_mut(usize::try_from(number.checked_sub(first)?).ok()?)
    }

    /// The chunk that contains a time; the oldest if the time is earlier than all chunks.
    pub(in crate::etl) fn at(&mut self, ts: i64) -> Option<&mut Filling> {
        let behind = self.chunks.partition_point(|chunk| chunk.from_ns <= ts);
        self.chunks.get_mut(behind.saturating_sub(1))
    }

    pub(in crate::etl) fn add(&mut self, filling: Filling) {
        self.rows += filling.len();
        self.chunks.push_back(filling);
    }

    pub(in crate::etl) fn take_first(&mut self) -> Option<Filling> {
        let filling = self.chunks.pop_front()?;
        self.rows = self.rows.saturating_sub(filling.len());
        Some(filling)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn closed() -> Closed {
        let mut closed = Closed::default();
        for (number, from_ns) in [(7, i64::MIN), (8, 100), (9, 250)] {
            closed.add(Filling { number, from_ns, ..Filling::default() });
        }
        closed
    }

    #[test]
    fn chunks_are_found_by_number_and_by_time() {
        let mut closed = closed();
        for (number, found) in [(6, None), (7, Some(7)), (9, Some(9)), (10, None)] {
            assert_eq!(closed.numbered(number).map(|chunk| chunk.number), found);
        }
        for (ts, found) in [(i64::MIN, 7), (99, 7), (100, 8), (249, 8), (250, 9), (i64::MAX, 9)] {
            assert_eq!(closed.at(ts).map(|chunk| chunk.number), Some(found));
        }
        assert_eq!(closed.take_first().map(|chunk| chunk.number), Some(7));
        assert_eq!(closed.at(3).map(|chunk| chunk.number), Some(8));
        assert!(closed.numbered(7).is_none());
    }
}
