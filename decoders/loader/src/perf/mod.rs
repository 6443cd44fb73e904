//! Turns records of perf.data into rows of the base tables.
//!
//! [`Chunks`] reads the records of a [`schedlens_perf_data::Recording`] in time order.

mod callchains;
mod chunks;
mod inspection;
mod machine;
mod reader;
mod rows;

pub use self::chunks::Chunks;
pub use self::inspection::inspect;
