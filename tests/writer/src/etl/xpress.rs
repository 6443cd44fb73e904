//! Plain XPRESS (LZ77), as MS-XCA 2.3 describes it: fast rather than small.

use crate::bytes::Bytes;

const WINDOW: usize = 8192;
const HASH_BITS: u32 = 14;
const SHORTEST: usize = 4;

/// Flag words, and the half bytes that long matches share.
struct Tokens {
    out: Bytes,
    flags: u32,
    flag_count: u32,
    flags_at: usize,
    half: Option<usize>,
}

impl Tokens {
    fn flag(&mut self, flag: u32) {
        self.flags = self.flags << 1 | flag;
        self.flag_count += 1;
        if self.flag_count == 32 {
            self.out.put_u32(self.flags_at, self.flags);
            (self.flags, self.flag_count) = (0, 0);
            self.flags_at = self.out.0.len();
            self.out.u32(0);
        }
    }

    fn literal(&mut self, byte: u8) {
        self.out.u8(byte);
        self.flag(0);
    }

    fn found(&mut self, offset: usize, length: usize) {
        let rest = length - 3;
        self.out.u16(((offset - 1) << 3 | rest.min(7)) as u16);
        if rest >= 7 {
            let nibble = (rest - 7).min(15) as u8;
            match self.half.take() {
                Some(at) => self.out.0[at] |= nibble << 4,
                None => {
                    self.half = Some(self.out.0.len());
                    self.out.u8(nibble);
                }
            }
            if rest >= 7 + 15 {
                let more = rest - 7 - 15;
                if more < 255 {
                    self.out.u8(more as u8);
                } else {
                    self.out.u8(255);
                    match u16::try_from(rest) {
                        Ok(rest) => self.out.u16(rest),
                        Err(_) => self.out.u16(0).u32(rest as u32),
                    };
                }
            }
        }
        self.flag(1);
    }

    fn finish(mut self) -> Vec<u8> {
        let left = 32 - self.flag_count;
        let ones = if left == 32 { u32::MAX } else { (1 << left) - 1 };
        let flags = if left == 32 { 0 } else { self.flags << left };
        self.out.put_u32(self.flags_at, flags | ones);
        self.out.0
    }
}

fn word(data: &[u8], at: usize) -> u32 {
    data.get(at..at + 4)
        .map_or(0, |four| four.iter().rev().fold(0, |sum, byte| sum << 8 | u32::from(*byte)))
}

fn place(word: u32) -> usize {
    (word.wrapping_mul(0x9E37_79B1) >> (32 - HASH_BITS)) as usize
}

/// Compresses `data` into one stream.
#[must_use]
pub(super) fn compress(data: &[u8]) -> Vec<u8> {
    let mut out = Bytes(Vec::with_capacity(data.len() / 2 + 64));
    out.u32(0);
    let mut tokens = Tokens { out, flags: 0, flag_count: 0, flags_at: 0, half: None };
    let mut table = vec![0_u32; 1 << HASH_BITS];
    let mut at = 0;
    while at < data.len() {
        if at + SHORTEST > data.len() {
            tokens.literal(data[at]);
            at += 1;
            continue;
        }
        let here = word(data, at);
        let slot = &mut table[place(here)];
        let candidate = (*slot as usize).checked_sub(1);
        *slot = at as u32 + 1;
        let candidate = candidate.filter(|from| at - from <= WINDOW && word(data, *from) == here);
        let Some(from) = candidate else {
            tokens.literal(data[at]);
            at += 1;
            continue;
        };
        let same = data[from + SHORTEST..].iter().zip(&data[at + SHORTEST..]);
        let length = SHORTEST + same.take_while(|(a, b)| a == b).count();
        tokens.found(at - from, length);
        at += length;
    }
    tokens.finish()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::random::Random;

    /// MS-XCA 2.4, written down on its own.
    fn unpacked(data: &[u8]) -> Vec<u8> {
        let (mut out, mut at, mut flags, mut left) = (Vec::new(), 0, 0_u32, 0);
        let mut half: Option<usize> = None;
        let two = |at: usize| usize::from(data[at]) | usize::from(data[at + 1]) << 8;
        loop {
            if left == 0 {
                flags = word(data, at);
                at += 4;
                left = 32;
            }
            left -= 1;
            if flags >> left & 1 == 0 {
                out.push(data[at]);
                at += 1;
                continue;
            }
            if at == data.len() {
                return out;
            }
            let (offset, mut length) = ((two(at) >> 3) + 1, two(at) & 7);
            at += 2;
            if length == 7 {
                length = match half.take() {
                    Some(before) => usize::from(data[before] >> 4),
                    None => {
                        half = Some(at);
                        at += 1;
                        usize::from(data[at - 1] & 15)
                    }
                };
                if length == 15 {
                    length = usize::from(data[at]);
                    at += 1;
                    if length == 255 {
                        length = two(at);
                        at += 2;
                        if length == 0 {
                            length = word(data, at) as usize;
                            at += 4;
                        }
                        length -= 15 + 7;
                    }
                    length += 15;
                }
                length += 7;
            }
            for _ in 0..length + 3 {
                out.push(out[out.len() - offset]);
            }
        }
    }

    #[test]
    fn compressed_data_round_trips() {
        let mut random = Random::new(7);
        let mut runs = vec![b"".to_vec(), b"abc".to_vec(), vec![7; 100], vec![9; 200_000]];
        runs.push((0..255).chain(0..255).collect());
        for size in [1, 31, 32, 33, 63, 64, 65, 1000, 70_000] {
            runs.push((0..size).map(|_| random.number() as u8).collect());
            runs.push((0..size).map(|_| (random.number() % 3) as u8).collect());
            runs.push(
                (0..size)
                    .map(|at| if at % 40 < 37 { at as u8 } else { random.number() as u8 })
                    .collect(),
            );
        }
        for data in runs {
            assert!(unpacked(&compress(&data)) == data, "{} bytes", data.len());
        }
    }

    // The examples of MS-XCA 3.1: a run of 26 letters, and 300 times "abc".
    #[test]
    fn the_published_examples_match() {
        let alphabet: Vec<u8> = (b'a'..=b'z').collect();
        let mut expected = 0x3f_u32.to_le_bytes().to_vec();
        expected.extend(&alphabet);
        assert_eq!(compress(&alphabet), expected);
        let packed = compress(&b"abc".repeat(100));
        let expected =
            [0xff, 0xff, 0xff, 0x1f, 0x61, 0x62, 0x63, 0x17, 0x00, 0x0f, 0xff, 0x26, 0x01];
        assert_eq!(packed, expected);
    }
}
