//! Rows of `wakeup`.

use arrow_schema::ArrowError;
use schedlens_perf_data::events::WAKEUP_KINDS;
use schedlens_schedule::columns::{Column, Named};
use schedlens_schedule::pool::Pools;
use schedlens_schedule::staged::{Staged, is_full};
use schedlens_schedule::tables::{Busy, Moment};

/// A row of `wakeup` without its moment.
#[derive(Clone, Copy, Debug)]
pub(super) struct Wakeup {
    pub(super) utid: Option<i64>,
    pub(super) waker: Option<i64>,
    pub(super) prev_cpu: Option<i32>,
    pub(super) target_cpu: Option<i32>,
    /// Index in [`WAKEUP_KINDS`].
    pub(super) kind: u8,
    pub(super) in_interrupt: Option<bool>,
}

/// The table of a chunk.
#[derive(Debug)]
pub(super) struct Wakeups {
    rows: usize,
    ts: Staged<i64>,
    cpu: Staged<i32>,
    seq: Staged<i64>,
    utid: Staged<i64>,
    waker: Staged<i64>,
    prev_cpu: Staged<i32>,
    target_cpu: Staged<i32>,
    kind: Staged<u8>,
    in_interrupt: Staged<bool>,
}

impl Wakeups {
    #[inline(always)]
    pub(super) fn put(&mut self, moment: Moment, wakeup: Wakeup) {
        let row = self.rows;
        self.ts.put(row, moment.ts);
        self.cpu.put(row, moment.cpu);
        self.seq.put(row, moment.seq);
        self.utid.put_option(row, wakeup.utid);
        self.waker.put_option(row, wakeup.waker);
        self.prev_cpu.put_option(row, wakeup.prev_cpu);
        self.target_cpu.put_option(row, wakeup.target_cpu);
        self.kind.put(row, wakeup.kind);
        self.in_interrupt.put_option(row, wakeup.in_interrupt);
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
        self.utid.settle(rows);
        self.waker.settle(rows);
        self.prev_cpu.settle(rows);
        self.target_cpu.settle(rows);
        self.kind.settle(rows);
        self.in_interrupt.settle(rows);
    }
}

impl Busy for Wakeups {
    fn new(pools: &Pools) -> Self {
        let long = || Staged::new(Column::within(pools.int64.take()));
        let short = || Staged::new(Column::within(pools.int32.take()));
        Self {
            rows: 0,
            ts: long(),
            cpu: short(),
            seq: long(),
            utid: long(),
            waker: long(),
            prev_cpu: short(),
            target_cpu: short(),
            kind: Staged::new(Column::within(pools.uint8.take())),
            in_interrupt: Staged::new(Column::within(pools.boolean.take())),
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
            ("utid", long(self.utid)),
            ("waker_utid", long(self.waker)),
            ("prev_cpu", short(self.prev_cpu)),
            ("target_cpu", short(self.target_cpu)),
            ("kind", self.kind.column(rows).words_from(&pools.uint8, &WAKEUP_KINDS)?),
            ("in_interrupt", self.in_interrupt.column(rows).array_from(&pools.boolean)),
        ])
    }
}
