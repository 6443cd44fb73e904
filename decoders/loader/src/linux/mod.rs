//! What recordings of Linux have in common, whichever program wrote them: lifetimes of threads,
//! interrupts, and the rows of tracepoints.

pub(crate) mod cgroup_moves;
pub(crate) mod cgroups;
pub(crate) mod chunks;
mod interrupts;
mod lifetimes;
pub(crate) mod machine;
mod names;
mod pending;
mod processes;
pub(crate) mod record_counts;
pub(crate) mod rows;
mod staged_table;
pub(crate) mod switches;
mod thread_tables;
pub(crate) mod threads;
pub(crate) mod tracepoints;
mod wakeups;

/// The base tables of a chunk.
type Tables = schedlens_schedule::tables::Tables<switches::Switches, wakeups::Wakeups>;
