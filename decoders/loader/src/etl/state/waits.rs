//! Requests to disks that have not been answered.

use std::collections::HashMap;

use schedlens_etl::Recording;
use schedlens_etl::facts::files::Files;

/// What the records about page faults and disks need.
#[derive(Debug)]
pub(in crate::etl) struct Waits<'a> {
    /// Names of files.
    pub(in crate::etl) files: &'a Files,
    /// Ticks per second of the performance counter, in which Windows counts response times.
    pub(in crate::etl) counter_hz: u64,
    /// The thread that issued each request, by its IRP.
    pub(in crate::etl) issued: HashMap<u64, i64>,
}

impl<'a> Waits<'a> {
    /// Before the first record.
    pub(in crate::etl) fn of(recording: &'a Recording) -> Self {
        let counter_hz = recording.scan().log().header().perf_freq;
        Self { files: recording.files(), counter_hz, issued: HashMap::new() }
    }
}
