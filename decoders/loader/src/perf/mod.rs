//! Turns records of perf.data into rows of the base tables.
//!
//! [`Frames`] reads the records of a [`schedlens_perf_data::Recording`] in time order.

mod frames;
mod inspection;
mod interrupts;
mod lifetimes;
mod machine;
mod names;
mod pending;
mod processes;
mod reader;
mod record_counts;
mod rows;
mod staged_table;
mod switches;
mod thread_tables;
mod threads;
mod tracepoints;
mod wakeups;

/// The base tables of a chunk.
type Tables = schedlens_schedule::tables::Tables<switches::Switches, wakeups::Wakeups>;

pub use self::frames::Frames;
pub use self::inspection::inspect;
