//! How far an unpacking came.

/// How far an unpacking came.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Unpacked {
    /// Bytes made.
    pub(crate) bytes: usize,
    /// Whether these are all.
    pub(crate) whole: bool,
}

impl Unpacked {
    /// It came to an end of its own.
    #[inline]
    pub(crate) fn ended(bytes: usize, want: usize) -> Self {
        Self { bytes: bytes.min(want), whole: bytes == want }
    }

    /// The input makes no sense from here on.
    #[inline]
    pub(crate) fn cut(bytes: usize) -> Self {
        Self { bytes, whole: false }
    }
}
