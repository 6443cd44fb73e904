//! trace.dat: the output of `trace-cmd record`, versions 6 and 7, of the host or of a guest.
//!
//! [`Recording::open`] reads the description of a recording and passes over its pages once,
//! [`Merge`] reads the records of all CPUs and buffers in time order. The position of every field
//! is in [`schedlens_tracepoints::events`].
//!
//! The file is mapped, and compressed pages are unpacked a few at a time, so memory does not grow
//! with the file. A damaged part does not end the reading: it is counted in
//! [`Recording::problems`], and the times at which records are missing are in
//! [`Recording::gaps`].

#![deny(missing_docs)]

pub mod clock;
mod decoded;
mod error;
mod lane;
pub mod loss;
pub mod merge;
pub mod options;
mod order;
mod packing;
mod page;
mod pages;
mod parts;
pub mod recording;
mod scan;
mod selection;
mod slots;
mod stats;
mod version_6;
mod version_7;
mod versions;
mod window;

pub use self::error::Error;
pub use self::loss::LostRecords;
pub use self::merge::{Merge, Merged};
pub use self::recording::Recording;
