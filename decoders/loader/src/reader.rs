//! What the driver asks of a reader, whatever the format.

use std::collections::HashMap;

use arrow_array::RecordBatch;
use arrow_schema::ArrowError;
use schedlens_schedule::batcher::Batcher;
use schedlens_schedule::frame::{Batches, Frame};
use schedlens_schedule::states::Source;

/// The parts of a `trace` row that are not in the file.
#[derive(Clone, Copy, Debug)]
pub struct TraceFacts<'a> {
    /// Name of the step or of the file.
    pub label: &'a str,
    /// As given.
    pub path: &'a str,
    /// Earliest and latest time.
    pub window: (Option<i64>, Option<i64>),
    /// Records lost as the recorder tells, if it does.
    pub events_lost: Option<i64>,
}

/// A CPU is offline for a while.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Offline {
    /// Logical CPU.
    pub cpu: i32,
    /// From this time on.
    pub from_ns: i64,
    /// Up to this time; `None`: to the end.
    pub until_ns: Option<i64>,
}

/// What is known when the last frame has been handed out.
#[derive(Debug)]
pub struct Finished {
    /// Rows of `thread`, `process`, `thread_name`, `record_count`, `problem` and whatever else is
    /// known only at the end.
    pub batches: Batches,
    /// Time of the earliest record: 0 or before, or NULL without any.
    pub first_ns: Option<i64>,
    /// Time of the latest record.
    pub last_ns: Option<i64>,
    /// Records lost as the recorder tells, if it does.
    pub events_lost: Option<i64>,
    /// CPUs that went offline, in the order of time.
    pub offline: Vec<Offline>,
}

/// A recording that has been opened.
pub trait Reader {
    /// How much there is to read, in a unit of its own.
    fn extent(&self) -> u64;
    /// Records in it.
    fn records(&self) -> u64;
    /// Where it comes from.
    fn source(&self) -> Source;
    /// Raw clock at ns 0.
    fn start_clock(&self) -> i64;
    /// ns of the session folder's clock at ns 0: on Linux the trace's clock counts ns itself.
    fn session_ns(&self) -> i64 {
        self.start_clock()
    }
    /// Name of the clock of the time stamps.
    fn clock_name(&self) -> &'static str;
    /// Calls of `sched_yield` were recorded.
    fn has_yields(&self) -> bool;
    /// Wakings were recorded.
    fn has_wakings(&self) -> bool;
    /// Rows of `cpu`, as far as the file tells.
    ///
    /// # Errors
    /// Only what contradicts the schema.
    fn cpu_batch(&self, batcher: &Batcher) -> Result<RecordBatch, ArrowError>;
    /// The row of `trace`.
    ///
    /// # Errors
    /// Only what contradicts the schema.
    fn trace_batch(
        &self,
        batcher: &Batcher,
        facts: TraceFacts<'_>,
    ) -> Result<RecordBatch, ArrowError>;
    /// Reads from the begin; `core_types` by CPU, where known.
    fn frames<'a>(
        &'a self,
        batcher: &'a Batcher,
        trace_id: i64,
        core_types: HashMap<i32, String>,
    ) -> Box<dyn FrameSource + 'a>;
}

/// Reads a recording frame by frame.
pub trait FrameSource {
    /// The next frame; `None` after the last. `on_progress` gets how much has been read, in the
    /// unit of [`Reader::extent`], and says whether to go on.
    ///
    /// # Errors
    /// Only what contradicts the schema; never the contents of a recording.
    fn next_frame(
        &mut self,
        on_progress: &mut dyn FnMut(u64) -> bool,
    ) -> Result<Option<Frame>, ArrowError>;
    /// The thread that had an id at a time, or from the begin on, once all frames are read.
    fn utid_at(&self, tid: i64, ts: Option<i64>) -> Option<i64>;
    /// Everything that is known only at the end.
    ///
    /// # Errors
    /// Only what contradicts the schema.
    fn finish(&mut self) -> Result<Finished, ArrowError>;
}
