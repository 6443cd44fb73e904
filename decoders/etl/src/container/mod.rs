//! The files of a recording: header, clock, buffers, and archives that contain logs.

pub(crate) mod buffer;
pub mod clock;
pub mod header;
pub(crate) mod log;
mod zip;

pub use self::clock::Clock;
pub use self::header::{LogHeader, begins};
pub use self::log::Log;
