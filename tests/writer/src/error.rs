//! What can go wrong: a script that cannot be written, or a disk.

use std::fmt;

/// Why no file was written.
#[derive(Debug)]
pub enum WriteError {
    /// A line of the script; the number counts from 1.
    Line {
        /// Number of the line.
        line: usize,
        /// What is wrong with it.
        what: String,
    },
    /// A value that the format has no room for.
    Value(String),
    /// The disk.
    Io(std::io::Error),
}

impl WriteError {
    /// The same, in the line where it came up.
    #[must_use]
    pub fn at(self, line: usize) -> Self {
        match self {
            Self::Value(what) => Self::Line { line, what },
            other => other,
        }
    }
}

impl fmt::Display for WriteError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Line { line, what } => write!(f, "line {line}: {what}"),
            Self::Value(what) => f.write_str(what),
            Self::Io(error) => write!(f, "{error}"),
        }
    }
}

impl std::error::Error for WriteError {}

impl From<std::io::Error> for WriteError {
    fn from(error: std::io::Error) -> Self {
        Self::Io(error)
    }
}
