//! Rows of `context_switch`.

use arrow_schema::ArrowError;
use schedlens_etl::payload::switching::Details;
use schedlens_schedule::columns::{Bits, Column, Named};
use schedlens_schedule::pool::Pools;
use schedlens_schedule::tables::{Busy, Moment};

use super::row_stacks::{RowStacks, rows_at};

/// A row of `context_switch` without its moment.
#[derive(Clone, Copy, Debug)]
pub(super) struct Switch {
    pub(super) prev: i64,
    pub(super) next: i64,
    pub(super) details: Details,
    pub(super) remaining_quantum: i32,
}

/// Rows collected before they are written to the columns.
const BLOCK: usize = 256;

/// The last rows, stored inside the table so that each costs a few stores.
#[derive(Debug)]
struct Block {
    ts: [i64; BLOCK],
    cpu: [i32; BLOCK],
    seq: [i64; BLOCK],
    prev: [i64; BLOCK],
    next: [i64; BLOCK],
    details: [Details; BLOCK],
    remaining: [i32; BLOCK],
}

/// The table of a chunk.
#[derive(Debug)]
pub(super) struct Switches {
    rows: usize,
    /// Whether the ideal processor is valid, for all rows.
    pub(super) has_ideal: bool,
    block: Block,
    ts: Column<i64>,
    cpu: Column<i32>,
    seq: Column<i64>,
    prev: Column<i64>,
    next: Column<i64>,
    prev_state: Column<i32>,
    prev_priority: Column<i32>,
    next_priority: Column<i32>,
    wait_reason: Column<i32>,
    wait_mode: Column<i32>,
    ideal_cpu: Column<i32>,
    cstate: Column<i32>,
    /// Which rows have a `cstate`; most do not.
    has_cstate: Bits,
    remaining: Column<i32>,
    has_remaining: Bits,
    /// Stacks of the threads switched in.
    pub(super) stacks: RowStacks,
}

impl Switches {
    /// Time of the last row.
    #[inline(always)]
    pub(super) fn latest(&self) -> Option<i64> {
        Some(self.block.ts[self.rows.checked_sub(1)? % BLOCK])
    }

    /// The row in which a thread is switched in at a time.
    pub(super) fn entering(&mut self, ts: i64, utid: i64) -> Option<usize> {
        if self.latest().is_none_or(|latest| latest < ts) {
            return None;
        }
        self.settle();
        let mut rows = rows_at(self.ts.values(), ts);
        rows.find(|row| self.next.values().get(*row) == Some(&utid))
    }

    #[inline(always)]
    pub(super) fn put(&mut self, moment: Moment, switch: Switch) {
        let at = self.rows % BLOCK;
        let block = &mut self.block;
        block.ts[at] = moment.ts;
        block.cpu[at] = moment.cpu;
        block.seq[at] = moment.seq;
        block.prev[at] = switch.prev;
        block.next[at] = switch.next;
        block.details[at] = switch.details;
        block.remaining[at] = switch.remaining_quantum;
        self.rows += 1;
        if self.rows.is_multiple_of(BLOCK) {
            self.settle();
        }
    }

    /// Writes the rows of the block to the columns.
    #[inline(never)]
    fn settle(&mut self) {
        let rows = self.rows - self.ts.len();
        let from = self.ts.len() % BLOCK;
        let fresh = from..from + rows;
        let block = &self.block;
        self.ts.extend(&block.ts[fresh.clone()]);
        self.cpu.extend(&block.cpu[fresh.clone()]);
        self.seq.extend(&block.seq[fresh.clone()]);
        self.prev.extend(&block.prev[fresh.clone()]);
        self.next.extend(&block.next[fresh.clone()]);
        self.remaining.extend(&block.remaining[fresh.clone()]);
        let details = &block.details[fresh];
        let signed = |to: &mut Column<i32>, column: u32| {
            to.extend_with(details.iter().map(|of| of.signed(column)));
        };
        let unsigned = |to: &mut Column<i32>, column: u32| {
            to.extend_with(details.iter().map(|of| of.unsigned(column)));
        };
        signed(&mut self.prev_state, Details::STATE);
        signed(&mut self.prev_priority, Details::OLD_PRIORITY);
        signed(&mut self.next_priority, Details::NEW_PRIORITY);
        signed(&mut self.wait_reason, Details::WAIT_REASON);
        unsigned(&mut self.wait_mode, Details::WAIT_MODE);
        unsigned(&mut self.ideal_cpu, Details::IDEAL);
        unsigned(&mut self.cstate, Details::CSTATE);
        self.has_cstate.extend(details.iter().map(|of| of.has_cstate()));
        self.has_remaining.extend(details.iter().map(|of| of.has_remaining_quantum()));
    }
}

impl Busy for Switches {
    fn new(pools: &Pools) -> Self {
        let long = || Column::within(pools.int64.take());
        let short = || Column::within(pools.int32.take());
        Self {
            rows: 0,
            has_ideal: false,
            block: Block {
                ts: [0; BLOCK],
                cpu: [0; BLOCK],
                seq: [0; BLOCK],
                prev: [0; BLOCK],
                next: [0; BLOCK],
                details: [Details::default(); BLOCK],
                remaining: [0; BLOCK],
            },
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
            has_cstate: Bits::default(),
            remaining: short(),
            has_remaining: Bits::default(),
            stacks: RowStacks::default(),
        }
    }

    fn rows(&self) -> usize {
        self.rows
    }

    fn columns(mut self, pools: &Pools) -> Result<Vec<Named>, ArrowError> {
        self.settle();
        let rows = self.rows;
        let long = |column: Column<i64>| column.array_from(&pools.int64);
        let short = |column: Column<i32>| column.array_from(&pools.int32);
        let mut columns = vec![
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
            ("prev_cstate", self.cstate.array_where(&pools.int32, self.has_cstate)),
            (
                "prev_remaining_quantum",
                self.remaining.array_where(&pools.int32, self.has_remaining),
            ),
            ("source", pools.repeated.column("switch", rows)?),
        ];
        if self.has_ideal {
            columns.push(("prev_ideal_cpu", short(self.ideal_cpu)));
        }
        columns.extend(self.stacks.column("next_stack_id", rows));
        Ok(columns)
    }
}
