//! What the records contain about the machine, and the names of the events.

pub mod code;
pub mod decoded;
pub mod description;
pub mod files;
pub mod images;
pub(crate) mod inspection;
pub mod manifests;
pub mod methods;
pub mod names;
pub mod numbering;
pub mod survey;
pub mod topology;

pub use self::survey::Survey;
