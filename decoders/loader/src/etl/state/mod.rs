//! The state at the current moment.

pub(super) mod cpus;
pub(super) mod filling;
pub(super) mod power;
pub(super) mod presents;
pub(super) mod stack_counts;
pub(super) mod waits;
