//! LZNT1, as MS-XCA 2.5 describes it.

use std::collections::HashMap;

use crate::bytes::Bytes;

const CHUNK: usize = 4096;

/// Compresses `data` into chunks; those that would grow are stored.
#[must_use]
pub(super) fn compress(data: &[u8]) -> Vec<u8> {
    let mut out = Bytes::new();
    for chunk in data.chunks(CHUNK) {
        let packed = chunk_packed(chunk);
        if packed.len() < chunk.len() {
            out.u16(0xB000 | (packed.len() - 1) as u16).raw(&packed);
        } else {
            out.u16(0x3000 | (chunk.len() - 1) as u16).raw(chunk);
        }
    }
    out.0
}

/// Bits of the length in a token at that position of a chunk.
fn length_bits(at: usize) -> u32 {
    let (mut bits, mut position) = (12, at - 1);
    while position >= 16 {
        bits -= 1;
        position >>= 1;
    }
    bits
}

fn chunk_packed(chunk: &[u8]) -> Vec<u8> {
    let mut out: Vec<u8> = Vec::new();
    let mut latest: HashMap<&[u8], usize> = HashMap::new();
    let (mut at, mut flags_at, mut count) = (0, 0, 8);
    while at < chunk.len() {
        if count == 8 {
            (flags_at, count) = (out.len(), 0);
            out.push(0);
        }
        let found = chunk.get(at..at + 3).and_then(|three| latest.insert(three, at));
        let matched = found.map(|from| {
            let most = (1_usize << length_bits(at)) + 2;
            let same = chunk[from..].iter().zip(&chunk[at..]).take(most);
            (at - from, same.take_while(|(a, b)| a == b).count())
        });
        match matched {
            Some((back, length)) => {
                let token = (back - 1) << length_bits(at) | (length - 3);
                out.extend((token as u16).to_le_bytes());
                out[flags_at] |= 1 << count;
                at += length;
            }
            None => {
                out.push(chunk[at]);
                at += 1;
            }
        }
        count += 1;
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::random::Random;

    /// MS-XCA 2.5, written down on its own.
    fn unpacked(data: &[u8]) -> Vec<u8> {
        let (mut out, mut at) = (Vec::new(), 0);
        while at < data.len() {
            let header = u16::from_le_bytes([data[at], data[at + 1]]);
            at += 2;
            let end = at + usize::from(header & 0xfff) + 1;
            let begin = out.len();
            if header & 0x8000 == 0 {
                out.extend(&data[at..end]);
                at = end;
            }
            while at < end {
                let flags = data[at];
                at += 1;
                for bit in 0..8 {
                    if at >= end {
                        break;
                    }
                    if flags >> bit & 1 == 0 {
                        out.push(data[at]);
                        at += 1;
                        continue;
                    }
                    let token = usize::from(data[at]) | usize::from(data[at + 1]) << 8;
                    at += 2;
                    let bits = length_bits(out.len() - begin);
                    let back = (token >> bits) + 1;
                    for _ in 0..(token & ((1 << bits) - 1)) + 3 {
                        out.push(out[out.len() - back]);
                    }
                }
            }
        }
        out
    }

    #[test]
    fn compressed_data_round_trips() {
        let mut random = Random::new(3);
        for size in [0, 1, 5, 100, 4095, 4096, 4097, 20_000] {
            for kinds in [1, 3, 200] {
                let data: Vec<u8> = (0..size).map(|_| (random.number() % kinds) as u8).collect();
                assert!(unpacked(&compress(&data)) == data, "{size} bytes of {kinds} kinds");
            }
        }
    }
}
