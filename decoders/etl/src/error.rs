//! Why a log cannot be read at all; what can be read in part is a problem of the scan.

use std::io;

/// Everything that ends the reading of a log.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The first bytes are not those of a log.
    #[error("{}", foreign(found))]
    Magic {
        /// The bytes found, at most eight.
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
        /// Bytes that it takes.
        needed: u64,
        /// Bytes that are left.
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
    /// A log whose clock is none that is known.
    #[error(
        "the header of the log names a clock that is not known (type {kind}): record with the \
         performance counter (-clocktype PerfCounter)"
    )]
    LogClockKind {
        /// `ReservedFlags` of its header.
        kind: u32,
    },
    /// A log in an archive.
    #[error("{name} in the archive: {cause}")]
    Member {
        /// Its name there.
        name: String,
        /// Why it cannot be read.
        #[source]
        cause: Box<Error>,
    },
    /// A zip archive without a log in it.
    #[error("a zip archive without an .etl file: give the .etl.zip of a recording")]
    NoLogInZip,
    /// A zip archive that cannot be unpacked.
    #[error("the zip archive cannot be unpacked: {what}: unpack it yourself")]
    Zip {
        /// Why.
        what: String,
    },
    /// Files that are given together but are not of one recording.
    #[error("{what}: give the files of one recording together")]
    NotTogether {
        /// Which does not belong to the others, and why.
        what: String,
    },
    /// The system refused.
    #[error(transparent)]
    Io(#[from] io::Error),
}

impl Error {
    /// The same, said of a log in an archive.
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
