//! What the records contain about the machine, and the names of the events.

pub mod decoded;
pub mod description;
pub(crate) mod inspection;
pub mod manifests;
pub mod names;
pub mod numbering;
pub mod survey;
pub mod topology;

pub use self::survey::Survey;
