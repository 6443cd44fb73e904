//! Folders of base tables as Arrow files, as other programs write them.
//!
//! `docs/tables-folder.md` describes the format. Nothing in a folder is trusted: sizes, row counts,
//! columns, types, NULLs, order and ids are checked while the files are read.

mod chunks;
mod columns;
mod error;
mod file;
mod folder;
mod inspection;
mod manifest;
mod names;
mod order;
mod reader;
mod table;
#[cfg(test)]
mod tests;
mod texts;
mod time_order;

pub use self::error::{Error, TableFault};
pub use self::folder::Folder;
pub use self::inspection::inspect;
pub use self::names::is_folder;
