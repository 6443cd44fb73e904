//! Recordings that another program printed as text.
//!
//! [`kind`] recognizes a file by its content. [`perf_script`] turns what `perf script` printed back
//! into a perf.data, which its reader then reads. [`windows`] reads the context switches that xperf
//! and wpaexporter print, row by row. All of them read a file once, in order, and keep one line.

#![deny(missing_docs)]

mod error;
mod kind;
mod lines;
mod numbers;
pub mod perf_script;
pub mod windows;

pub use self::error::{Error, Problem};
pub use self::kind::{Kind, kind};
pub use self::lines::{LONGEST_LINE, Line, Lines};
