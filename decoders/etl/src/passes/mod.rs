//! Passes over the records of a whole recording. The first is in file order, counts, and finds
//! damage and loss; later ones are in time order.

mod batch;
pub mod chosen;
pub mod counts;
mod coverage;
mod lanes;
pub mod loss;
pub mod merge;
mod notes;
mod outliers;
pub mod scan;
mod walk;

pub use self::batch::Entry;
pub use self::chosen::Chosen;
pub use self::loss::Gap;
pub use self::merge::Merge;
pub use self::scan::Scan;
