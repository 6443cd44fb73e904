//! What the readers of recordings share: files mapped into memory, numbers and texts out of bytes,
//! single events, and problems counted by place and kind.

#![deny(missing_docs)]

pub mod bytes;
pub mod event;
pub mod files;
pub mod problem;
