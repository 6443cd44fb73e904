//! Records that are missing.

/// What signals the loss where records cannot be read, in `loss.signalled_by`.
pub(crate) const DAMAGED: &str = "damaged";

/// A stretch of one CPU in which records are missing; times are those of the file's clock.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LostRecords {
    /// Logical CPU.
    pub cpu: i32,
    /// Time of the record before it, if there is one.
    pub before: Option<u64>,
    /// Time of the record after it; `None`: there is none.
    pub until: Option<u64>,
    /// How many, where that is known.
    pub events: Option<u64>,
    /// As in `loss.signalled_by`.
    pub signalled_by: &'static str,
}
