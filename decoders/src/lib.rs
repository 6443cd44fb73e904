//! Readers of recordings: bytes in, Arrow record batches out.
//!
//! `perf` reads perf.data, `etl` Windows event trace logs; `states` turns the base tables of any
//! source into slices and thread states; `sweeps` finds what several CPUs or threads do at the
//! same moment.

mod bytes;
pub mod columns;
mod cpu_versions;
pub mod error;
pub mod etl;
pub mod event;
pub mod event_lines;
pub mod format;
pub mod frame;
mod input;
pub mod load;
pub mod perf;
mod problem;
pub mod reader;
pub mod schema;
pub mod session;
mod shelf;
mod staged;
pub mod states;
pub mod sweeps;
mod tables;

#[cfg(feature = "python")]
mod python_states;
#[cfg(feature = "python")]
pub mod python_sweeps;

#[cfg(feature = "python")]
mod python;
