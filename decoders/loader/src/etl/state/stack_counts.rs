//! What is counted about stacks.

/// Stacks that have no place.
#[derive(Clone, Copy, Debug, Default)]
pub(in crate::etl) struct StackCounts {
    /// Keys that no record defines.
    pub(in crate::etl) undefined: i64,
    /// Stacks whose event was handed out before they came.
    pub(in crate::etl) late: i64,
}
