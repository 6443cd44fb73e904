//! XPRESS with Huffman codes (MS-XCA 2.2), implemented from its specification alone.

use schedlens_input::bytes::{u16_at, u32_at};

use crate::compression::unpacked::Unpacked;
use crate::compression::xpress::{ROOM, copy};

/// Bytes encoded with one table.
const BLOCK: usize = 1 << 16;
const TABLE: usize = 256;
const SYMBOLS: usize = 512;
const LONGEST: u32 = 15;
/// Symbols from here on are matches; this one may also mark the end.
const END: u16 = 256;

/// Bits of an entry of [`Codes`] that have the length of the code.
const LENGTH_BITS: u32 = 4;

/// The symbol of each code by the next 15 bits, with the length of the code in its lowest bits;
/// length 0: no code starts with these bits.
pub(crate) struct Codes(Vec<u16>);

impl Default for Codes {
    fn default() -> Self {
        Self(vec![0; 1 << LONGEST])
    }
}

impl Codes {
    /// Codes are in the order of their lengths, then of their symbols.
    fn fill(&mut self, table: &[u8; TABLE]) {
        // The symbols of each length, behind those of shorter ones.
        let mut next = [0_usize; LONGEST as usize + 2];
        for byte in table {
            next[usize::from(byte & 15) + 1] += 1;
            next[usize::from(byte >> 4) + 1] += 1;
        }
        for length in 1..next.len() {
            next[length] += next[length - 1];
        }
        let without_code = next[1];
        let mut symbols = [0_u16; SYMBOLS];
        let lengths = table.iter().flat_map(|byte| [byte & 15, byte >> 4]);
        for (symbol, length) in (0..).zip(lengths) {
            let place = &mut next[usize::from(length)];
            symbols[*place] = symbol << LENGTH_BITS | u16::from(length);
            *place += 1;
        }
        let mut at = 0;
        for entry in &symbols[without_code..] {
            let end = at + (1 << (LONGEST - u32::from(entry & ((1 << LENGTH_BITS) - 1))));
            // A table may have more codes than there are: shorter ranges may still have room.
            let Some(entries) = self.0.get_mut(at..end) else { continue };
            entries.fill(*entry);
            at = end;
        }
        self.0[at..].fill(0);
    }
}

/// Words of 16 bits, read from the highest bit.
struct Bits<'a> {
    packed: &'a [u8],
    from: usize,
    window: u32,
    /// Bits in the window beyond the 16 that are always present.
    spare: i32,
}

impl<'a> Bits<'a> {
    fn new(packed: &'a [u8], from: usize) -> Self {
        let mut bits = Self { packed, from, window: 0, spare: 16 };
        bits.window = u32::from(bits.word()) << 16;
        bits.window |= u32::from(bits.word());
        bits
    }

    fn word(&mut self) -> u16 {
        let low = self.packed.get(self.from).copied().unwrap_or_default();
        let high = self.packed.get(self.from + 1).copied().unwrap_or_default();
        self.from += 2;
        u16::from_le_bytes([low, high])
    }

    #[inline(always)]
    fn drop(&mut self, count: u32) {
        self.window <<= count;
        self.spare -= count.cast_signed();
        if self.spare < 0 {
            self.window |= u32::from(self.word()) << -self.spare;
            self.spare += 16;
        }
    }

    /// The part of a match's length that its symbol does not contain, without the 3 that every
    /// match has.
    fn long_length(&mut self) -> Option<usize> {
        let byte = *self.packed.get(self.from)?;
        self.from += 1;
        if byte < 255 {
            return Some(15 + usize::from(byte));
        }
        let mut length = u32::from(u16_at(self.packed, self.from)?);
        self.from += 2;
        if length == 0 {
            length = u32_at(self.packed, self.from)?;
            self.from += 4;
        }
        (length >= 15).then_some(length as usize)
    }
}

/// Unpacks `packed` into the first `want` bytes of `out`, which is at least [`ROOM`] longer.
pub(crate) fn unpack(packed: &[u8], out: &mut [u8], want: usize, codes: &mut Codes) -> Unpacked {
    debug_assert!(out.len() >= want + ROOM);
    let (mut from, mut to) = (0, 0);
    while to < want {
        let Some(table) = packed.get(from..).and_then(<[u8]>::first_chunk) else {
            return Unpacked::cut(to);
        };
        codes.fill(table);
        let mut bits = Bits::new(packed, from + TABLE);
        let stop = want.min(to + BLOCK);
        while to < stop {
            let entry = codes.0[(bits.window >> (32 - LONGEST)) as usize];
            let (symbol, length) = (entry >> LENGTH_BITS, entry & ((1 << LENGTH_BITS) - 1));
            // Two words are read ahead, so a truncated input is only noticed later.
            if length == 0 || bits.from > packed.len() + 4 {
                return Unpacked::cut(to);
            }
            bits.drop(u32::from(length));
            if symbol < END {
                out[to] = symbol as u8;
                to += 1;
                continue;
            }
            let token = symbol - END;
            let mut length = usize::from(token & 15);
            let offset_bits = u32::from(token >> 4);
            if length == 15 {
                let Some(long) = bits.long_length() else { return Unpacked::cut(to) };
                length = long;
            }
            let mut offset = 1_usize << offset_bits;
            if offset_bits > 0 {
                offset += (bits.window >> (32 - offset_bits)) as usize;
                bits.drop(offset_bits);
            }
            if offset > to {
                return Unpacked::cut(to);
            }
            to = copy(out, to, offset, (length + 3).min(want - to));
        }
        from = bits.from;
    }
    Unpacked::ended(to, want)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn unpacked(packed: &[u8], want: usize) -> (Vec<u8>, bool) {
        let mut out = vec![0xee; want + ROOM];
        let made = unpack(packed, &mut out, want, &mut Codes::default());
        (out[..made.bytes].to_vec(), made.whole)
    }

    /// A table of code lengths by symbol.
    fn table(lengths: &[(usize, u8)]) -> Vec<u8> {
        let mut table = vec![0; TABLE];
        for (symbol, length) in lengths {
            table[symbol / 2] |= length << (symbol % 2 * 4);
        }
        table
    }

    fn alphabet() -> Vec<u8> {
        let mut lengths: Vec<_> = (97..119).map(|symbol| (symbol, 5)).collect();
        lengths.extend([(119, 4), (120, 4), (121, 4), (122, 4), (256, 4)]);
        let mut packed = table(&lengths);
        packed.extend([
            0xd8, 0x52, 0x3e, 0xd7, 0x94, 0x11, 0x5b, 0xe9, 0x19, 0x5f, 0xf9, 0xd6, 0x7c, 0xdf,
            0x8d, 0x04, 0, 0, 0, 0,
        ]);
        packed
    }

    /// The examples of MS-XCA 3.2.
    #[test]
    fn the_published_examples_unpack() {
        let letters: Vec<u8> = (b'a'..=b'z').collect();
        assert_eq!(unpacked(&alphabet(), 26), (letters, true));
        let mut packed = table(&[(97, 3), (98, 3), (99, 2), (256, 2), (287, 2)]);
        packed.extend([0xa8, 0xdc, 0x00, 0x00, 0xff, 0x26, 0x01]);
        assert_eq!(unpacked(&packed, 300), (b"abc".repeat(100), true));
    }

    #[test]
    fn truncated_input_or_missing_code_ends_there() {
        let packed = alphabet();
        assert!(!unpacked(&packed[..TABLE + 8], 26).1);
        assert_eq!(unpacked(&packed[..TABLE - 1], 26), (vec![], false));
        assert_eq!(unpacked(&vec![0; TABLE + 8], 26), (vec![], false));
    }

    /// Symbol by symbol of each length, as MS-XCA 2.2.4 says.
    fn codes_by_length(table: &[u8; TABLE]) -> Vec<u16> {
        let mut codes = vec![0; 1 << LONGEST];
        let mut at = 0;
        for bits in 1..=LONGEST {
            for symbol in 0..SYMBOLS {
                let length = u32::from(table[symbol / 2] >> (symbol % 2 * 4) & 15);
                let end = at + (1 << (LONGEST - bits));
                if length == bits && end <= codes.len() {
                    codes[at..end].fill((symbol << LENGTH_BITS) as u16 | length as u16);
                    at = end;
                }
            }
        }
        codes
    }

    #[test]
    fn codes_are_ordered_by_length_and_symbol() {
        let mut codes = Codes::default();
        let mut random = 1_u64;
        // Tables with far too many codes, with about as many as there are, and with few.
        for keep in [1, 2, 8, 40, 200, 1000].repeat(20) {
            let table = std::array::from_fn(|_| {
                random = random.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
                let drawn = random >> 33;
                if drawn.is_multiple_of(keep) { (drawn >> 10) as u8 } else { 0 }
            });
            codes.fill(&table);
            assert_eq!(codes.0, codes_by_length(&table));
        }
    }
}
