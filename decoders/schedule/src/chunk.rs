//! What a reader passes to the state machine: a chunk of base-table rows that covers one stretch of
//! time.

use arrow_array::RecordBatch;

/// Batches with their table names.
pub type Batches = Vec<(&'static str, RecordBatch)>;

/// The base-table rows of one stretch of time, from all tables: a chunk.
///
/// `context_switch`, `wakeup`, `migration`, `sched_yield` and `interrupt_slice` are sorted by (ts,
/// cpu, seq). A chunk contains every row of these tables with `ts < until_ns` that was not in an
/// earlier chunk, so records with the same time never end up in two chunks. A `thread` row comes
/// with the chunk in which the thread first appears; [`crate::states::End`] has the complete names
/// and ends. A `loss` row comes with a chunk that ends no later than the gap starts, because a gap
/// is applied where it starts.
#[derive(Debug)]
pub struct Chunk {
    /// Batches by table name. A table without rows in this stretch may be missing.
    pub batches: Batches,
    /// This and earlier chunks contain all rows before this time.
    pub until_ns: i64,
}

impl Chunk {
    /// The batch of a table, if this chunk has one.
    pub fn batch(&self, table: &str) -> Option<&RecordBatch> {
        self.batches.iter().find(|(name, _)| *name == table).map(|(_, batch)| batch)
    }
}

/// A finished batch and the table it belongs to.
#[derive(Debug)]
pub struct Output {
    /// Table name.
    pub table: &'static str,
    /// Rows in the table's schema.
    pub batch: RecordBatch,
}
