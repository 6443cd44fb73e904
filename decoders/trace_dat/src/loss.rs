//! Missing records.

/// The values of `signalled_by`.
pub(crate) const DAMAGED: &str = "damaged";
/// The file ends before the data of a CPU does.
pub(crate) const TRUNCATED: &str = "truncated";
/// The kernel's flag of a page before which it overwrote others.
pub(crate) const MISSED_EVENTS: &str = "RB_MISSED_EVENTS";
/// The period between the records of two buffers with the same events.
pub(crate) const OTHER_BUFFER: &str = "buffer_change";
/// The counts at the end of a recording, which do not say when.
pub(crate) const CPU_STATS: &str = "cpu_stats";

/// A period of one CPU in which records are missing; times are those of [`crate::clock`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LostRecords {
    /// Logical CPU.
    pub cpu: i32,
    /// Time of the record before it, if any.
    pub before: Option<u64>,
    /// Time of the record after it, if any.
    pub until: Option<u64>,
    /// Number of records, if known.
    pub events: Option<u64>,
    /// As in `loss.signalled_by`.
    pub signalled_by: &'static str,
}
