//! Chunks kept back until they are complete.

use super::Tables;

/// A chunk whose interrupts may still end.
pub(super) struct Pending {
    pub(super) number: u64,
    pub(super) tables: Tables,
    pub(super) until_ns: i64,
}
