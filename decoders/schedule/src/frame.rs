//! What a reader hands to the state machine: base-table batches that cover one stretch of time.

use arrow_array::RecordBatch;

/// Batches by the name of their table.
pub type Batches = Vec<(&'static str, RecordBatch)>;

/// Base-table rows of one stretch of time, all tables together.
///
/// `context_switch`, `wakeup`, `migration`, `sched_yield` and `interrupt_slice` are sorted by
/// (ts, cpu, seq). A frame holds every row of these tables with `ts < until_ns` that no earlier
/// frame held, so records of equal time never lie in two frames. `thread` rows appear in the
/// frame in which the thread is first seen (names and ends come whole with [`crate::states::End`]);
/// `loss` rows in a frame that ends no later than they start: a gap is applied where it starts.
#[derive(Debug)]
pub struct Frame {
    /// Batches by table name; a table without rows in this stretch may be missing.
    pub batches: Batches,
    /// All rows before this time have been handed over with this frame.
    pub until_ns: i64,
}

impl Frame {
    /// The batch of a table, if this frame has one.
    pub fn batch(&self, table: &str) -> Option<&RecordBatch> {
        self.batches.iter().find(|(name, _)| *name == table).map(|(_, batch)| batch)
    }
}

/// A finished batch on its way to the table of that name.
#[derive(Debug)]
pub struct Output {
    /// Name of the table.
    pub table: &'static str,
    /// Rows in the table's schema.
    pub batch: RecordBatch,
}
