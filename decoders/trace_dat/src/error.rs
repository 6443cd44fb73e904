//! Why a recording cannot be read at all. Partial damage is reported as problems of the recording.

use std::io;

use schedlens_input::bytes::TooShort;
use schedlens_tracepoints as tracepoints;

/// Everything that prevents reading a recording.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The file does not start like trace.dat.
    #[error("begins with \"{}\", not as a trace.dat: give a file of trace-cmd", .found.escape_ascii())]
    Magic {
        /// The first bytes, at most ten.
        found: Vec<u8>,
    },
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
        "{what} has size {found}, {least} to {most} expected: the file is damaged, record it again"
    )]
    Size {
        /// What was being read.
        what: &'static str,
        /// The size found.
        found: u64,
        /// The smallest allowed size.
        least: u64,
        /// The largest allowed size.
        most: u64,
    },
    /// Something else is where a part of the file should be.
    #[error("{what} is not where the file says: it is cut off or damaged, record it again")]
    Misplaced {
        /// The missing part.
        what: &'static str,
    },
    /// A part of the description cannot be unpacked.
    #[error("{what} cannot be unpacked ({why}): the file is damaged, record it again")]
    Packed {
        /// What was being read.
        what: &'static str,
        /// The decompressor's message.
        why: String,
    },
    /// The file was written on a big-endian machine.
    #[error("recorded on a big-endian machine: not supported")]
    BigEndian,
    /// A version of the format that this reader does not know.
    #[error(
        "version {found} of trace.dat is not supported: `trace-cmd convert --file-version 7` \
         writes one that is"
    )]
    Version {
        /// The version found.
        found: String,
    },
    /// A compression that this reader does not know.
    #[error(
        "compressed with {found}: not supported, `trace-cmd convert --compression zstd` writes a \
         file that is"
    )]
    Compression {
        /// Its name.
        found: String,
    },
    /// The output of a latency tracer, which is text.
    #[error(
        "contains the text of a latency tracer and no events: record with `trace-cmd record -e`"
    )]
    Latency,
    /// Times that are no nanoseconds.
    #[error("the clock {clock} does not count nanoseconds: record with `trace-cmd record -C mono`")]
    Clock {
        /// Its name in tracefs.
        clock: String,
    },
    /// No CPU's data is described: the recorder was killed.
    #[error("contains no data of any CPU: trace-cmd stopped before it finished the file")]
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

impl From<tracepoints::Error> for Error {
    fn from(error: tracepoints::Error) -> Self {
        match error {
            tracepoints::Error::Magic { found } => Self::Magic { found },
            tracepoints::Error::BigEndian => Self::BigEndian,
            tracepoints::Error::TooShort(short) => Self::from(short),
        }
    }
}
