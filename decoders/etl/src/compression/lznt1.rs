//! LZNT1 (MS-XCA 2.5): chunks of 4096 bytes. WinSAT's records use it too.

use schedlens_input::bytes::u16_at;

use crate::compression::unpacked::Unpacked;

const CHUNK: usize = 4096;
const IS_PACKED: u16 = 0x8000;

/// The most bytes that `packed` can unpack to, whatever length is stated with it.
pub(crate) fn longest(packed: &[u8]) -> usize {
    let (mut from, mut chunks) = (0, 0);
    while let Some(header) = u16_at(packed, from).filter(|header| *header != 0) {
        from += 2 + usize::from(header & 0xfff) + 1;
        chunks += 1;
    }
    chunks * CHUNK
}

/// Unpacks `packed` into `out` until either ends.
pub(crate) fn unpack(packed: &[u8], out: &mut [u8]) -> Unpacked {
    let want = out.len();
    let (mut from, mut to) = (0, 0);
    while to < want {
        let Some(header) = u16_at(packed, from).filter(|header| *header != 0) else {
            return Unpacked::ended(to, want);
        };
        from += 2;
        let size = usize::from(header & 0xfff) + 1;
        let chunk = packed.get(from..).unwrap_or_default();
        let whole = chunk.len() >= size;
        let chunk = chunk.get(..size).unwrap_or(chunk);
        let room = CHUNK.min(want - to);
        let target = out.get_mut(to..to + room).unwrap_or_default();
        if header & IS_PACKED == 0 {
            let count = chunk.len().min(room);
            target[..count].copy_from_slice(&chunk[..count]);
            to += count;
        } else {
            let (count, sound) = unpack_chunk(chunk, target);
            to += count;
            if !sound {
                return Unpacked::cut(to);
            }
        }
        if !whole {
            return Unpacked::ended(to, want);
        }
        from += size;
    }
    Unpacked::ended(to, want)
}

/// Bytes written, and whether the whole chunk was valid.
fn unpack_chunk(chunk: &[u8], out: &mut [u8]) -> (usize, bool) {
    let (mut from, mut to) = (0, 0);
    while from < chunk.len() && to < out.len() {
        let mut flags = chunk[from];
        from += 1;
        for _ in 0..8 {
            if from >= chunk.len() || to >= out.len() {
                return (to, true);
            }
            if flags & 1 == 0 {
                out[to] = chunk[from];
                from += 1;
                to += 1;
            } else {
                let Some(token) = u16_at(chunk, from) else { return (to, false) };
                from += 2;
                // Later positions use more bits for the distance.
                let distance_bits = (to.max(1) - 1).max(8).ilog2() + 1;
                let length_bits = 16 - distance_bits;
                let length = usize::from(token & ((1 << length_bits) - 1)) + 3;
                let distance = usize::from(token >> length_bits) + 1;
                if distance > to {
                    return (to, false);
                }
                let end = (to + length).min(out.len());
                for at in to..end {
                    out[at] = out[at - distance];
                }
                to = end;
            }
            flags >>= 1;
        }
    }
    (to, true)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn unpacked(packed: &[u8], want: usize) -> (Vec<u8>, bool) {
        let mut out = vec![0xee; want];
        let made = unpack(packed, &mut out);
        (out[..made.bytes].to_vec(), made.whole)
    }

    /// The example of MS-XCA 3.3.
    #[test]
    fn the_published_example_unpacks() {
        let packed = [
            0x38, 0xb0, 0x88, 0x46, 0x23, 0x20, 0x00, 0x20, 0x47, 0x20, 0x41, 0x00, 0x10, 0xa2,
            0x47, 0x01, 0xa0, 0x45, 0x20, 0x44, 0x00, 0x08, 0x45, 0x01, 0x50, 0x79, 0x00, 0xc0,
            0x45, 0x20, 0x05, 0x24, 0x13, 0x88, 0x05, 0xb4, 0x02, 0x4a, 0x44, 0xef, 0x03, 0x58,
            0x02, 0x8c, 0x09, 0x16, 0x01, 0x48, 0x45, 0x00, 0xbe, 0x00, 0x9e, 0x00, 0x04, 0x01,
            0x18, 0x90, 0x00,
        ];
        let song = b"F# F# G A A G F# E D D E F# F# E E F# F# G A A G F# E D D E F# E D D E E F# \
            D E F# G F# D E F# G F# E D E A F# F# G A A G F# E D D E F# E D D\0";
        assert_eq!(unpacked(&packed, song.len()), (song.to_vec(), true));
    }

    #[test]
    fn stored_chunks_are_copied() {
        let mut packed = vec![0x02, 0x30, b'a', b'b', b'c', 0x00, 0x30, b'd', 0, 0];
        assert_eq!(unpacked(&packed, 4), (b"abcd".to_vec(), true));
        packed.truncate(4);
        assert_eq!(unpacked(&packed, 4), (b"ab".to_vec(), false));
    }

    #[test]
    fn no_more_comes_out_than_chunks_have_room_for() {
        let packed = [0x02, 0x30, b'a', b'b', b'c', 0x00, 0x30, b'd', 0, 0, 0x00, 0x30, b'e'];
        assert_eq!(longest(&packed), 2 * CHUNK);
        assert_eq!(unpacked(&packed, 3 * CHUNK).0, b"abcd");
        // A chunk that is cut off unpacks as far as it goes.
        assert_eq!(longest(&packed[..7]), 2 * CHUNK);
        assert_eq!(longest(&packed[..1]), 0);
        assert_eq!(longest(&[]), 0);
    }

    #[test]
    fn a_distance_before_the_chunk_is_refused() {
        assert_eq!(unpacked(&[0x03, 0xb0, 0x02, b'a', 0x00, 0x10], 9), (b"a".to_vec(), false));
    }

    #[test]
    fn token_bits_split_by_position() {
        // One literal, then as many of the longest matches as fit, each from 1 byte back.
        let mut chunk = vec![];
        let (mut made, mut flags_at, mut bit) = (0_usize, 0, 8);
        let mut put = |packed: &[u8], flag: bool, chunk: &mut Vec<u8>| {
            if bit == 8 {
                flags_at = chunk.len();
                chunk.push(0);
                bit = 0;
            }
            chunk[flags_at] |= u8::from(flag) << bit;
            bit += 1;
            chunk.extend(packed);
        };
        put(b"x", false, &mut chunk);
        made += 1;
        while made < CHUNK {
            let mut length_bits = 12;
            let mut reach = made - 1;
            while reach >= 16 {
                length_bits -= 1;
                reach >>= 1;
            }
            let length = ((1_usize << length_bits) + 2).min(CHUNK - made);
            let length = if length < 3 { break } else { length };
            put(&((length - 3) as u16).to_le_bytes(), true, &mut chunk);
            made += length;
        }
        let mut packed = (0xb000 | (chunk.len() - 1) as u16).to_le_bytes().to_vec();
        packed.extend(&chunk);
        assert_eq!(unpacked(&packed, made), (vec![b'x'; made], true));
    }
}
