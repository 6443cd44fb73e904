//! Rows of `context_switch`.

use crate::columns::{Column, Named};
use crate::error::DecodeError;
use crate::shelf::Shelves;
use crate::staged::{Staged, is_full};
use crate::tables::{Busy, Moment};

/// A row of `context_switch` without its moment.
#[derive(Clone, Copy, Debug)]
pub(super) struct Switch {
    pub(super) prev: i64,
    pub(super) next: i64,
    pub(super) prev_state: i32,
    pub(super) prev_priority: i32,
    pub(super) next_priority: i32,
    /// `KWAIT_REASON`
    pub(super) wait_reason: i32,
    /// `KPROCESSOR_MODE`
    pub(super) wait_mode: i32,
    pub(super) ideal_cpu: Option<i32>,
    /// Of the CPU, where its idle thread leaves.
    pub(super) cstate: Option<i32>,
}

/// The table of a frame.
#[derive(Debug)]
pub(super) struct Switches {
    rows: usize,
    ts: Staged<i64>,
    cpu: Staged<i32>,
    seq: Staged<i64>,
    prev: Staged<i64>,
    next: Staged<i64>,
    prev_state: Staged<i32>,
    prev_priority: Staged<i32>,
    next_priority: Staged<i32>,
    wait_reason: Staged<i32>,
    wait_mode: Staged<i32>,
    ideal_cpu: Staged<i32>,
    cstate: Staged<i32>,
    /// Which rows have a `cstate`: most have none.
    has_cstate: Staged<bool>,
}

impl Switches {
    #[inline(always)]
    pub(super) fn put(&mut self, moment: Moment, switch: Switch) {
        let row = self.rows;
        self.ts.put(row, moment.ts);
        self.cpu.put(row, moment.cpu);
        self.seq.put(row, moment.seq);
        self.prev.put(row, switch.prev);
        self.next.put(row, switch.next);
        self.prev_state.put(row, switch.prev_state);
        self.prev_priority.put(row, switch.prev_priority);
        self.next_priority.put(row, switch.next_priority);
        self.wait_reason.put(row, switch.wait_reason);
        self.wait_mode.put(row, switch.wait_mode);
        self.ideal_cpu.put_option(row, switch.ideal_cpu);
        self.cstate.put(row, switch.cstate.unwrap_or_default());
        self.has_cstate.put(row, switch.cstate.is_some());
        self.rows = row + 1;
        if is_full(self.rows) {
            self.settle();
        }
    }

    #[inline(never)]
    fn settle(&mut self) {
        let rows = self.rows;
        self.ts.settle(rows);
        self.cpu.settle(rows);
        self.seq.settle(rows);
        self.prev.settle(rows);
        self.next.settle(rows);
        self.prev_state.settle(rows);
        self.prev_priority.settle(rows);
        self.next_priority.settle(rows);
        self.wait_reason.settle(rows);
        self.wait_mode.settle(rows);
        self.ideal_cpu.settle(rows);
        self.cstate.settle(rows);
        self.has_cstate.settle(rows);
    }
}

impl Busy for Switches {
    fn new(shelves: &Shelves) -> Self {
        let long = || Staged::new(Column::within(shelves.int64.take()));
        let short = || Staged::new(Column::within(shelves.int32.take()));
        Self {
            rows: 0,
            ts: long(),
            cpu: short(),
            seq: long(),
            prev: long(),
            next: long(),
            prev_state: short(),
            prev_priority: short(),
            next_priority: short(),
            wait_reason: short(),
            wait_mode: short(),
            ideal_cpu: short(),
            cstate: short(),
            has_cstate: Staged::new(Column::within(shelves.boolean.take())),
        }
    }

    fn len(&self) -> usize {
        self.rows
    }

    fn columns(self, shelves: &Shelves) -> Result<Vec<Named>, DecodeError> {
        let rows = self.rows;
        let long = |staged: Staged<i64>| staged.column(rows).array_from(&shelves.int64);
        let short = |staged: Staged<i32>| staged.column(rows).array_from(&shelves.int32);
        let known = self.has_cstate.column(rows);
        let cstate = self.cstate.column(rows).array_where(&shelves.int32, known, &shelves.boolean);
        Ok(vec![
            ("ts", long(self.ts)),
            ("cpu", short(self.cpu)),
            ("seq", long(self.seq)),
            ("prev_utid", long(self.prev)),
            ("next_utid", long(self.next)),
            ("prev_state", short(self.prev_state)),
            ("prev_priority", short(self.prev_priority)),
            ("next_priority", short(self.next_priority)),
            ("prev_wait_reason", short(self.wait_reason)),
            ("prev_wait_mode", short(self.wait_mode)),
            ("prev_ideal_cpu", short(self.ideal_cpu)),
            ("prev_cstate", cstate),
            ("source", Column::<u8>::repeated(rows, &shelves.uint8, "switch")?),
        ])
    }
}
