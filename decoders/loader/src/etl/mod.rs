//! Turns records of Windows event trace logs into rows of the base tables.

mod boundaries;
mod chunks;
mod code_changes;
mod finish;
mod inspection;
mod life;
mod life_rows;
mod listing;
mod lives;
mod machine;
mod power;
mod presents;
mod processes;
mod reader;
mod row_stacks;
mod rows;
mod scheduling;
mod session;
mod stacks;
mod state;
mod switches;
mod waits;
mod wakeups;

pub use self::inspection::inspect;
pub use self::listing::listing;

/// The base tables of a chunk.
type Tables = schedlens_schedule::tables::Tables<switches::Switches, wakeups::Wakeups>;
