//! Writes recordings for tests: one drawn schedule as a Windows .etl and as a perf.data.
//!
//! `script` reads JSON lines, `etl` and `perf` write the files, `flood` makes files
//! of any size for benchmarks. The files follow the published descriptions of both formats:
//! a reader is checked against those, not against Windows or Linux.

pub mod bytes;
pub mod error;
pub mod etl;
pub mod event;
pub mod flood;
pub mod layout;
pub mod machine;
pub mod perf;
pub mod random;
pub mod roster;
pub mod script;
