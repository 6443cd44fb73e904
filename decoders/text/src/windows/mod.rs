//! Context switches of Windows that xperf or wpaexporter printed, row by row.

mod cells;
mod decimal;
mod dumper;
mod precise;
mod row;
mod table;
mod words;

pub use self::dumper::Dumper;
pub(crate) use self::dumper::begins as begins_dumper;
pub use self::precise::Precise;
pub(crate) use self::precise::begins as begins_precise;
pub use self::row::{Facts, Kind, Row, Who};
