//! The most frequent kernel records: a `PERFINFO_TRACE_HEADER` of a 64-bit system directly followed
//! by the payload.

use crate::records::head::{COUNTERS, EVENT_TRACE, HAS_PEBS, Head, PERFINFO64};

/// Bytes of the header.
pub(crate) const HEADER: usize = 16;
/// The value of the first word in the bits of [`PLAIN_BITS`].
const PLAIN: u64 = (EVENT_TRACE as u64) << 24 | (PERFINFO64 as u64) << 16;
const PLAIN_BITS: u64 = (EVENT_TRACE as u64) << 24 | 0xff << 16 | HAS_PEBS as u64 | COUNTERS as u64;
const SIZE_SHIFT: u32 = 32;
const SIZE: u64 = 0xffff << SIZE_SHIFT;

/// The first bytes of a record, if it has enough of them and ends within its buffer. Its time is
/// only valid if it [is plain](Opening::is_plain).
#[derive(Clone, Copy, Debug)]
pub(crate) struct Opening {
    word: u64,
    /// Raw time.
    pub(crate) ts: i64,
}

impl Opening {
    /// At a position in a buffer's records.
    #[inline(always)]
    pub(crate) fn at(records: &[u8], at: usize) -> Option<Self> {
        let rest = records.get(at..)?;
        let [word, time, ..] = rest.as_chunks().0 else { return None };
        let found = Self { word: u64::from_le_bytes(*word), ts: i64::from_le_bytes(*time) };
        let fits = usize::from(found.size()).wrapping_sub(HEADER) <= rest.len() - HEADER;
        fits.then_some(found)
    }

    /// Whether it is a kernel record of a 64-bit system without PEBS index and counters.
    #[inline(always)]
    pub(crate) fn is_plain(self) -> bool {
        self.word & PLAIN_BITS == PLAIN
    }

    /// `HookId`
    #[inline(always)]
    pub(crate) fn hook(self) -> u16 {
        (self.word >> 48) as u16
    }

    /// Version of the event's layout.
    #[inline(always)]
    pub(crate) fn version(self) -> u8 {
        self.word as u8
    }

    /// Bytes without padding.
    #[inline(always)]
    pub(crate) fn size(self) -> u16 {
        (self.word >> SIZE_SHIFT) as u16
    }

    /// The part common to records of one kind.
    #[inline(always)]
    pub(crate) fn word_without_size(self) -> u64 {
        self.word & !SIZE
    }

    /// Where the next record starts if this one starts at `at`.
    #[inline(always)]
    pub(crate) fn end(self, at: usize) -> usize {
        at + ((usize::from(self.size()) + 7) & !7)
    }

    /// The same as a head, if it is plain.
    #[inline(always)]
    pub(crate) fn head(self) -> Head {
        Head::new(self.word, PERFINFO64, self.size(), self.ts)
    }
}

/// The parts of the most frequent kernel records.
#[derive(Clone, Copy, Debug)]
pub struct Brief<'a> {
    /// `HookId`
    pub hook: u16,
    /// Version of the event's layout.
    pub version: u8,
    /// The payload.
    pub payload: &'a [u8],
    /// The buffer's processor.
    pub cpu: Option<u16>,
}

impl<'a> Brief<'a> {
    /// The parts of the record at a position in a buffer's records, if it has no other parts.
    #[inline(always)]
    pub fn at(records: &'a [u8], at: usize, cpu: Option<u16>) -> Option<Self> {
        let opening = Opening::at(records, at).filter(|opening| opening.is_plain())?;
        let payload = records.get(at + HEADER..at + usize::from(opening.size()))?;
        Some(Self { hook: opening.hook(), version: opening.version(), payload, cpu })
    }
}
