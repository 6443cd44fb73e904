//! aes: 16 KiB in L1d, encrypted block by block with AES-128 (FIPS 197) by the CPU's AES unit.
//!
//! Each iteration encrypts 4 KiB and sums its blocks. An implementation of the standard's own steps
//! computes the expected sum.

#[cfg(target_arch = "aarch64")]
mod ce;
#[cfg(target_arch = "x86_64")]
mod ni;
mod steps;

use std::hint::black_box;

use crate::kernel::{Crew, Kernel, Proof, Unit, Variant, Work};

const BLOCK_BYTES: usize = 16;
const CHUNK_BYTES: usize = 4096;
const CHUNKS: usize = 4;
const ROUNDS: usize = 10;

/// The round keys of AES-128.
type Keys = [[u8; BLOCK_BYTES]; ROUNDS + 1];
/// Encrypts whole blocks and sums them as pairs of numbers.
type Encrypt = fn(keys: &Keys, blocks: &[u8]) -> [u64; 2];

/// The entry in the catalog.
pub static KERNEL: Kernel = Kernel {
    name: "aes",
    summary: "AES-128 of 16 KiB in L1d, 4 KiB an iteration",
    note: "throughput of the AES unit: eight blocks under way hide its latency",
    unit: Unit::Bytes,
    parties: 1,
    variants: &[
        #[cfg(target_arch = "x86_64")]
        Variant {
            name: "ni",
            refusal: |_| ni::refusal(),
            crew: |threads, _| Crew::alone(threads, |_| Ok(Cipher::new(ni::encrypt))),
        },
        #[cfg(target_arch = "aarch64")]
        Variant {
            name: "ce",
            refusal: |_| ce::refusal(),
            crew: |threads, _| Crew::alone(threads, |_| Ok(Cipher::new(ce::encrypt))),
        },
    ],
    usual_cycles: None,
    instructions: None,
};

/// The key of the standard's example, appendix B.
const KEY: [u8; BLOCK_BYTES] = [
    0x2b, 0x7e, 0x15, 0x16, 0x28, 0xae, 0xd2, 0xa6, 0xab, 0xf7, 0x15, 0x88, 0x09, 0xcf, 0x4f, 0x3c,
];
const EXAMPLE: [u8; BLOCK_BYTES] = [
    0x32, 0x43, 0xf6, 0xa8, 0x88, 0x5a, 0x30, 0x8d, 0x31, 0x31, 0x98, 0xa2, 0xe0, 0x37, 0x07, 0x34,
];
/// Its ciphertext according to the standard.
const EXAMPLE_ENCRYPTED: [u8; BLOCK_BYTES] = [
    0x39, 0x25, 0x84, 0x1d, 0x02, 0xdc, 0x09, 0xfb, 0xdc, 0x11, 0x85, 0x97, 0x19, 0x6a, 0x0b, 0x32,
];

fn add(sum: [u64; 2], other: [u64; 2]) -> [u64; 2] {
    [sum[0].wrapping_add(other[0]), sum[1].wrapping_add(other[1])]
}

fn halves(block: [u8; BLOCK_BYTES]) -> [u64; 2] {
    let both = u128::from_le_bytes(block);
    [both as u64, (both >> 64) as u64]
}

fn hex(sum: [u64; 2]) -> String {
    format!("{:016x}{:016x}", sum[0], sum[1])
}

/// The same by the standard's steps.
fn by_the_steps(keys: &Keys, blocks: &[u8]) -> [u64; 2] {
    blocks.chunks_exact(BLOCK_BYTES).fold([0; 2], |sum, block| {
        let mut text = [0; BLOCK_BYTES];
        text.copy_from_slice(block);
        add(sum, halves(steps::encrypt(keys, text)))
    })
}

struct Cipher {
    encrypt: Encrypt,
    keys: Keys,
    text: Vec<u8>,
    iterations: u64,
    sum: [u64; 2],
}

impl Cipher {
    fn new(encrypt: Encrypt) -> Cipher {
        let text = (0..CHUNKS * CHUNK_BYTES).map(|byte| (byte * 151 + byte / 255) as u8).collect();
        Cipher { encrypt, keys: steps::expand(KEY), text, iterations: 0, sum: [0; 2] }
    }
}

impl Work for Cipher {
    fn batch(&mut self, iterations: u64) -> u64 {
        for _ in 0..iterations {
            let begin = (self.iterations % CHUNKS as u64) as usize * CHUNK_BYTES;
            let chunk = &self.text[begin..begin + CHUNK_BYTES];
            self.sum = add(self.sum, (self.encrypt)(&self.keys, black_box(chunk)));
            self.iterations += 1;
        }
        iterations
    }

    fn bytes_per_iteration(&self) -> u64 {
        CHUNK_BYTES as u64
    }

    fn prove(&mut self) -> Vec<Proof> {
        let due: Vec<[u64; 2]> = Cipher::new(self.encrypt)
            .text
            .chunks_exact(CHUNK_BYTES)
            .map(|chunk| by_the_steps(&self.keys, chunk))
            .collect();
        let (rounds, rest) = (self.iterations / CHUNKS as u64, self.iterations % CHUNKS as u64);
        let pass = due.iter().fold([0; 2], |sum, chunk| add(sum, *chunk));
        let whole = pass.map(|half| half.wrapping_mul(rounds));
        let expected = due.iter().take(rest as usize).fold(whole, |sum, chunk| add(sum, *chunk));
        let example = (self.encrypt)(&self.keys, &EXAMPLE);
        vec![
            Proof::new("the example of FIPS 197", hex(halves(EXAMPLE_ENCRYPTED)), hex(example)),
            Proof::new(
                format!("sum of the blocks of {} chunks", self.iterations),
                hex(expected),
                hex(self.sum),
            ),
        ]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_steps_give_the_example_of_the_standard() {
        assert_eq!(steps::encrypt(&steps::expand(KEY), EXAMPLE), EXAMPLE_ENCRYPTED);
    }

    #[test]
    fn every_chunk_counts_and_a_wrong_byte_is_found() {
        for variant in KERNEL.variants {
            if (variant.refusal)(1).is_some() {
                continue;
            }
            #[cfg(target_arch = "x86_64")]
            let mut work = Cipher::new(ni::encrypt);
            #[cfg(target_arch = "aarch64")]
            let mut work = Cipher::new(ce::encrypt);
            work.batch(0);
            work.batch(11);
            assert!(work.prove().iter().all(Proof::holds));
            work.text[3 * CHUNK_BYTES + 5] ^= 1;
            work.batch(1);
            let holds: Vec<bool> = work.prove().iter().map(Proof::holds).collect();
            assert_eq!(holds, [true, false]);
        }
    }
}
