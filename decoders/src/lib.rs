//! Readers of recordings: bytes in, Arrow record batches out.
//!
//! `perf` reads perf.data; `states` turns the base tables of any source into slices and thread
//! states; `sweeps` finds what several CPUs or threads do at the same moment.

pub mod error;
pub mod frame;
pub mod load;
pub mod perf;
pub mod schema;
pub mod session;
pub mod states;
pub mod sweeps;

#[cfg(feature = "python")]
mod python_states;
#[cfg(feature = "python")]
pub mod python_sweeps;

#[cfg(feature = "python")]
mod python;
