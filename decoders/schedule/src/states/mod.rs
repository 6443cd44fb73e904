//! The one state machine: base-table batches of any source in, slices and states out.
//!
//! Its rules stand in the data model. Records of equal time are taken together: for one thread
//! switch-out, ready, switch-in; empty stays lie between. What a thread did before a stay is
//! written when the stay ends, so that a gap or a plan that failed can still be told apart.

mod column;
mod counters;
mod cpu;
mod finish;
mod frames;
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
use std::collections::BinaryHeap;

use arrow_array::RecordBatch;
use arrow_schema::ArrowError;

pub use self::records::context_switch_mend_schema;
pub use self::wakeups::wakeup_mend_schema;
use crate::frame::{Frame, Output};

/// Where the recording comes from; it decides how a leaver's state is read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Source {
    /// Linux perf.
    Perf,
    /// Windows ETW: switch-ins are planned ones.
    Etw,
    /// Perfetto, with the states of Linux.
    Perfetto,
}

/// What holds for a whole recording.
#[derive(Clone, Debug)]
pub struct Settings {
    /// Number of the recording; the upper half of its thread numbers.
    pub trace_id: i64,
    /// Where it comes from.
    pub source: Source,
    /// Length of a scheduler tick in ns; `None`: not known.
    pub tick_ns: Option<i64>,
    /// `sched_yield` was recorded.
    pub yields_recorded: bool,
    /// Wakings were recorded at all.
    pub has_wakings: bool,
}

/// What is known once the last frame has been pushed.
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
    /// All rows of `snapshot_thread`, with utid where known.
    pub snapshot_thread: Option<RecordBatch>,
}

/// Input that is not what the tables are declared as; never a matter of the recording.
#[derive(Debug, thiserror::Error)]
pub enum StateError {
    /// A table that is not declared.
    #[error("table {table} is not declared")]
    NoTable {
        /// Its name.
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
    /// A column has another type than declared.
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

/// Turns frames of base tables into the derived tables.
///
/// Outputs: `context_switch`, `wakeup` and `loss` as mended (they pass through: the caller keeps
/// them back), `sched_slice`, `thread_state`, `cpu_state`, `counter_delta`, its own rows of
/// `problem`, and `wakeup_mend` and `context_switch_mend` (see their schemas). All other tables of
/// a frame are the caller's to hand on. Rows come at their end, not sorted by time.
pub struct StateMachine {
    settings: Settings,
    base: i64,
    /// Times of the first and of the latest record taken in.
    earliest: i64,
    now: i64,
    threads: Vec<thread::Thread>,
    cpus: Vec<Option<Box<cpu::Cpu>>>,
    rows: rows::Rows,
    early_slices: Vec<leaving::Ended>,
    losses: Vec<gap::Loss>,
    /// Signaled gaps that start later, the first one on top.
    gaps_ahead: BinaryHeap<Reverse<gap::Gap>>,
    /// A migration has been recorded.
    migrations_recorded: bool,
    /// Where the latest gap on any CPU ends.
    gap_end: i64,
    wakeups: wakeups::Wakeups,
    records: records::Records,
    counters: counters::Counters,
    problems: problem::Problems,
    moment: moment::Scratch,
}

impl StateMachine {
    /// A machine that has seen nothing.
    pub fn new(settings: Settings) -> Self {
        Self {
            base: settings.trace_id.wrapping_shl(32),
            settings,
            earliest: i64::MAX,
            now: rows::BEGIN,
            threads: Vec::new(),
            cpus: Vec::new(),
            rows: rows::Rows::default(),
            early_slices: Vec::new(),
            losses: Vec::new(),
            gaps_ahead: BinaryHeap::new(),
            migrations_recorded: false,
            gap_end: rows::BEGIN,
            wakeups: wakeups::Wakeups::default(),
            records: records::Records::default(),
            counters: counters::Counters::default(),
            problems: problem::Problems::default(),
            moment: moment::Scratch::default(),
        }
    }

    /// Takes a frame in and hands out what is settled by it.
    ///
    /// # Errors
    /// Batches that are not as declared; never the contents of a recording.
    pub fn push(&mut self, frame: &Frame) -> Result<Vec<Output>, StateError> {
        let mut out = Vec::new();
        self.take_frame(frame, &mut out)?;
        Ok(out)
    }

    /// Closes everything that is open and hands out the rest.
    ///
    /// # Errors
    /// As [`StateMachine::push`].
    pub fn finish(self, end: &End) -> Result<Vec<Output>, StateError> {
        self.close(end)
    }
}
