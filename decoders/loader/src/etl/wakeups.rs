//! Rows of `wakeup`.

use arrow_schema::ArrowError;
use schedlens_schedule::columns::{Bits, Column, Named};
use schedlens_schedule::pool::Pools;
use schedlens_schedule::tables::{Busy, Moment};

use super::row_stacks::RowStacks;

/// A row of `wakeup` without its moment.
#[derive(Clone, Copy, Debug)]
pub(super) struct Wakeup {
    pub(super) utid: i64,
    pub(super) waker: Option<i64>,
    pub(super) in_interrupt: bool,
}

/// Rows collected before they are written to the columns.
const BLOCK: usize = 256;

/// The last rows, stored inside the table so that each costs a few stores.
#[derive(Debug)]
struct Block {
    ts: [i64; BLOCK],
    cpu: [i32; BLOCK],
    seq: [i64; BLOCK],
    utid: [i64; BLOCK],
    waker: [i64; BLOCK],
    /// [`WAKER_KNOWN`], [`IN_INTERRUPT`].
    flags: [u8; BLOCK],
}

const WAKER_KNOWN: u8 = 1;
const IN_INTERRUPT: u8 = 2;

/// The table of a chunk. Later stacks find their row here and correct its waker.
#[derive(Debug)]
pub(super) struct Wakeups {
    rows: usize,
    block: Block,
    ts: Column<i64>,
    cpu: Column<i32>,
    seq: Column<i64>,
    utid: Column<i64>,
    waker: Column<i64>,
    waker_known: Bits,
    in_interrupt: Bits,
    /// Stacks of the wakers.
    pub(super) stacks: RowStacks,
}

impl Wakeups {
    /// Time of the last row.
    #[inline(always)]
    pub(super) fn latest(&self) -> Option<i64> {
        Some(self.block.ts[self.rows.checked_sub(1)? % BLOCK])
    }

    /// Times of the rows already in the columns.
    pub(super) fn times(&self) -> &[i64] {
        self.ts.values()
    }

    /// CPU that wrote a row that is already in the columns.
    pub(super) fn cpu(&self, row: usize) -> Option<i32> {
        self.cpu.values().get(row).copied()
    }

    /// Whether the waker of a row that is already in the columns is unknown.
    pub(super) fn waker_unknown(&self, row: usize) -> bool {
        !self.waker_known.has(row)
    }

    /// Replaces the assumed waker.
    pub(super) fn correct_waker(&mut self, row: usize, waker: i64) {
        if row >= self.ts.len() {
            let at = row % BLOCK;
            self.block.waker[at] = waker;
            self.block.flags[at] |= WAKER_KNOWN;
        } else {
            self.waker.set(row, waker);
            self.waker_known.set(row);
        }
    }

    #[inline(always)]
    pub(super) fn put(&mut self, moment: Moment, wakeup: Wakeup) {
        let at = self.rows % BLOCK;
        let block = &mut self.block;
        block.ts[at] = moment.ts;
        block.cpu[at] = moment.cpu;
        block.seq[at] = moment.seq;
        block.utid[at] = wakeup.utid;
        block.waker[at] = wakeup.waker.unwrap_or_default();
        let known = if wakeup.waker.is_some() { WAKER_KNOWN } else { 0 };
        let inside = if wakeup.in_interrupt { IN_INTERRUPT } else { 0 };
        block.flags[at] = known | inside;
        self.rows += 1;
        if self.rows.is_multiple_of(BLOCK) {
            self.settle();
        }
    }

    /// Writes the rows of the block to the columns.
    #[inline(never)]
    pub(super) fn settle(&mut self) {
        let rows = self.rows - self.ts.len();
        let from = self.ts.len() % BLOCK;
        let fresh = from..from + rows;
        let block = &self.block;
        self.ts.extend(&block.ts[fresh.clone()]);
        self.cpu.extend(&block.cpu[fresh.clone()]);
        self.seq.extend(&block.seq[fresh.clone()]);
        self.utid.extend(&block.utid[fresh.clone()]);
        self.waker.extend(&block.waker[fresh.clone()]);
        let flags = &block.flags[fresh];
        self.waker_known.extend(flags.iter().map(|of| of & WAKER_KNOWN != 0));
        self.in_interrupt.extend(flags.iter().map(|of| of & IN_INTERRUPT != 0));
    }
}

impl Busy for Wakeups {
    fn new(pools: &Pools) -> Self {
        let long = || Column::within(pools.int64.take());
        Self {
            rows: 0,
            block: Block {
                ts: [0; BLOCK],
                cpu: [0; BLOCK],
                seq: [0; BLOCK],
                utid: [0; BLOCK],
                waker: [0; BLOCK],
                flags: [0; BLOCK],
            },
            ts: long(),
            cpu: Column::within(pools.int32.take()),
            seq: long(),
            utid: long(),
            waker: long(),
            waker_known: Bits::default(),
            in_interrupt: Bits::default(),
            stacks: RowStacks::default(),
        }
    }

    fn rows(&self) -> usize {
        self.rows
    }

    fn columns(mut self, pools: &Pools) -> Result<Vec<Named>, ArrowError> {
        self.settle();
        let rows = self.rows;
        let mut columns = vec![
            ("ts", self.ts.array_from(&pools.int64)),
            ("cpu", self.cpu.array_from(&pools.int32)),
            ("seq", self.seq.array_from(&pools.int64)),
            ("utid", self.utid.array_from(&pools.int64)),
            ("waker_utid", self.waker.array_where(&pools.int64, self.waker_known)),
            ("kind", pools.repeated.column("ready", rows)?),
            ("in_interrupt", self.in_interrupt.array()),
        ];
        columns.extend(self.stacks.column("stack_id", rows));
        Ok(columns)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use arrow_array::{Array, BooleanArray, Int64Array};

    #[test]
    fn wakers_are_corrected_in_and_after_the_block() {
        let mut table = Wakeups::new(&Pools::default());
        for row in 0..600_i64 {
            let moment = Moment { ts: row * 10, cpu: 1, seq: row };
            let waker = (row % 3 != 0).then_some(row);
            table.put(moment, Wakeup { utid: 7, waker, in_interrupt: row % 5 == 0 });
            if row == 300 {
                table.settle();
                assert_eq!((table.times().len(), table.latest()), (301, Some(3000)));
                assert!(table.waker_unknown(300));
                table.correct_waker(300, -1);
                assert!(!table.waker_unknown(300));
            }
        }
        table.correct_waker(3, -2);
        table.correct_waker(597, -3);
        let columns = table.columns(&Pools::default()).expect("columns");
        let find = |name| &columns.iter().find(|(known, _)| *known == name).expect("there").1;
        let wakers: &Int64Array = find("waker_utid").as_any().downcast_ref().expect("numbers");
        let flags: &BooleanArray = find("in_interrupt").as_any().downcast_ref().expect("flags");
        for row in 0..600_i64 {
            let waker = match row {
                300 => Some(-1),
                3 => Some(-2),
                597 => Some(-3),
                _ => (row % 3 != 0).then_some(row),
            };
            let at = row as usize;
            assert_eq!(wakers.is_valid(at).then(|| wakers.value(at)), waker, "{row}");
            assert_eq!(flags.value(at), row % 5 == 0);
        }
    }
}
