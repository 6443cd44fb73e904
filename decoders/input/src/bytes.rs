//! Little-endian numbers and texts from bytes. Each length is checked against the remaining bytes.

/// Data that ends inside something that is needed to read the rest.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{what} needs {needed} bytes, {left} are left")]
pub struct TooShort {
    /// What was being read.
    pub what: &'static str,
    /// Bytes required.
    pub needed: u64,
    /// Bytes that remain.
    pub left: u64,
}

/// CPU numbers from here on count as damage: `NR_CPUS` is at most this.
pub const CPU_LIMIT: i32 = 1 << 13;

/// `u16` at a position, if within bounds.
#[inline]
pub fn u16_at(data: &[u8], at: usize) -> Option<u16> {
    let bytes = data.get(at..at.checked_add(2)?)?;
    Some(u16::from_le_bytes(bytes.try_into().ok()?))
}

/// `u32` at a position, if within bounds.
#[inline]
pub fn u32_at(data: &[u8], at: usize) -> Option<u32> {
    let bytes = data.get(at..at.checked_add(4)?)?;
    Some(u32::from_le_bytes(bytes.try_into().ok()?))
}

/// `u64` at a position, if within bounds.
#[inline]
pub fn u64_at(data: &[u8], at: usize) -> Option<u64> {
    let bytes = data.get(at..at.checked_add(8)?)?;
    Some(u64::from_le_bytes(bytes.try_into().ok()?))
}

/// Text up to the first NUL, or to the end.
pub fn text(data: &[u8]) -> String {
    let end = data.iter().position(|byte| *byte == 0).unwrap_or(data.len());
    String::from_utf8_lossy(data.get(..end).unwrap_or_default()).into_owned()
}

/// Reads values in sequence.
#[derive(Clone)]
pub struct Bytes<'a> {
    data: &'a [u8],
    at: usize,
    what: &'static str,
}

impl<'a> Bytes<'a> {
    /// Reads from `data`, whose name for messages is `what`.
    pub fn new(data: &'a [u8], what: &'static str) -> Self {
        Self { data, at: 0, what }
    }

    /// Number of unread bytes.
    pub fn left(&self) -> usize {
        self.data.len().saturating_sub(self.at)
    }

    /// Number of bytes read.
    pub fn position(&self) -> usize {
        self.at
    }

    /// The next `count` bytes.
    pub fn take(&mut self, count: u64) -> Result<&'a [u8], TooShort> {
        let short = TooShort { what: self.what, needed: count, left: self.left() as u64 };
        let Ok(count) = usize::try_from(count) else { return Err(short) };
        let Some(end) = self.at.checked_add(count) else { return Err(short) };
        let Some(found) = self.data.get(self.at..end) else { return Err(short) };
        self.at = end;
        Ok(found)
    }

    /// The next byte.
    pub fn u8(&mut self) -> Result<u8, TooShort> {
        Ok(self.take(1)?.first().copied().unwrap_or_default())
    }

    /// The next `u16`.
    pub fn u16(&mut self) -> Result<u16, TooShort> {
        Ok(u16_at(self.take(2)?, 0).unwrap_or_default())
    }

    /// The next `u32`.
    pub fn u32(&mut self) -> Result<u32, TooShort> {
        Ok(u32_at(self.take(4)?, 0).unwrap_or_default())
    }

    /// The next `u64`.
    pub fn u64(&mut self) -> Result<u64, TooShort> {
        Ok(u64_at(self.take(8)?, 0).unwrap_or_default())
    }

    /// A `perf_header_string`: length, bytes with NUL, padding.
    pub fn string(&mut self) -> Result<String, TooShort> {
        let length = self.u32()?;
        Ok(text(self.take(u64::from(length))?))
    }

    /// A NUL-terminated text.
    pub fn zero_ended(&mut self) -> Result<String, TooShort> {
        let rest = self.data.get(self.at..).unwrap_or_default();
        let Some(length) = rest.iter().position(|byte| *byte == 0) else {
            let left = rest.len() as u64;
            return Err(TooShort { what: self.what, needed: left + 1, left });
        };
        let found = text(self.take(length as u64 + 1)?);
        Ok(found)
    }
}

/// Bytes: about one memory latency, measured in records.
const PREFETCHED_AHEAD: usize = 4096;

/// Prefetches bytes needed a few records later, because the hardware prefetcher stops at each page.
#[inline(always)]
pub fn prefetch(data: &[u8], position: usize) {
    #[cfg(target_arch = "x86_64")]
    {
        use core::arch::x86_64::{_MM_HINT_T0, _mm_prefetch};
        let place = data.as_ptr().wrapping_add(position).wrapping_add(PREFETCHED_AHEAD);
        // SAFETY: a hint loads no value and cannot fault at any address.
        unsafe { _mm_prefetch::<_MM_HINT_T0>(place.cast()) };
    }
    #[cfg(not(target_arch = "x86_64"))]
    let _ = (data, position, PREFETCHED_AHEAD);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_length_beyond_the_end_is_refused_with_both_numbers() {
        let mut bytes = Bytes::new(&[9, 0, 0, 0, b'x'], "a string");
        match bytes.string() {
            Err(TooShort { what: "a string", needed: 9, left: 1 }) => {}
            other => panic!("{other:?}"),
        }
    }
}
