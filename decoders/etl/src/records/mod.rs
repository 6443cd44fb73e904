//! The headers of all kinds of records. This module does not interpret payloads.

pub mod head;
mod message;
mod names;
pub mod plain;
pub mod record;

pub use self::names::{Id, Kind, Place, Pointer};
pub use self::record::{Extended, Item, Record};
