//! perf.data: what Linux `perf record` writes, as a file, through a pipe, or as a folder.
//!
//! [`Recording::open`] finds the parts and indexes the records; [`Frames`] reads them in the order
//! of time and fills the base tables.

mod attrs;
mod compressed;
mod decoded;
mod events;
mod features;
mod formats;
mod frames;
mod header;
mod hotplug;
mod index;
mod inspection;
mod interrupts;
mod left_out;
mod machine;
mod merge;
mod misfits;
mod print_fmt;
mod reader;
mod record;
mod record_counts;
mod recording;
mod rows;
mod streams;
mod switches;
mod thread_tables;
mod threads;
mod ties;
mod topology;
mod tracepoints;
mod wakeups;

use crate::{bytes, columns, input, problem, shelf, staged};

/// The base tables of a frame.
type Tables = crate::tables::Tables<switches::Switches, wakeups::Wakeups>;

pub use self::frames::Frames;
pub use self::inspection::inspect;
pub use self::recording::Recording;
