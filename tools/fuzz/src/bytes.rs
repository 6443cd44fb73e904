//! Takes values from the fuzzer's bytes; after their end, every value is 0.

/// The bytes that remain.
pub struct Bytes<'a>(pub &'a [u8]);

impl<'a> Bytes<'a> {
    /// Up to `count` bytes.
    pub fn take(&mut self, count: usize) -> &'a [u8] {
        let (taken, rest) = self.0.split_at(count.min(self.0.len()));
        self.0 = rest;
        taken
    }

    /// One byte.
    pub fn u8(&mut self) -> u8 {
        self.take(1).first().copied().unwrap_or_default()
    }

    /// Two bytes.
    pub fn u16(&mut self) -> u16 {
        u16::from_le_bytes([self.u8(), self.u8()])
    }

    /// A part whose length precedes it.
    pub fn part(&mut self) -> &'a [u8] {
        let length = self.u16();
        self.take(length.into())
    }

    /// Whether none is left.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }
}

/// Whether these bytes are among the eighth for which a step that takes long is worth its time.
pub fn one_in_eight(data: &[u8]) -> bool {
    data.iter().fold(0_u8, |sum, byte| sum.wrapping_add(*byte)).is_multiple_of(8)
}
