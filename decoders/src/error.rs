//! Why a recording cannot be read at all; what can be read in part is a row of `problem`.

use std::fmt;
use std::io;

/// Who can act on an error, and so which Python exception it becomes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ErrorKind {
    /// The file is no recording: `NotATraceError`.
    NotATrace,
    /// Nothing of it can be read: `DamagedTraceError`.
    Damaged,
    /// Whole, but of a form that is not read: `UnsupportedTraceError`.
    Unsupported,
    /// The system refused: `OSError`.
    Io,
    /// A table handed in beside the recording is not as declared: `ValueError`.
    Context,
}

/// Everything that ends the reading of a recording.
#[derive(Debug)]
pub enum DecodeError {
    /// The first bytes are not those of a recording.
    Magic {
        /// The bytes found, at most eight.
        found: Vec<u8>,
    },
    /// The file ends inside something that is needed to read the rest.
    TooShort {
        /// What was being read.
        what: &'static str,
        /// Bytes that it takes.
        needed: u64,
        /// Bytes that are left.
        left: u64,
    },
    /// A size that the format does not allow.
    Size {
        /// What was being read.
        what: &'static str,
        /// The size found.
        found: u64,
        /// The smallest that is allowed.
        least: u64,
    },
    /// The file was written on a big-endian machine.
    BigEndian,
    /// The first version of the format, not written since 2012.
    FirstVersion,
    /// No event is described, so no record can be told from another.
    NoEvents,
    /// The records carry no times.
    NoTimes {
        /// Name of an event without.
        event: String,
    },
    /// A compressed record that cannot be unpacked, with nothing before it.
    Compression {
        /// What the decompressor says.
        what: String,
    },
    /// A log whose clock has no frequency.
    LogClock {
        /// `ReservedFlags` of its header.
        kind: u32,
    },
    /// A log whose clock is none that is known.
    LogClockKind {
        /// `ReservedFlags` of its header.
        kind: u32,
    },
    /// A log in an archive.
    Member {
        /// Its name there.
        name: String,
        /// Why it cannot be read.
        cause: Box<DecodeError>,
    },
    /// A zip archive without a log in it.
    NoLogInZip,
    /// A zip archive that cannot be unpacked.
    Zip {
        /// Why.
        what: String,
    },
    /// Files that are given together but are not of one recording.
    NotTogether {
        /// Which does not belong to the others, and why.
        what: String,
    },
    /// A folder without the file `data` in it.
    NoData,
    /// A reader stumbled over its own invariants.
    Internal {
        /// What it said.
        what: String,
    },
    /// A table handed in is not as declared.
    Context {
        /// Its name.
        table: String,
        /// What is wrong with it.
        what: String,
    },
    /// The system refused.
    Io(io::Error),
}

impl DecodeError {
    /// The same, said of a log in an archive.
    pub(crate) fn of_member(self, name: &str) -> Self {
        Self::Member { name: name.to_owned(), cause: Box::new(self) }
    }

    /// Which exception it becomes.
    pub fn kind(&self) -> ErrorKind {
        match self {
            Self::Magic { .. } | Self::NoData | Self::NoLogInZip => ErrorKind::NotATrace,
            Self::TooShort { .. }
            | Self::Size { .. }
            | Self::NoEvents
            | Self::Compression { .. }
            | Self::LogClock { .. }
            | Self::LogClockKind { .. }
            | Self::Zip { .. }
            | Self::Internal { .. } => ErrorKind::Damaged,
            Self::BigEndian
            | Self::FirstVersion
            | Self::NoTimes { .. }
            | Self::NotTogether { .. } => ErrorKind::Unsupported,
            Self::Member { cause, .. } => cause.kind(),
            Self::Context { .. } => ErrorKind::Context,
            Self::Io(_) => ErrorKind::Io,
        }
    }
}

impl fmt::Display for DecodeError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Magic { found } if found.is_empty() => {
                write!(f, "the file is empty: give a perf.data or .etl file")
            }
            Self::Magic { found } => {
                write!(f, "begins with \"{}\", not with PERFILE2 ", found.escape_ascii())?;
                write!(f, "nor as an .etl file: give a perf.data or .etl file")
            }
            Self::TooShort { what, needed, left } => {
                write!(f, "{what} needs {needed} bytes, {left} are left: ")?;
                write!(f, "the file is cut off or damaged, record it again")
            }
            Self::Size { what, found, least } => {
                write!(f, "{what} has size {found}, at least {least} expected: ")?;
                write!(f, "the file is damaged, record it again")
            }
            Self::BigEndian => {
                write!(f, "recorded on a big-endian machine, which is not read")
            }
            Self::FirstVersion => {
                write!(f, "first version of perf.data (PERFFILE), which is not read: ")?;
                write!(f, "record with perf 3.6 or later")
            }
            Self::NoEvents => {
                write!(f, "describes no event: the recorder did not get as far as recording")
            }
            Self::NoTimes { event } => {
                write!(f, "records of {event} carry no times: record with `perf record -T`")
            }
            Self::Compression { what } => write!(f, "compressed records cannot be read: {what}"),
            Self::LogClock { kind } => {
                write!(
                    f,
                    "the header of the log gives no frequency for its clock (type {kind}): "
                )?;
                write!(f, "the file is damaged, record it again")
            }
            Self::LogClockKind { kind } => {
                write!(f, "the header of the log names a clock that is not known (type {kind}): ")?;
                write!(f, "record with the performance counter (-clocktype PerfCounter)")
            }
            Self::Member { name, cause } => write!(f, "{name} in the archive: {cause}"),
            Self::NoLogInZip => {
                write!(f, "a zip archive without an .etl file: give the .etl.zip of a recording")
            }
            Self::Zip { what } => {
                write!(f, "the zip archive cannot be unpacked: {what}: unpack it yourself")
            }
            Self::NotTogether { what } => {
                write!(f, "{what}: give the files of one recording together")
            }
            Self::NoData => write!(f, "a folder without the file `data` is no perf.data directory"),
            Self::Internal { what } => {
                write!(f, "damaged in a way the reader did not expect: {what}")
            }
            Self::Context { table, what } => write!(f, "table {table}: {what}"),
            Self::Io(error) => write!(f, "{error}"),
        }
    }
}

impl std::error::Error for DecodeError {}

impl From<io::Error> for DecodeError {
    fn from(error: io::Error) -> Self {
        Self::Io(error)
    }
}
