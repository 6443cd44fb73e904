//! Frames while they are filled, and closed ones that later records may still change.

use std::collections::VecDeque;

use super::Tables;
use super::rows::Rows;
use super::session::Session;

/// Rows after which a frame is closed at the next later time: few enough that it is still in the
/// processor's cache when the next stage reads it.
pub(super) const FRAME_ROWS: usize = 1 << 14;
/// Rows of closed frames that wait for records which may change them, at most.
const KEPT_ROWS: usize = 1 << 18;

/// Rows of one frame.
#[derive(Debug, Default)]
pub(super) struct Filling {
    pub(super) tables: Tables,
    pub(super) rows: Rows,
    /// Number of the frame.
    pub(super) number: u64,
    /// Time before which all rows belong to earlier frames.
    pub(super) from_ns: i64,
}

impl Filling {
    /// Rows of all tables.
    pub(super) fn len(&self) -> usize {
        self.tables.rows() + self.rows.len()
    }
}

/// Closed frames that have not been handed out, by time.
#[derive(Debug, Default)]
pub(super) struct Closed {
    frames: VecDeque<Filling>,
    rows: usize,
}

impl Closed {
    /// The frame with that number.
    pub(super) fn numbered(&mut self, number: u64) -> Option<&mut Filling> {
        let first = self.frames.front()?.number;
        self.frames.get_mut(usize::try_from(number.checked_sub(first)?).ok()?)
    }

    /// The frame that a time falls in; the oldest if it is earlier than all.
    pub(super) fn at(&mut self, ts: i64) -> Option<&mut Filling> {
        let behind = self.frames.partition_point(|frame| frame.from_ns <= ts);
        self.frames.get_mut(behind.saturating_sub(1))
    }

    /// The one that was closed last.
    pub(super) fn last(&self) -> Option<&Filling> {
        self.frames.back()
    }

    fn add(&mut self, filling: Filling) {
        self.rows += filling.len();
        self.frames.push_back(filling);
    }

    fn take_first(&mut self) -> Option<Filling> {
        let filling = self.frames.pop_front()?;
        self.rows = self.rows.saturating_sub(filling.len());
        Some(filling)
    }
}

impl Session<'_> {
    /// Begins a new frame at a time.
    #[inline(never)]
    pub(super) fn begin_frame(&mut self, from_ns: i64) {
        let next = Filling {
            tables: Tables::new(&self.shelves),
            rows: Rows::default(),
            number: self.current.number + 1,
            from_ns,
        };
        let mut filled = std::mem::replace(&mut self.current, next);
        filled.tables.wakeups.settle();
        self.closed.add(filled);
    }

    /// The oldest of the closed frames and its end, if no record is expected to change it any
    /// more.
    pub(super) fn unchanging_frame(&mut self) -> Option<(Filling, i64)> {
        let first = self.closed.frames.front()?.number;
        if self.closed.rows <= KEPT_ROWS {
            // What belongs to the last records of a frame may come with the first ones after it.
            let alone = self.closed.frames.len() < 2;
            let awaited = self.scheduling.oldest_given().is_some_and(|oldest| oldest <= first);
            if alone || awaited || self.expects_stacks {
                return None;
            }
        }
        self.oldest_frame()
    }

    /// The oldest of the closed frames and its end.
    pub(super) fn oldest_frame(&mut self) -> Option<(Filling, i64)> {
        let filling = self.closed.take_first()?;
        let next = self.closed.frames.front().unwrap_or(&self.current);
        self.scheduling.settle(next.number);
        Some((filling, next.from_ns))
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
    fn frames_are_found_by_number_and_by_time() {
        let mut closed = closed();
        for (number, found) in [(6, None), (7, Some(7)), (9, Some(9)), (10, None)] {
            assert_eq!(closed.numbered(number).map(|frame| frame.number), found);
        }
        for (ts, found) in [(i64::MIN, 7), (99, 7), (100, 8), (249, 8), (250, 9), (i64::MAX, 9)] {
            assert_eq!(closed.at(ts).map(|frame| frame.number), Some(found));
        }
        assert_eq!(closed.take_first().map(|frame| frame.number), Some(7));
        assert_eq!(closed.at(3).map(|frame| frame.number), Some(8));
        assert!(closed.numbered(7).is_none());
    }
}
