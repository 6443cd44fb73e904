//! Why a log cannot be read at all. Partial damage is reported as problems of the scan.

use std::io;

/// Everything that prevents reading a log.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The file does not start like a log.
    #[error("{}", foreign(found))]
    Magic {
        /// The first bytes, at most eight.
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
    /// A log whose clock has no frequency.
    #[error(
        "the header of the log gives no frequency for its clock (type {kind}): the file is \
         damaged, record it again"
    )]
    LogClock {
        /// `ReservedFlags` of its header.
        kind: u32,
    },
    /// A log with an unknown clock.
    #[error(
        "the clock of the log is not known (type {kind}): record with the \
         performance counter (-clocktype PerfCounter)"
    )]
    LogClockKind {
        /// `ReservedFlags` of its header.
        kind: u32,
    },
    /// A log inside an archive cannot be read.
    #[error("{name} in the archive: {cause}")]
    Member {
        /// Its name in the archive.
        name: String,
        /// Why it cannot be read.
        #[source]
        cause: Box<Error>,
    },
    /// A zip archive that contains no log.
    #[error("a zip archive without an .etl file: give the .etl.zip of a recording")]
    NoLogInZip,
    /// A zip archive that cannot be unpacked.
    #[error("the zip archive cannot be unpacked: {what}: unpack it yourself")]
    Zip {
        /// Why.
        what: String,
    },
    /// The given files do not belong to one recording.
    #[error("{what}: give the files of one recording together")]
    NotTogether {
        /// Which file does not belong, and why.
        what: String,
    },
    /// The operating system returned an error.
    #[error(transparent)]
    Io(#[from] io::Error),
}

impl Error {
    /// The same error for a log in an archive.
    pub(crate) fn of_member(self, name: &str) -> Self {
        Self::Member { name: name.to_owned(), cause: Box::new(self) }
    }
}

fn foreign(found: &[u8]) -> String {
    match found {
        [] => "the file is empty: give an .etl file".to_owned(),
        _ => format!(
            "begins with \"{}\", not as an .etl file: give an .etl file",
            found.escape_ascii()
        ),
    }
}
