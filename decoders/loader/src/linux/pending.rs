//! Chunks kept back until they are complete.

use super::Tables;

/// A chunk whose interrupts may still end.
pub(crate) struct Pending {
    pub(crate) number: u64,
    pub(crate) tables: Tables,
    pub(crate) until_ns: i64,
}
