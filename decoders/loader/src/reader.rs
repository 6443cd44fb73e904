//! What the driver requires of a reader of any format.

use std::collections::HashMap;
use std::path::PathBuf;

use arrow_array::RecordBatch;
use arrow_schema::ArrowError;
use schedlens_schedule::batcher::Batcher;
use schedlens_schedule::chunk::{Batches, Chunk};
use schedlens_schedule::states::Source;

use crate::error::DecodeError;
use crate::stacks::Stacks;

/// The parts of a `trace` row that are not in the file.
#[derive(Clone, Copy, Debug)]
pub struct TraceFacts<'a> {
    /// Name of the step or of the file.
    pub label: &'a str,
    /// The path as given.
    pub path: &'a str,
    /// Earliest and latest time.
    pub window: (Option<i64>, Option<i64>),
    /// Records lost according to the recorder, if known.
    pub events_lost: Option<i64>,
}

/// A period in which a CPU is offline.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Offline {
    /// Logical CPU.
    pub cpu: i32,
    /// Start, ns.
    pub from_ns: i64,
    /// End, ns; `None`: to the end of the recording.
    pub until_ns: Option<i64>,
}

/// What is known once the last chunk has been handed out.
#[derive(Debug)]
pub struct Finished {
    /// Rows of `thread`, `process`, `thread_name`, `record_count`, `problem` and other tables known
    /// only at the end.
    pub batches: Batches,
    /// Time of the earliest record: 0 or earlier, or NULL without records.
    pub first_ns: Option<i64>,
    /// Time of the latest record.
    pub last_ns: Option<i64>,
    /// Records lost according to the recorder, if known.
    pub events_lost: Option<i64>,
    /// CPUs that went offline, in time order.
    pub offline: Vec<Offline>,
    /// Stacks whose functions have no names yet; `None` if none were recorded.
    pub stacks: Option<Box<Stacks>>,
}

/// A recording that has been opened.
pub trait Reader {
    /// Amount of data to read, in a reader-specific unit.
    fn extent(&self) -> u64;
    /// Number of records.
    fn records(&self) -> u64;
    /// The source system.
    fn source(&self) -> Source;
    /// Raw clock at ns 0.
    fn start_clock(&self) -> i64;
    /// ns of the session folder's clock at ns 0: on Linux the trace's clock is itself in ns.
    fn session_ns(&self) -> i64 {
        self.start_clock()
    }
    /// Name of the timestamp clock.
    fn clock_name(&self) -> &str;
    /// Calls of `sched_yield` were recorded.
    fn has_yields(&self) -> bool;
    /// Wakeups were recorded.
    fn has_wakings(&self) -> bool;
    /// Only switches of chosen threads were recorded, so that who ran in between is unknown; `None`
    /// if the recorder does not say.
    fn of_chosen_threads(&self) -> Option<bool> {
        None
    }
    /// Scheduler ticks per second, if the recording has this setting.
    fn tick_hz(&self) -> Option<i64> {
        None
    }
    /// Rows of `cpu`, as far as the file describes the CPUs.
    ///
    /// # Errors
    /// A value contradicts the schema, or the rows of a folder of tables cannot be read.
    fn cpu_batch(&self, batcher: &Batcher) -> Result<RecordBatch, DecodeError>;
    /// The row of `trace`.
    ///
    /// # Errors
    /// Fails only if a value contradicts the schema.
    fn trace_batch(
        &self,
        batcher: &Batcher,
        facts: TraceFacts<'_>,
    ) -> Result<RecordBatch, ArrowError>;
    /// Reads from the start; `core_types` by CPU, if known.
    fn chunks<'a>(
        &'a self,
        batcher: &'a Batcher,
        trace_id: i64,
        core_types: HashMap<i32, String>,
    ) -> Box<dyn ChunkSource + 'a>;
}

/// Reads a recording chunk by chunk.
pub trait ChunkSource {
    /// The next chunk; `None` after the last. `on_progress` receives the amount read so far, in the
    /// unit of [`Reader::extent`], and returns whether to continue.
    ///
    /// # Errors
    /// A value contradicts the schema, or a folder of tables contradicts itself; never because of
    /// the contents of any other recording.
    fn next_chunk(
        &mut self,
        on_progress: &mut dyn FnMut(u64) -> bool,
    ) -> Result<Option<Chunk>, DecodeError>;
    /// Folders with copies of what just-in-time compilers wrote, set before the first chunk.
    fn generated_code(&mut self, _folders: &[PathBuf]) {}
    /// The thread that had an id at a time (without a time: at the start), once all chunks are
    /// read.
    fn utid_at(&self, tid: i64, ts: Option<i64>) -> Option<i64>;
    /// Everything that is known only at the end.
    ///
    /// # Errors
    /// As [`ChunkSource::next_chunk`].
    fn finish(&mut self) -> Result<Finished, DecodeError>;
}
