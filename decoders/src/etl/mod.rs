//! Windows event trace logs (.etl): what an ETW session writes, merged or not.
//!
//! [`Log::open`] finds headers and buffers; [`Log::scan`] reads every record once, in the order of
//! the file, counts it and shows those that were asked for; [`Scan::merge`] reads them in the order
//! of time. [`Recording`] turns them into rows.

mod batch;
mod buffer;
pub mod chosen;
pub mod clock;
pub mod counts;
pub mod events;
mod filling;
mod finish;
mod frames;
pub mod guid;
mod head;
pub mod header;
mod inspection;
mod lanes;
mod life;
mod life_rows;
mod listing;
mod lives;
mod log;
mod loss;
mod lznt1;
mod manifests;
mod merge;
mod message;
mod names;
mod notes;
mod numbering;
mod outliers;
mod payload;
mod plain;
mod power;
mod presents;
mod processes;
pub mod record;
mod recording;
mod rows;
mod scan;
mod scheduling;
mod session;
mod source;
mod survey;
mod switches;
#[cfg(test)]
mod tests;
mod topology;
mod unpack;
mod wakeups;
mod walk;
mod xpress;
mod xpress_huffman;
mod zip;

pub use self::chosen::Chosen;
pub use self::guid::Guid;
pub use self::header::begins;
pub use self::listing::listing;
pub use self::log::Log;
pub use self::loss::Gap;
pub use self::merge::Merge;
pub use self::record::{Id, Kind, Place, Pointer, Record};
pub use self::recording::Recording;
pub use self::scan::Scan;
pub use self::unpack::{Packing, unpack_lznt1};

/// The base tables of a frame.
type Tables = crate::tables::Tables<switches::Switches, wakeups::Wakeups>;
