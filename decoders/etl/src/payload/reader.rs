//! Reads fields sequentially from a payload, never beyond its end.

/// A position in a payload.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Reader<'a> {
    bytes: &'a [u8],
    at: usize,
    /// Bytes of a pointer: 4 or 8.
    pointer: usize,
    /// Remaining values to read, because descriptions in a file can nest endlessly, and values may
    /// take no bytes.
    values: usize,
    /// Remaining bytes of their names.
    names: usize,
}

/// Values that may take no bytes, and values for each byte of a payload, structs and lists among
/// them; more means damaged data.
const EMPTY_VALUES: usize = 1024;
const VALUES_OF_BYTE: usize = 4;
/// The same for bytes of names, which repeat in lists of structs.
const NAMES: usize = 1 << 16;
const NAMES_OF_BYTE: usize = 64;

impl<'a> Reader<'a> {
    /// Starts at the first byte.
    pub(crate) fn new(bytes: &'a [u8], pointer: usize) -> Self {
        let values = EMPTY_VALUES + VALUES_OF_BYTE * bytes.len();
        let names = NAMES + NAMES_OF_BYTE * bytes.len();
        Self { bytes, at: 0, pointer, values, names }
    }

    /// The same bytes with another pointer size, from the first byte.
    pub(crate) fn with_pointer(&self, pointer: usize) -> Self {
        Self::new(self.bytes, pointer)
    }

    /// Bytes read so far.
    pub(crate) fn position(&self) -> usize {
        self.at
    }

    /// Bytes of a pointer.
    pub(crate) fn pointer_size(&self) -> usize {
        self.pointer
    }

    /// Counts a value and its name, which is empty in a list; `None` over the limits.
    pub(crate) fn count(&mut self, name: &str) -> Option<()> {
        self.values = self.values.checked_sub(1)?;
        self.names = self.names.checked_sub(name.len())?;
        Some(())
    }

    /// The remaining bytes.
    pub(crate) fn rest(&self) -> &'a [u8] {
        self.bytes.get(self.at..).unwrap_or_default()
    }

    /// The next `length` bytes.
    pub(crate) fn take(&mut self, length: usize) -> Option<&'a [u8]> {
        let found = self.rest().get(..length)?;
        self.at += length;
        Some(found)
    }

    /// An unsigned number of 1 to 8 bytes.
    pub(crate) fn unsigned(&mut self, length: usize) -> Option<u64> {
        let found = self.take(length)?;
        Some(found.iter().rev().fold(0, |sum, byte| sum << 8 | u64::from(*byte)))
    }

    /// A signed number of 1 to 8 bytes.
    pub(crate) fn signed(&mut self, length: usize) -> Option<i64> {
        let shift = 64 - 8 * length as u32;
        Some(self.unsigned(length)?.wrapping_shl(shift).cast_signed() >> shift)
    }

    /// A pointer-sized number.
    pub(crate) fn pointer(&mut self) -> Option<u64> {
        self.unsigned(self.pointer)
    }

    /// UTF-16 up to its NUL or the end of the payload; `None` at the end.
    pub(crate) fn text(&mut self) -> Option<String> {
        let rest = self.rest();
        if rest.len() < 2 {
            return None;
        }
        let units = rest.chunks_exact(2).map(|unit| u16::from_le_bytes([unit[0], unit[1]]));
        let length = units.clone().take_while(|unit| *unit != 0).count();
        self.at += (2 * length + 2).min(rest.len() & !1);
        Some(char::decode_utf16(units.take(length)).map(|c| c.unwrap_or('\u{fffd}')).collect())
    }

    /// UTF-16 in a field of `units` characters, up to the first NUL in it.
    pub(crate) fn fixed_text(&mut self, units: usize) -> Option<String> {
        let field = self.take(units.checked_mul(2)?)?;
        Reader::new(field, self.pointer).text().or_else(|| Some(String::new()))
    }

    /// Bytes up to a NUL or the end of the payload, as UTF-8, else as Windows-1252; `None` at the
    /// end.
    pub(crate) fn ansi(&mut self) -> Option<String> {
        let rest = self.rest();
        if rest.is_empty() {
            return None;
        }
        let length = rest.iter().position(|byte| *byte == 0).unwrap_or(rest.len());
        self.at += (length + 1).min(rest.len());
        Some(ansi_text(&rest[..length]))
    }
}

/// UTF-8 if valid, else Windows-1252, in which every byte has a meaning.
pub(crate) fn ansi_text(bytes: &[u8]) -> String {
    if let Ok(text) = std::str::from_utf8(bytes) {
        return text.to_owned();
    }
    const HIGH: [char; 32] = [
        '€', '\u{81}', '‚', 'ƒ', '„', '…', '†', '‡', 'ˆ', '‰', 'Š', '‹', 'Œ', '\u{8d}', 'Ž',
        '\u{8f}', '\u{90}', '‘', '’', '“', '”', '•', '–', '—', '˜', '™', 'š', '›', 'œ', '\u{9d}',
        'ž', 'Ÿ',
    ];
    let char_of = |byte: &u8| match byte {
        0x80..=0x9f => HIGH[usize::from(byte - 0x80)],
        _ => char::from(*byte),
    };
    bytes.iter().map(char_of).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_little_endian_and_signs_are_kept() {
        let mut reader = Reader::new(&[1, 2, 0xff, 0xfe, 0xff, 7], 4);
        assert_eq!(reader.unsigned(2), Some(0x201));
        assert_eq!(reader.signed(1), Some(-1));
        assert_eq!(reader.signed(2), Some(-2));
        assert_eq!(reader.pointer(), None);
        assert_eq!(reader.rest(), [7]);
    }

    #[test]
    fn strings_end_at_their_nul_or_at_the_end() {
        let mut reader = Reader::new(b"a\0b\0\0\0c\0d", 8);
        assert_eq!(reader.text().as_deref(), Some("ab"));
        assert_eq!(reader.text().as_deref(), Some("c"));
        assert_eq!(reader.text(), None);
        let mut ansi = Reader::new(b"x\0\xe4\x80", 8);
        assert_eq!(ansi.ansi().as_deref(), Some("x"));
        assert_eq!(ansi.ansi().as_deref(), Some("ä€"));
        assert_eq!(ansi.ansi(), None);
        assert_eq!(Reader::new(b"a\0\0\0b\0", 8).fixed_text(3).as_deref(), Some("a"));
    }
}
