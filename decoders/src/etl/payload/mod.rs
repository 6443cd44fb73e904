//! What the events themselves say: payload bytes in, values out. No state, no I/O.

mod kernel_layouts;
pub(crate) mod known;
mod layout;
pub(crate) mod manifest;
pub(crate) mod providers;
pub(crate) mod reader;
pub(crate) mod schema;
pub(crate) mod switching;
mod system_layouts;
mod tags;
pub(crate) mod tracelogging;
pub(crate) mod value;
pub(crate) mod winsat;
