//! From base tables to slices, thread states and intervals.
//!
//! [`schema`] contains the tables as Arrow schemas, and [`batcher`] makes batches of [`columns`] in
//! these schemas; [`tables`] collects the base tables of a [`chunk`] row by row. [`states`] turns
//! the base tables of any source into slices and thread states; [`intervals`] finds what several
//! CPUs or threads do at the same moment.

pub mod batcher;
pub mod chunk;
pub mod columns;
pub mod intervals;
pub mod null_slots;
pub mod pool;
pub mod schema;
pub mod staged;
pub mod states;
pub mod tables;
