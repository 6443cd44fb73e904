//! The contents of events: converts payload bytes to values. No state, no I/O.

mod kernel_layouts;
pub mod known;
pub(crate) mod layout;
pub(crate) mod manifest;
pub mod providers;
pub(crate) mod reader;
pub(crate) mod schema;
pub mod stacks;
pub mod switching;
mod system_layouts;
pub(crate) mod tracelogging;
pub mod value;
pub(crate) mod winsat;
mod xml;
