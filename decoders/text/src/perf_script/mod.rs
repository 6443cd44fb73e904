//! What `perf script` printed, as a perf.data again.
//!
//! The reader of perf.data then reads it as any other: pairs of switch records, lost records, times
//! that do not fit, threads that execute programs. The text lacks what the kernel's own record has
//! besides its fields: the flags of the interrupted context.

mod convert;
mod data;
mod described;
mod events;
mod fields;
mod head;

pub use self::convert::{Converted, convert};
pub(crate) use self::head::begins;
