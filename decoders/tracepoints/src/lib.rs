//! The tracepoints of Linux, in whichever file their raw data is.
//!
//! The kernel describes each tracepoint in a `format` file, and recorders copy these files:
//! [`formats`] reads the copies, [`events`] finds the fields that schedules consist of, and
//! [`fields`] reads all fields of any tracepoint.

#![deny(missing_docs)]

mod error;
pub mod events;
pub mod fields;
pub mod formats;
pub mod print_fmt;

pub use self::error::Error;
