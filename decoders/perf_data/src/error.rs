//! Why a recording cannot be read at all. Partial damage is reported as problems of the recording.

use std::io;

use schedlens_input::bytes::TooShort;

/// Everything that prevents reading a recording.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The file does not start like perf.data.
    #[error("{}", foreign(found))]
    Magic {
        /// The first bytes, at most eight.
        found: Vec<u8>,
    },
    /// The formats of tracepoints cannot be read.
    #[error(transparent)]
    Formats(schedlens_tracepoints::Error),
    /// The file ends inside something that is needed to read the rest.
    #[error(
        "{what} needs {needed} bytes, {left} are left: the file is cut off or damaged, record it \
         again"
    )]
    TooShort {
        /// What was being read.
        what: &'static str,
        /// Bytes required.
        needed: u64,
        /// Bytes that remain.
        left: u64,
    },
    /// A size that the format does not allow.
    #[error(
        "{what} has size {found}, at least {least} expected: the file is damaged, record it again"
    )]
    Size {
        /// What was being read.
        what: &'static str,
        /// The size found.
        found: u64,
        /// The smallest allowed size.
        least: u64,
    },
    /// The file was written on a big-endian machine.
    #[error("recorded on a big-endian machine: not supported")]
    BigEndian,
    /// The first version of the format, not written since 2012.
    #[error(
        "first version of perf.data (PERFFILE) is not supported: record with perf 3.6 or later"
    )]
    FirstVersion,
    /// No event is described, so records cannot be distinguished.
    #[error("contains no event description: perf stopped before it started recording")]
    NoEvents,
    /// The records contain no times.
    #[error("records of {event} have no timestamps: record with `perf record -T`")]
    NoTimes {
        /// Name of an event without times.
        event: String,
    },
    /// A compressed record that cannot be unpacked, with nothing before it.
    #[error("compressed records cannot be read: {what}")]
    Compression {
        /// The decompressor's message.
        what: String,
    },
    /// A folder that does not contain the file `data`.
    #[error("a folder without the file `data` is no perf.data directory")]
    NoData,
    /// The operating system returned an error.
    #[error(transparent)]
    Io(#[from] io::Error),
}

impl From<TooShort> for Error {
    fn from(TooShort { what, needed, left }: TooShort) -> Self {
        Self::TooShort { what, needed, left }
    }
}

impl From<schedlens_tracepoints::Error> for Error {
    fn from(error: schedlens_tracepoints::Error) -> Self {
        match error {
            schedlens_tracepoints::Error::BigEndian => Self::BigEndian,
            schedlens_tracepoints::Error::TooShort(short) => Self::from(short),
            error @ schedlens_tracepoints::Error::Magic { .. } => Self::Formats(error),
        }
    }
}

fn foreign(found: &[u8]) -> String {
    match found {
        [] => "the file is empty: give a perf.data file".to_owned(),
        _ => format!(
            "begins with \"{}\", not with PERFILE2: give a perf.data file",
            found.escape_ascii()
        ),
    }
}
