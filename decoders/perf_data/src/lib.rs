//! perf.data: the output of Linux `perf record`, as a file, through a pipe, or as a folder.
//!
//! [`Recording::open`] finds the parts of a recording and indexes its records, [`Merge`] reads the
//! records of all CPUs in time order. [`Recording::switch`] is the simplest way to the context
//! switches; [`attrs`] and [`schedlens_tracepoints::events`] contain the position of every other
//! field.
//!
//! A damaged part does not end the reading: it is counted in [`Recording::problems`], and the times
//! at which records are missing are in [`index::Index::gaps`].

#![deny(missing_docs)]

pub mod attrs;
pub mod callchain;
mod compressed;
mod counts;
mod decoded;
mod error;
mod facts;
pub mod features;
mod filter;
#[cfg(feature = "fuzzing")]
pub mod fuzzing;
mod header;
mod hotplug;
pub mod ids;
pub mod index;
mod input;
mod lane;
mod left_out;
pub mod loss;
pub mod mapping;
pub mod merge;
mod merged;
mod misfit;
mod misfits;
mod named;
mod opened;
mod overwritten;
mod preamble;
pub mod record;
pub mod recording;
pub mod streams;
mod switch;
mod ties;
pub mod topology;
pub mod user_state;

pub use self::error::Error;
pub use self::hotplug::Span as Offline;
pub use self::loss::{DAMAGED, LostRecords};
pub use self::merge::Merge;
pub use self::merged::Merged;
pub use self::recording::Recording;
pub use self::switch::Switch;
