//! Writes recordings for tests: one drawn schedule as a Windows .etl and as a perf.data.
//!
//! `script` is what comes in (JSON lines), `etl` and `perf` are what goes out, `flood` makes files
//! of any size for benchmarks. The files follow the published descriptions of both formats: they
//! hold a reader against those, not against Windows or Linux.

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
