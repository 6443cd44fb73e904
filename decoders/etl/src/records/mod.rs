//! The headers of records, of every kind, without the payload's meaning.

pub mod head;
mod message;
mod names;
pub mod plain;
pub mod record;

pub use self::names::{Id, Kind, Place, Pointer};
pub use self::record::{Extended, Item, Record};
