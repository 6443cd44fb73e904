//! Why a recording cannot be read at all. Partial damage becomes rows of `problem` instead.

use std::io;

use arrow_schema::ArrowError;
use schedlens_etl as etl;
use schedlens_perf_data as perf_data;
use schedlens_schedule::states::StateError;
use schedlens_trace_dat as trace_dat;

use crate::tables;

/// Who can act on an error, and thus which Python exception it becomes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ErrorKind {
    /// The file is not a recording: `NotATraceError`.
    NotATrace,
    /// Nothing of it can be read: `DamagedTraceError`.
    Damaged,
    /// Intact, but in an unsupported form: `UnsupportedTraceError`.
    Unsupported,
    /// The operating system returned an error: `OSError`.
    Io,
    /// A table supplied with the recording does not match its declaration: `ValueError`.
    Context,
}

/// Everything that prevents reading a recording.
#[derive(Debug, thiserror::Error)]
pub enum DecodeError {
    /// The file does not start like a recording.
    #[error("{}", not_a_recording(found))]
    Magic {
        /// The first bytes, at most eight.
        found: Vec<u8>,
    },
    /// A perf.data recording cannot be read.
    #[error(transparent)]
    Perf(perf_data::Error),
    /// A trace.dat cannot be read.
    #[error(transparent)]
    TraceDat(trace_dat::Error),
    /// A log cannot be read.
    #[error(transparent)]
    Etl(etl::Error),
    /// A text cannot be read.
    #[error("{0}")]
    Text(schedlens_text::Error),
    /// A folder of tables cannot be read.
    #[error(transparent)]
    Tables(#[from] tables::Error),
    /// A log inside an archive cannot be read.
    #[error("{name} in the archive: {cause}")]
    Member {
        /// Its name in the archive.
        name: String,
        /// Why it cannot be read.
        cause: Box<DecodeError>,
    },
    /// The given files do not belong to one recording.
    #[error("{what}: give the files of one recording together")]
    NotTogether {
        /// Which file does not belong, and why.
        what: String,
    },
    /// A reader violated its own invariants.
    #[error("damaged in a way the reader did not expect: {what}")]
    Internal {
        /// The message.
        what: String,
    },
    /// A supplied table does not match its declaration.
    #[error("table {table}: {what}")]
    Context {
        /// Table name.
        table: String,
        /// What is wrong.
        what: String,
    },
    /// The operating system returned an error.
    #[error(transparent)]
    Io(#[from] io::Error),
}

/// First bytes of packed files, what packed them, and the command that unpacks them.
const PACKED: [(&[u8], &str, &str); 5] = [
    (b"\xfd7zXZ", "xz", "xz -dk"),
    (b"\x1f\x8b", "gzip", "gunzip -k"),
    (b"\x28\xb5\x2f\xfd", "zstd", "zstd -d"),
    (b"BZh", "bzip2", "bunzip2 -k"),
    (b"7z\xbc\xaf\x27\x1c", "7-Zip", "7z x"),
];

fn not_a_recording(found: &[u8]) -> String {
    if found.is_empty() {
        return "the file is empty: give a perf.data, trace.dat or .etl file".to_owned();
    }
    if let Some((_, packer, command)) = PACKED.iter().find(|(magic, ..)| found.starts_with(magic)) {
        return format!("is packed with {packer}: unpack it first ({command} FILE)");
    }
    format!(
        "begins with \"{}\", not with PERFILE2 nor as a trace.dat or .etl file: give a perf.data, \
         trace.dat or .etl file",
        found.escape_ascii()
    )
}

impl DecodeError {
    /// Which exception it becomes.
    pub fn kind(&self) -> ErrorKind {
        use etl::Error as Etl;
        use perf_data::Error as Perf;
        use trace_dat::Error as Dat;
        match self {
            Self::Magic { .. } | Self::Perf(Perf::NoData) | Self::Etl(Etl::NoLogInZip) => {
                ErrorKind::NotATrace
            }
            Self::Perf(Perf::BigEndian | Perf::FirstVersion | Perf::NoTimes { .. })
            | Self::TraceDat(
                Dat::BigEndian
                | Dat::Version { .. }
                | Dat::Compression { .. }
                | Dat::Latency
                | Dat::Clock { .. },
            )
            | Self::NotTogether { .. } => ErrorKind::Unsupported,
            Self::Text(schedlens_text::Error::Nothing { .. }) => ErrorKind::NotATrace,
            Self::Tables(error) => of_tables(error),
            Self::Perf(_)
            | Self::TraceDat(_)
            | Self::Etl(_)
            | Self::Text(_)
            | Self::Internal { .. } => ErrorKind::Damaged,
            Self::Member { cause, .. } => cause.kind(),
            Self::Context { .. } => ErrorKind::Context,
            Self::Io(_) => ErrorKind::Io,
        }
    }
}

fn of_tables(error: &tables::Error) -> ErrorKind {
    use tables::Error;
    match error {
        Error::NoTables | Error::Format => ErrorKind::NotATrace,
        Error::Version { .. }
        | Error::Source { .. }
        | Error::NoSuchTable { .. }
        | Error::NoEvents
        | Error::Table { fault: tables::TableFault::Compressed, .. } => ErrorKind::Unsupported,
        _ => ErrorKind::Damaged,
    }
}

impl From<perf_data::Error> for DecodeError {
    fn from(error: perf_data::Error) -> Self {
        match error {
            perf_data::Error::Magic { found } => Self::Magic { found },
            perf_data::Error::Io(error) => Self::Io(error),
            error => Self::Perf(error),
        }
    }
}

impl From<schedlens_text::Error> for DecodeError {
    fn from(error: schedlens_text::Error) -> Self {
        match error {
            schedlens_text::Error::Io(error) => Self::Io(error),
            error => Self::Text(error),
        }
    }
}

impl From<trace_dat::Error> for DecodeError {
    fn from(error: trace_dat::Error) -> Self {
        match error {
            trace_dat::Error::Magic { found } => Self::Magic { found },
            trace_dat::Error::Io(error) => Self::Io(error),
            error => Self::TraceDat(error),
        }
    }
}

impl From<etl::Error> for DecodeError {
    fn from(error: etl::Error) -> Self {
        match error {
            etl::Error::Magic { found } => Self::Magic { found },
            etl::Error::NotTogether { what } => Self::NotTogether { what },
            etl::Error::Member { name, cause } => {
                Self::Member { name, cause: Box::new(Self::from(*cause)) }
            }
            etl::Error::Io(error) => Self::Io(error),
            error => Self::Etl(error),
        }
    }
}

impl From<ArrowError> for DecodeError {
    fn from(error: ArrowError) -> Self {
        Self::Internal { what: error.to_string() }
    }
}

impl From<StateError> for DecodeError {
    fn from(error: StateError) -> Self {
        Self::Internal { what: error.to_string() }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_foreign_file_is_refused_with_the_formats_that_are_read() {
        let error = |found: &[u8]| {
            let found = found.to_vec();
            DecodeError::from(perf_data::Error::Magic { found }).to_string()
        };
        assert_eq!(error(b""), "the file is empty: give a perf.data, trace.dat or .etl file");
        assert_eq!(
            error(b"\x7fELF\x02\x01\x01\0"),
            "begins with \"\\x7fELF\\x02\\x01\\x01\\x00\", not with PERFILE2 nor as a trace.dat \
             or .etl file: give a perf.data, trace.dat or .etl file"
        );
    }

    #[test]
    fn a_packed_file_is_refused_with_the_command_that_unpacks_it() {
        let error = not_a_recording;
        assert_eq!(error(b"\xfd7zXZ\0\0\x04"), "is packed with xz: unpack it first (xz -dk FILE)");
        assert_eq!(error(b"\x1f\x8b"), "is packed with gzip: unpack it first (gunzip -k FILE)");
        assert!(error(b"\x1f").starts_with("begins with"));
    }

    #[test]
    fn a_foreign_log_in_an_archive_is_refused_with_its_name() {
        let cause = Box::new(etl::Error::Magic { found: b"hello".to_vec() });
        let error = DecodeError::from(etl::Error::Member { name: "a.etl".to_owned(), cause });
        assert_eq!(error.kind(), ErrorKind::NotATrace);
        assert!(error.to_string().starts_with("a.etl in the archive: begins with \"hello\", not"));
    }
}
