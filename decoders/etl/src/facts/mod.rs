//! What the records say of the machine, and what the events are called.

pub mod decoded;
pub mod description;
pub(crate) mod inspection;
pub mod manifests;
pub mod names;
pub mod numbering;
pub mod survey;
pub mod topology;

pub use self::survey::Survey;
