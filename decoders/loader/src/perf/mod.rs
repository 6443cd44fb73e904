//! Turns records of perf.data into rows of the base tables.
//!
//! [`Chunks`] reads the records of a [`schedlens_perf_data::Recording`] in time order.

mod chunks;
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

pub use self::chunks::Chunks;
pub use self::inspection::inspect;
