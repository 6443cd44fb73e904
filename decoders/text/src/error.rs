//! Why a text cannot be read, and what of it could not be.

use std::io;

/// Why a text cannot be read at all.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// It has no line of its kind.
    #[error("contains no {wanted}: {advice}")]
    Nothing {
        /// What was searched.
        wanted: &'static str,
        /// How to make a file that has it.
        advice: &'static str,
    },
    /// A table lacks columns without which no switch is known.
    #[error("has no column {column}: add it to the table in WPA and export again")]
    Column {
        /// As WPA calls it.
        column: &'static str,
    },
    /// The operating system returned an error.
    #[error(transparent)]
    Io(#[from] io::Error),
}

/// Something of a text that could not be read.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Problem {
    /// Where: the first line, counted from 1.
    pub line: u64,
    /// What is wrong with it.
    pub what: &'static str,
    /// How many lines.
    pub count: u64,
}

impl Problem {
    /// Counts a line; problems of one kind are one row with its first line.
    pub(crate) fn count(problems: &mut Vec<Self>, line: u64, what: &'static str) {
        match problems.iter_mut().find(|problem| problem.what == what) {
            Some(problem) => problem.count += 1,
            None => problems.push(Self { line, what, count: 1 }),
        }
    }
}

/// The last line has no end, so what it says may be half a number.
pub(crate) const CUT_OFF: &str =
    "the last line has no end: the file is cut off there, and the line is left out";
/// A line longer than any real one.
pub(crate) const TOO_LONG: &str = "a line of more than 64 KiB: left out";
