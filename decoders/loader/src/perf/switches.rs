//! Rows of `context_switch`.

use arrow_schema::ArrowError;
use schedlens_schedule::columns::{Column, Named};
use schedlens_schedule::pool::Pools;
use schedlens_schedule::staged::{Staged, is_full};
use schedlens_schedule::tables::{Busy, Moment};

/// Words of `context_switch.source`: the tracepoint, and a pair of `PERF_RECORD_SWITCH`.
const SOURCES: [&str; 2] = ["switch", "switch_event"];

/// A row of `context_switch` without its moment.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Switch {
    pub(super) prev: Option<i64>,
    pub(super) next: Option<i64>,
    pub(super) prev_state: Option<i32>,
    pub(super) prev_priority: Option<i32>,
    pub(super) next_priority: Option<i32>,
    pub(super) prev_preempted: Option<bool>,
    /// From a pair of `PERF_RECORD_SWITCH`, not from the tracepoint.
    pub(super) by_switch_event: bool,
}

/// The table of a chunk.
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
    prev_preempted: Staged<bool>,
    source: Staged<u8>,
}

impl Switches {
    #[inline(always)]
    pub(super) fn put(&mut self, moment: Moment, switch: Switch) {
        let row = self.rows;
        self.ts.put(row, moment.ts);
        self.cpu.put(row, moment.cpu);
        self.seq.put(row, moment.seq);
        self.prev.put_option(row, switch.prev);
        self.next.put_option(row, switch.next);
        self.prev_state.put_option(row, switch.prev_state);
        self.prev_priority.put_option(row, switch.prev_priority);
        self.next_priority.put_option(row, switch.next_priority);
        self.prev_preempted.put_option(row, switch.prev_preempted);
        self.source.put(row, u8::from(switch.by_switch_event));
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
        self.prev_preempted.settle(rows);
        self.source.settle(rows);
    }
}

impl Busy for Switches {
    fn new(pools: &Pools) -> Self {
        let long = || Staged::new(Column::within(pools.int64.take()));
        let short = || Staged::new(Column::within(pools.int32.take()));
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
            prev_preempted: Staged::new(Column::within(pools.boolean.take())),
            source: Staged::new(Column::within(pools.uint8.take())),
        }
    }

    fn rows(&self) -> usize {
        self.rows
    }

    fn columns(self, pools: &Pools) -> Result<Vec<Named>, ArrowError> {
        let rows = self.rows;
        let long = |staged: Staged<i64>| staged.column(rows).array_from(&pools.int64);
        let short = |staged: Staged<i32>| staged.column(rows).array_from(&pools.int32);
        Ok(vec![
            ("ts", long(self.ts)),
            ("cpu", short(self.cpu)),
            ("seq", long(self.seq)),
            ("prev_utid", long(self.prev)),
            ("next_utid", long(self.next)),
            ("prev_state", short(self.prev_state)),
            ("prev_priority", short(self.prev_priority)),
            ("next_priority", short(self.next_priority)),
            ("prev_preempted", self.prev_preempted.column(rows).array_from(&pools.boolean)),
            ("source", self.source.column(rows).words_from(&pools.uint8, &SOURCES)?),
        ])
    }
}
