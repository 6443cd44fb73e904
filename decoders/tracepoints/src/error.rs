//! Why formats of tracepoints cannot be read.

use schedlens_input::bytes::TooShort;

/// Everything that prevents reading the formats.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Error {
    /// The formats do not start with their magic bytes.
    #[error("begins with \"{}\", not as formats of tracepoints", .found.escape_ascii())]
    Magic {
        /// The bytes found.
        found: Vec<u8>,
    },
    /// The machine is big-endian.
    #[error("recorded on a big-endian machine: not supported")]
    BigEndian,
    /// The data ends before the formats do.
    #[error(transparent)]
    TooShort(#[from] TooShort),
}
