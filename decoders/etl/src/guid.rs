//! `GUID`: the names of providers and event classes.

use std::fmt;

use schedlens_input::bytes::u64_at;

/// A GUID, as the two 64-bit halves of its 16 bytes in the file.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Guid(u64, u64);

impl Guid {
    /// From its text without hyphens as a number: `0x3d6fa8d1_fe05_11d0_9dda00c04fd7ba7c`.
    pub const fn from_text_order(text: u128) -> Self {
        let first = (text >> 96) as u32 as u64;
        let second = (text >> 80) as u16 as u64;
        let third = (text >> 64) as u16 as u64;
        Self(first | second << 32 | third << 48, (text as u64).swap_bytes())
    }

    /// The first number of its text.
    pub const fn first(self) -> u32 {
        self.0 as u32
    }

    /// From its bytes at an offset; `None` if they do not fit.
    #[inline]
    pub fn at(data: &[u8], at: usize) -> Option<Self> {
        Some(Self(u64_at(data, at)?, u64_at(data, at.checked_add(8)?)?))
    }
}

impl fmt::Display for Guid {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (first, second, third) = (self.0 as u32, (self.0 >> 32) as u16, (self.0 >> 48) as u16);
        let rest = self.1.swap_bytes();
        write!(
            f,
            "{first:08x}-{second:04x}-{third:04x}-{:04x}-{:012x}",
            rest >> 48,
            rest << 16 >> 16
        )
    }
}

impl fmt::Debug for Guid {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bytes_and_text_name_the_same_guid() {
        let bytes = [
            0xd1, 0xa8, 0x6f, 0x3d, 0x05, 0xfe, 0xd0, 0x11, 0x9d, 0xda, 0x00, 0xc0, 0x4f, 0xd7,
            0xba, 0x7c,
        ];
        let guid = Guid::at(&bytes, 0).expect("16 bytes");
        assert_eq!(guid, Guid::from_text_order(0x3d6fa8d1_fe05_11d0_9dda_00c04fd7ba7c));
        assert_eq!(guid.to_string(), "3d6fa8d1-fe05-11d0-9dda-00c04fd7ba7c");
        assert_eq!(Guid::at(&bytes, 1), None);
    }
}
