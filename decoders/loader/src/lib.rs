//! Recordings as finished Arrow batches: each passes through its reader and the state machine.
//!
//! [`open::open`] finds the reader of a recording, and [`load::Load`] reads it in the background. [`perf`], [`trace_dat`] and [`etl`] turn the
//! records of a reader into chunks of base tables, [`tables`] reads such tables from a folder, and
//! [`reader`] is the interface between them and the driver. [`text_export`] reads texts, which become
//! recordings of these formats first.

mod background;
mod cpu_versions;
pub mod error;
pub mod etl;
pub mod event_lines;
pub mod format;
mod linux;
pub mod load;
pub mod open;
pub mod perf;
pub mod reader;
pub mod session;
pub mod stacks;
pub mod tables;
pub mod text_export;
pub mod trace_dat;

pub use self::background::{THREAD_NAME, without_panic};
