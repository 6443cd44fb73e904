//! The perf.data of a schedule.

mod attrs;
mod features;
mod formats;
mod records;
mod writer;

pub use writer::Writer;
