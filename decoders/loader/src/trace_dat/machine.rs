//! What a recording contains about its machine and its clock.

use arrow_array::RecordBatch;
use arrow_schema::ArrowError;
use schedlens_schedule::batcher::Batcher;
use schedlens_schedule::columns::Column;
use schedlens_trace_dat::Recording;

use crate::linux::machine::Described;

/// What the recording states about its machine and its clock.
pub(super) fn described(recording: &Recording) -> Described<'_> {
    Described {
        source: "trace_cmd",
        host: recording.host(),
        os: recording.os(),
        cpu_model: None,
        clock_name: recording.clock_name(),
        start_clock: recording.first.map(u64::cast_signed),
        wall_start_ns: recording.wall_start_ns(),
    }
}

/// Rows of `cpu`: the file names no cores and no caches.
///
/// # Errors
/// Fails only if a value contradicts the schema.
pub(super) fn cpu_batch(
    recording: &Recording,
    batcher: &Batcher,
) -> Result<RecordBatch, ArrowError> {
    let cpus = recording.cpus();
    let (mut numbers, mut online) = (Column::default(), Column::default());
    for cpu in &cpus {
        numbers.push(*cpu);
        online.push(true);
    }
    batcher.batch("cpu", cpus.len(), vec![("cpu", numbers.array()), ("online", online.array())])
}
