//! Missing records.

/// The value of `loss.signalled_by` for unreadable records.
pub const DAMAGED: &str = "damaged";

/// A period of one CPU in which records are missing; times are those of the file's clock.
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
