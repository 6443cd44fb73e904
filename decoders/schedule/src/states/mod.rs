//! The only state machine: reads base-table batches of any source, writes slices and states.
//!
//! The data model documents its rules. Records with the same time are handled together; per thread
//! the order is switch-out, ready, switch-in, with empty slices in between. What a thread did
//! before a slice is written when the slice ends, because a gap or a failed plan may still change
//! it.

mod chunks;
mod column;
mod counters;
mod cpu;
mod finish;
mod gap;
mod input;
mod leaving;
mod moment;
mod problem;
mod records;
mod rows;
mod switches;
#[cfg(test)]
mod tests;
mod thread;
mod wakeups;
mod words;

use std::cmp::Reverse;
use std::collections::{BinaryHeap, HashMap};

use arrow_array::RecordBatch;
use arrow_schema::ArrowError;

pub use self::records::context_switch_mend_schema;
pub use self::wakeups::wakeup_mend_schema;
use crate::chunk::{Chunk, Output};

/// Source of the recording; it decides how an outgoing thread's state is read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Source {
    /// Linux perf.
    Perf,
    /// Windows ETW: its switch-ins are planned ones.
    Etw,
    /// Perfetto, with the states of Linux.
    Perfetto,
}

/// Settings for a whole recording.
#[derive(Clone, Debug)]
pub struct Settings {
    /// Number of the recording; the upper half of its utids.
    pub trace_id: i64,
    /// Source of the recording.
    pub source: Source,
    /// Length of a scheduler tick in ns; `None` if unknown.
    pub tick_ns: Option<i64>,
    /// `sched_yield` was recorded.
    pub yields_recorded: bool,
    /// Wakeups were recorded.
    pub has_wakings: bool,
    /// Whether the recorder says that it recorded only the switches of chosen threads; `None` if it
    /// says nothing.
    pub of_chosen_threads: Option<bool>,
}

/// What is known once the last chunk has been pushed.
#[derive(Clone, Debug)]
pub struct End {
    /// Time of the earliest record.
    pub first_ns: i64,
    /// Time of the latest record.
    pub last_ns: i64,
    /// All rows of `thread`.
    pub threads: RecordBatch,
    /// All rows of `cpu`.
    pub cpus: RecordBatch,
    /// All rows of `snapshot_thread`, with utid if known.
    pub snapshot_thread: Option<RecordBatch>,
}

/// Input that does not match the declared tables. The contents of a recording never cause it.
#[derive(Debug, thiserror::Error)]
pub enum StateError {
    /// The table is not declared.
    #[error("table {table} is not declared")]
    NoTable {
        /// Table name.
        table: &'static str,
    },
    /// A batch lacks a column.
    #[error("{table}: column {column} is missing")]
    NoColumn {
        /// Table.
        table: &'static str,
        /// Column.
        column: &'static str,
    },
    /// A column does not have its declared type.
    #[error("{table}.{column}: unexpected type {found}")]
    ColumnType {
        /// Table.
        table: &'static str,
        /// Column.
        column: &'static str,
        /// The type found.
        found: String,
    },
    /// A batch could not be built.
    #[error("batch: {0}")]
    Arrow(#[from] ArrowError),
}

/// Turns chunks of base tables into the derived tables.
///
/// Outputs: `context_switch`, `wakeup` and `loss` with corrections (they pass through, so the
/// caller must not also store its own), `sched_slice`, `thread_state_other`, `cpu_state_other`,
/// `counter_delta`, its own rows of `problem`, and `wakeup_mend` and `context_switch_mend` (see
/// their schemas). The caller stores all other tables of a chunk itself. Rows are emitted when they
/// end, not sorted by time.
pub struct StateMachine {
    settings: Settings,
    base: i64,
    /// Times of the earliest and the latest record so far.
    earliest: i64,
    now: i64,
    threads: Vec<thread::Thread>,
    /// Places of threads that are not at their number.
    out_of_order: HashMap<u32, u32>,
    cpus: Vec<Option<Box<cpu::Cpu>>>,
    rows: rows::Rows,
    early_slices: Vec<leaving::Ended>,
    losses: Vec<gap::Loss>,
    /// Reported gaps that have not started yet, the first on top.
    gaps_ahead: BinaryHeap<Reverse<gap::Gap>>,
    /// A migration has been recorded.
    migrations_recorded: bool,
    /// A switch has been recorded.
    switches_recorded: bool,
    /// Where the latest gap on any CPU ends.
    gap_end: i64,
    wakeups: wakeups::Wakeups,
    records: records::Records,
    counters: counters::Counters,
    problems: problem::Problems,
    moment: Option<Box<moment::Scratch>>,
}

impl StateMachine {
    /// A machine before any record.
    pub fn new(settings: Settings) -> Self {
        Self {
            base: settings.trace_id.wrapping_shl(32),
            settings,
            earliest: i64::MAX,
            now: rows::BEGIN,
            threads: Vec::new(),
            out_of_order: HashMap::new(),
            cpus: Vec::new(),
            rows: rows::Rows::default(),
            early_slices: Vec::new(),
            losses: Vec::new(),
            gaps_ahead: BinaryHeap::new(),
            migrations_recorded: false,
            switches_recorded: false,
            gap_end: rows::BEGIN,
            wakeups: wakeups::Wakeups::default(),
            records: records::Records::default(),
            counters: counters::Counters::default(),
            problems: problem::Problems::default(),
            moment: None,
        }
    }

    /// Processes a chunk and returns the rows that are final.
    ///
    /// # Errors
    /// A batch does not have its declared columns. The contents of a recording never cause an error.
    pub fn push(&mut self, chunk: &Chunk) -> Result<Vec<Output>, StateError> {
        let mut out = Vec::new();
        self.take_chunk(chunk, &mut out)?;
        Ok(out)
    }

    /// Closes everything that is open and returns the remaining rows.
    ///
    /// # Errors
    /// As [`StateMachine::push`].
    pub fn finish(self, end: &End) -> Result<Vec<Output>, StateError> {
        self.close(end)
    }
}
