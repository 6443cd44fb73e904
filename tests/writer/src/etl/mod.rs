//! The .etl of a schedule.

mod buffer;
mod config;
mod file_header;
mod kernel;
mod lznt1;
mod metadata;
mod power;
mod present;
mod record;
mod writer;
mod xpress;

pub use file_header::START_TIME;
pub use writer::Writer;
