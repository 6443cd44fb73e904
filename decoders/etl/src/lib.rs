//! Windows event trace logs (.etl): the output of an ETW session, merged or not.
//!
//! [`Log::open`] finds headers and buffers. [`Log::scan`] reads every record once in file order,
//! counts it and passes on the chosen ones. [`Scan::merge`] reads records in time order.
//! [`Switch::of`] is the simplest way to the context switches. [`Recording`] adds the machine, and
//! [`Survey`] the fields of each event.
//!
//! Each module uses only those before it: [`compression`] unpacks buffers, [`payload`] reads the
//! fields of events, [`records`] their headers, [`container`] files and buffers, [`passes`] reads
//! whole recordings, [`facts`] collects what records state about the machine, [`scrub`] writes a
//! log again without names.

#![deny(missing_docs)]

pub mod compression;
pub mod container;
mod error;
pub mod facts;
#[cfg(feature = "fuzzing")]
pub mod fuzzing;
mod guid;
pub mod passes;
pub mod payload;
pub mod recording;
pub mod records;
pub mod scrub;
mod switch;
#[cfg(test)]
mod tests;

pub use self::compression::{Packing, unpack_lznt1};
pub use self::container::{Log, begins};
pub use self::error::Error;
pub use self::facts::Survey;
pub use self::guid::Guid;
pub use self::passes::{Chosen, Gap, Merge, Scan};
pub use self::recording::Recording;
pub use self::records::{Id, Kind, Place, Pointer, Record};
pub use self::switch::Switch;
