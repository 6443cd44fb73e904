//! Little-endian bytes, put together field by field.

/// A GUID in the order in which Windows stores it.
pub type Guid = [u8; 16];

/// Reads the text of a GUID, 8-4-4-4-12 hexadecimal digits.
///
/// `None` for any other text.
#[must_use]
pub fn guid(text: &str) -> Option<Guid> {
    let digits: String = text.chars().filter(|c| *c != '-').collect();
    let raw = hex(&digits)?;
    let mut found: Guid = raw.try_into().ok()?;
    found[..4].reverse();
    found[4..6].reverse();
    found[6..8].reverse();
    Some(found)
}

/// Reads hexadecimal digits, two for each byte.
#[must_use]
pub fn hex(digits: &str) -> Option<Vec<u8>> {
    if !digits.is_ascii() || !digits.len().is_multiple_of(2) {
        return None;
    }
    (0..digits.len())
        .step_by(2)
        .map(|at| u8::from_str_radix(digits.get(at..at + 2)?, 16).ok())
        .collect()
}

/// Bytes under construction.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Bytes(pub Vec<u8>);

impl Bytes {
    /// None yet.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// Appends bytes as they are.
    pub fn raw(&mut self, bytes: &[u8]) -> &mut Self {
        self.0.extend_from_slice(bytes);
        self
    }

    /// One byte.
    pub fn u8(&mut self, value: u8) -> &mut Self {
        self.raw(&[value])
    }

    /// Two bytes.
    pub fn u16(&mut self, value: u16) -> &mut Self {
        self.raw(&value.to_le_bytes())
    }

    /// Four bytes.
    pub fn u32(&mut self, value: u32) -> &mut Self {
        self.raw(&value.to_le_bytes())
    }

    /// Eight bytes.
    pub fn u64(&mut self, value: u64) -> &mut Self {
        self.raw(&value.to_le_bytes())
    }

    /// Eight bytes, signed.
    pub fn i64(&mut self, value: i64) -> &mut Self {
        self.raw(&value.to_le_bytes())
    }

    /// A pointer of `width` bytes, 4 or 8; what does not fit is cut off.
    pub fn pointer(&mut self, width: usize, value: u64) -> &mut Self {
        self.raw(&value.to_le_bytes()[..width.min(8)])
    }

    /// A `win:Boolean`: four bytes.
    pub fn boolean(&mut self, value: bool) -> &mut Self {
        self.u32(u32::from(value))
    }

    /// UTF-16 with a final zero.
    pub fn utf16z(&mut self, text: &str) -> &mut Self {
        for unit in text.encode_utf16() {
            self.u16(unit);
        }
        self.u16(0)
    }

    /// UTF-16 in a field of `units` code units, cut or filled with zeros.
    pub fn utf16_field(&mut self, text: &str, units: usize) -> &mut Self {
        let mut field: Vec<u16> = text.encode_utf16().take(units.saturating_sub(1)).collect();
        field.resize(units, 0);
        for unit in field {
            self.u16(unit);
        }
        self
    }

    /// Bytes of a text with a final zero.
    pub fn text_z(&mut self, text: &str) -> &mut Self {
        self.raw(text.as_bytes()).u8(0)
    }

    /// Bytes of a text in a field of `size` bytes, cut or filled with zeros.
    pub fn text_field(&mut self, text: &str, size: usize) -> &mut Self {
        let mut field: Vec<u8> = text.bytes().take(size.saturating_sub(1)).collect();
        field.resize(size, 0);
        self.raw(&field)
    }

    /// Zeros up to the next multiple of `step`.
    pub fn align(&mut self, step: usize) -> &mut Self {
        let length = self.0.len().next_multiple_of(step);
        self.0.resize(length, 0);
        self
    }

    /// `count` zeros.
    pub fn zeros(&mut self, count: usize) -> &mut Self {
        self.0.resize(self.0.len() + count, 0);
        self
    }

    /// Replaces four bytes that are there already.
    pub fn put_u32(&mut self, at: usize, value: u32) {
        if let Some(place) = self.0.get_mut(at..at + 4) {
            place.copy_from_slice(&value.to_le_bytes());
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn guid_is_stored_with_its_first_three_parts_reversed() {
        let found = guid("00112233-4455-6677-8899-aabbccddeeff").expect("a guid");
        let stored = [
            0x33, 0x22, 0x11, 0x00, 0x55, 0x44, 0x77, 0x66, 0x88, 0x99, 0xaa, 0xbb, 0xcc, 0xdd,
            0xee, 0xff,
        ];
        assert_eq!(found, stored);
        assert_eq!(guid("0011"), None);
        assert_eq!(hex("0g"), None);
    }
}
