//! Turns records of trace.dat into rows of the base tables.
//!
//! [`Chunks`] reads the records of a [`schedlens_trace_dat::Recording`] in time order.

mod chunks;
mod guests;
mod inspection;
mod machine;
mod reader;
mod rows;

pub use self::chunks::Chunks;
pub use self::inspection::inspect;
