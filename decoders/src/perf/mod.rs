//! perf.data: what Linux `perf record` writes, as a file, through a pipe, or as a folder.
//!
//! [`Recording::open`] finds the parts and indexes the records; [`Frames`] reads them in the order
//! of time and fills the base tables.

mod attrs;
mod compressed;
mod events;
mod features;
mod formats;
mod frames;
mod header;
mod inspection;
mod interrupts;
mod machine;
mod print_fmt;
mod reader;
mod record;
mod recording;
mod streams;
mod threads;
mod topology;

use crate::{columns, tables};

pub use self::frames::Frames;
pub use self::inspection::inspect;
pub use self::recording::Recording;
