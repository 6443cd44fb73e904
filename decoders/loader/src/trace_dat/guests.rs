//! Which recordings belong together, and the threads of a host that run the CPUs of its guests.

use arrow_array::RecordBatch;
use arrow_schema::ArrowError;
use schedlens_schedule::batcher::Batcher;
use schedlens_schedule::columns::{Column, texts};
use schedlens_trace_dat::Recording;

/// The row of `recording_identity`.
///
/// # Errors
/// Fails only if a value contradicts the schema.
pub(super) fn identity_batch(
    recording: &Recording,
    batcher: &Batcher,
) -> Result<RecordBatch, ArrowError> {
    let options = &recording.options;
    let (mut own, mut host) = (Column::default(), Column::default());
    own.push_option(options.trace_id.map(u64::cast_signed));
    host.push_option(options.time_shift.as_ref().map(|shift| shift.peer.cast_signed()));
    let columns = vec![("recording_uid", own.array()), ("host_uid", host.array())];
    batcher.batch("recording_identity", 1, columns)
}

/// Rows of `guest_cpu`; `utid_of` finds the thread that had an id when the recording began.
///
/// # Errors
/// Fails only if a value contradicts the schema.
pub(super) fn cpu_batch(
    recording: &Recording,
    batcher: &Batcher,
    utid_of: impl Fn(i64) -> Option<i64>,
) -> Result<RecordBatch, ArrowError> {
    let mut names = Vec::new();
    let (mut uid, mut cpu) = (Column::default(), Column::default());
    let (mut tid, mut utid) = (Column::default(), Column::default());
    for guest in recording.guests() {
        for (number, thread) in guest.cpus.iter().filter(|(_, thread)| *thread > 0) {
            names.push(Some(&guest.name));
            uid.push(guest.trace_id.cast_signed());
            cpu.push(*number);
            tid.push(i64::from(*thread));
            utid.push_option(utid_of(i64::from(*thread)));
        }
    }
    let rows = names.len();
    let columns = vec![
        ("guest", texts(names.into_iter())),
        ("guest_uid", uid.array()),
        ("cpu", cpu.array()),
        ("tid", tid.array()),
        ("utid", utid.array()),
    ];
    batcher.batch("guest_cpu", rows, columns)
}
