//! A period of time.

/// From the first to the last record of something, ns.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Window {
    pub(crate) first: u64,
    pub(crate) last: u64,
}

impl Window {
    /// Whether it contains a time.
    #[inline]
    pub(crate) fn has(&self, ts: u64) -> bool {
        (self.first..=self.last).contains(&ts)
    }
}
