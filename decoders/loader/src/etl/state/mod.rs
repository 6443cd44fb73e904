//! What holds at the moment that is being read.

pub(super) mod cpus;
pub(super) mod filling;
pub(super) mod power;
pub(super) mod presents;
