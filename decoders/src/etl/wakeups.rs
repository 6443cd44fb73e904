//! Rows of `wakeup`.

use crate::columns::{Column, Named};
use crate::error::DecodeError;
use crate::shelf::Shelves;
use crate::staged::{Staged, is_full};
use crate::tables::{Busy, Moment};

/// A row of `wakeup` without its moment.
#[derive(Clone, Copy, Debug)]
pub(super) struct Wakeup {
    pub(super) utid: i64,
    pub(super) waker: Option<i64>,
    pub(super) in_interrupt: bool,
}

/// The table of a frame. Stacks that come later look for their row, and mend its waker.
#[derive(Debug)]
pub(super) struct Wakeups {
    ts: Column<i64>,
    cpu: Column<i32>,
    waker: Column<i64>,
    rest: Rest,
}

/// Columns that nobody looks into before they are finished.
#[derive(Debug)]
struct Rest {
    rows: usize,
    seq: Staged<i64>,
    utid: Staged<i64>,
    in_interrupt: Staged<bool>,
}

impl Rest {
    fn new(shelves: &Shelves) -> Self {
        Self {
            rows: 0,
            seq: Staged::new(Column::within(shelves.int64.take())),
            utid: Staged::new(Column::within(shelves.int64.take())),
            in_interrupt: Staged::new(Column::within(shelves.boolean.take())),
        }
    }

    #[inline(never)]
    fn settle(&mut self) {
        self.seq.settle(self.rows);
        self.utid.settle(self.rows);
        self.in_interrupt.settle(self.rows);
    }
}

impl Wakeups {
    /// Times of the rows so far.
    pub(super) fn times(&self) -> &[i64] {
        self.ts.values()
    }

    /// CPU that wrote a row.
    pub(super) fn cpu(&self, row: usize) -> Option<i32> {
        self.cpu.values().get(row).copied()
    }

    /// Whether the waker of a row is not known.
    pub(super) fn waker_unknown(&self, row: usize) -> bool {
        self.waker.is_unknown(row)
    }

    /// Puts another waker in the place of the one assumed.
    pub(super) fn mend_waker(&mut self, row: usize, waker: i64) {
        self.waker.set(row, waker);
    }

    #[inline(always)]
    pub(super) fn put(&mut self, moment: Moment, wakeup: Wakeup) {
        self.ts.push(moment.ts);
        self.cpu.push(moment.cpu);
        self.waker.push_option(wakeup.waker);
        let rest = &mut self.rest;
        let row = rest.rows;
        rest.seq.put(row, moment.seq);
        rest.utid.put(row, wakeup.utid);
        rest.in_interrupt.put(row, wakeup.in_interrupt);
        rest.rows = row + 1;
        if is_full(rest.rows) {
            rest.settle();
        }
    }
}

impl Busy for Wakeups {
    fn new(shelves: &Shelves) -> Self {
        Self {
            ts: Column::within(shelves.int64.take()),
            cpu: Column::within(shelves.int32.take()),
            waker: Column::within(shelves.int64.take()),
            rest: Rest::new(shelves),
        }
    }

    fn len(&self) -> usize {
        self.rest.rows
    }

    fn columns(self, shelves: &Shelves) -> Result<Vec<Named>, DecodeError> {
        let rest = self.rest;
        let rows = rest.rows;
        Ok(vec![
            ("ts", self.ts.array_from(&shelves.int64)),
            ("cpu", self.cpu.array_from(&shelves.int32)),
            ("seq", rest.seq.column(rows).array_from(&shelves.int64)),
            ("utid", rest.utid.column(rows).array_from(&shelves.int64)),
            ("waker_utid", self.waker.array_from(&shelves.int64)),
            ("kind", Column::<u8>::repeated(rows, &shelves.uint8, "ready")?),
            ("in_interrupt", rest.in_interrupt.column(rows).array_from(&shelves.boolean)),
        ])
    }
}
