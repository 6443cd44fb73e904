//! XPRESS, plain LZ77 (MS-XCA 2.4), the format of logs merged by Windows.

use schedlens_input::bytes::{u16_at, u32_at};

use crate::compression::unpacked::Unpacked;

/// Extra bytes after the wanted ones, because copies work on whole words.
pub(crate) const ROOM: usize = 64;
/// Literals moved by one copy.
const LITERALS: usize = 32;

/// Unpacks `packed` into the first `want` bytes of `out`, which is at least [`ROOM`] longer.
///
/// The bytes of `out` after the unpacked ones are undefined.
pub(crate) fn unpack(packed: &[u8], out: &mut [u8], want: usize) -> Unpacked {
    debug_assert!(out.len() >= want + ROOM);
    let (mut from, mut to) = (0, 0);
    // Position of the byte whose high nibble is the next long match's length.
    let mut half_used = None;
    while to < want {
        let Some(mut flags) = u32_at(packed, from) else {
            return Unpacked::cut(to);
        };
        from += 4;
        let mut left = 32;
        while left > 0 {
            let run = flags.leading_zeros().min(left);
            if run > 0 {
                let count = run as usize;
                match (packed.get(from..from + LITERALS), out.get_mut(to..to + LITERALS)) {
                    (Some(source), Some(target)) => target.copy_from_slice(source),
                    _ => {
                        let there = packed.len().saturating_sub(from).min(count);
                        let there = there.min(out.len().saturating_sub(to));
                        out[to..to + there].copy_from_slice(&packed[from..from + there]);
                        if there < count {
                            return Unpacked::ended(to + there, want);
                        }
                    }
                }
                from += count;
                to += count;
                if to >= want {
                    return Unpacked::ended(to, want);
                }
                left -= run;
                if left == 0 {
                    break;
                }
                flags <<= run;
            }
            flags <<= 1;
            left -= 1;
            let Some(word) = u16_at(packed, from) else {
                return if from >= packed.len() {
                    Unpacked::ended(to, want)
                } else {
                    Unpacked::cut(to)
                };
            };
            from += 2;
            let offset = usize::from(word >> 3) + 1;
            let mut length = usize::from(word & 7);
            if length == 7 {
                let Some(long) = long_length(packed, &mut from, &mut half_used) else {
                    return Unpacked::cut(to);
                };
                length = long;
            }
            length += 3;
            if offset > to {
                return Unpacked::cut(to);
            }
            to = copy(out, to, offset, length.min(want - to));
            if to >= want {
                return Unpacked::ended(to, want);
            }
        }
    }
    Unpacked::ended(to, want)
}

/// A length of 7 or more, without the 3 that every match has.
#[inline]
fn long_length(packed: &[u8], from: &mut usize, half_used: &mut Option<usize>) -> Option<usize> {
    let nibble = match half_used.take() {
        Some(at) => packed.get(at)? >> 4,
        None => {
            *half_used = Some(*from);
            *from += 1;
            packed.get(*from - 1)? & 15
        }
    };
    if nibble < 15 {
        return Some(7 + usize::from(nibble));
    }
    let byte = *packed.get(*from)?;
    *from += 1;
    if byte < 255 {
        return Some(7 + 15 + usize::from(byte));
    }
    let mut length = u32::from(u16_at(packed, *from)?);
    *from += 2;
    if length == 0 {
        length = u32_at(packed, *from)?;
        *from += 4;
    }
    (length >= 7 + 15).then_some(length as usize)
}

/// Repeats `length` bytes from `offset` back; returns the end position. At least [`ROOM`] bytes
/// must follow it.
#[inline(always)]
pub(crate) fn copy(out: &mut [u8], to: usize, offset: usize, length: usize) -> usize {
    const WORD: usize = 16;
    let end = to + length;
    let source = to - offset;
    if offset >= WORD {
        let mut done = 0;
        while done < length {
            let mut word = [0; WORD];
            word.copy_from_slice(&out[source + done..source + done + WORD]);
            out[to + done..to + done + WORD].copy_from_slice(&word);
            done += WORD;
        }
        return end;
    }
    if offset >= 8 {
        let mut done = 0;
        while done < length {
            let mut word = [0; 8];
            word.copy_from_slice(&out[source + done..source + done + 8]);
            out[to + done..to + done + 8].copy_from_slice(&word);
            done += 8;
        }
        return end;
    }
    if offset == 1 {
        let byte = out[source];
        out[to..end].fill(byte);
        return end;
    }
    for at in to..end {
        out[at] = out[at - offset];
    }
    end
}

#[cfg(test)]
mod tests {
    use super::*;

    fn unpacked(packed: &[u8], want: usize) -> (Vec<u8>, bool) {
        let mut out = vec![0xee; want + ROOM];
        let made = unpack(packed, &mut out, want);
        (out[..made.bytes].to_vec(), made.whole)
    }

    /// The examples of MS-XCA 3.1.
    #[test]
    fn the_published_examples_unpack() {
        let alphabet: Vec<u8> = (b'a'..=b'z').collect();
        let mut packed = vec![0x3f, 0, 0, 0];
        packed.extend(&alphabet);
        assert_eq!(unpacked(&packed, 26), (alphabet, true));
        let packed = [0xff, 0xff, 0xff, 0x1f, b'a', b'b', b'c', 0x17, 0x00, 0x0f, 0xff, 0x26, 0x01];
        assert_eq!(unpacked(&packed, 300), (b"abc".repeat(100), true));
    }

    #[test]
    fn two_long_matches_share_a_byte_of_nibbles() {
        // Literal a, a match of 3 + 7 + 2 from 1 back, one of 3 + 7 + 5: nibbles 2 and 5.
        let packed = [0, 0, 0, 0x60, b'a', 0x07, 0x00, 0x52, 0x07, 0x00];
        assert_eq!(unpacked(&packed, 1 + 12 + 15), (vec![b'a'; 28], true));
    }

    #[test]
    fn a_length_of_32_bits_is_read() {
        let packed = [0, 0, 0, 0x40, b'a', 0x07, 0x00, 0x0f, 0xff, 0, 0, 0x70, 0x11, 0x01, 0x00];
        assert_eq!(unpacked(&packed, 70_004), (vec![b'a'; 70_004], true));
    }

    #[test]
    fn each_distance_repeats_the_bytes_there() {
        for offset in 1..40_u16 {
            let literals: Vec<u8> = (0..offset as u8).collect();
            let mut packed = Vec::new();
            // Up to 31 literals with the first flags, the rest and the match with the second.
            let mut flags = u64::from(u32::MAX >> 1) >> 31;
            flags |= 1 << (63 - u32::from(offset));
            packed.extend(((flags >> 32) as u32).to_le_bytes());
            let split = literals.len().min(32);
            packed.extend(&literals[..split]);
            if offset >= 32 {
                packed.extend((flags as u32).to_le_bytes());
                packed.extend(&literals[split..]);
            }
            packed.extend(((offset - 1) << 3 | 7).to_le_bytes());
            packed.extend([15, 78]);
            let want: Vec<u8> =
                (0..usize::from(offset) + 103).map(|at| (at % usize::from(offset)) as u8).collect();
            assert_eq!(unpacked(&packed, want.len()), (want, true), "{offset}");
        }
    }

    #[test]
    fn truncated_or_out_of_range_input_ends_there() {
        let packed = [0, 0, 0, 0x40, b'a', 0x08, 0x00];
        assert_eq!(unpacked(&packed, 20), (vec![b'a'], false));
        assert_eq!(unpacked(&[0, 0, 0, 0, b'a', b'b'], 20), (vec![b'a', b'b'], false));
        assert_eq!(unpacked(&[0, 0], 20), (vec![], false));
        assert!(!unpacked(&[0, 0, 0, 0x40, b'a', 0x07, 0x00, 0x0f, 0xff, 3, 0], 20).1);
    }
}
