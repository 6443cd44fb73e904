//! The result of unpacking.

/// The result of unpacking.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Unpacked {
    /// Bytes written.
    pub(crate) bytes: usize,
    /// Whether the data is complete.
    pub(crate) whole: bool,
}

impl Unpacked {
    /// The input ended normally.
    #[inline]
    pub(crate) fn ended(bytes: usize, want: usize) -> Self {
        Self { bytes: bytes.min(want), whole: bytes == want }
    }

    /// The rest of the input is invalid.
    #[inline]
    pub(crate) fn cut(bytes: usize) -> Self {
        Self { bytes, whole: false }
    }
}
