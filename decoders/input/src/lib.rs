//! Code shared by the readers of recordings: mapped files, numbers and texts from bytes, single
//! events, and problems counted by location and kind.

#![deny(missing_docs)]

pub mod bytes;
pub mod event;
pub mod files;
pub mod problem;
