//! sha256: the digest of 1 MiB of `a`, over and over (FIPS 180-4).
//!
//! Three implementations, one per file. An iteration is 4 KiB of the message. The digest of each
//! finished message is checked, so every hashed byte is verified.

#[cfg(target_arch = "aarch64")]
mod ce;
mod scalar;
#[cfg(target_arch = "x86_64")]
mod shani;
#[cfg(target_arch = "x86_64")]
mod simd;

use crate::kernel::{Crew, Kernel, Options, Proof, Unit, Variant, Work, anywhere};

/// First 32 bits of the fractional parts of the cube roots of the first 64 primes.
#[rustfmt::skip]
const K: [u32; 64] = [
    0x428a2f98, 0x71374491, 0xb5c0fbcf, 0xe9b5dba5, 0x3956c25b, 0x59f111f1, 0x923f82a4, 0xab1c5ed5,
    0xd807aa98, 0x12835b01, 0x243185be, 0x550c7dc3, 0x72be5d74, 0x80deb1fe, 0x9bdc06a7, 0xc19bf174,
    0xe49b69c1, 0xefbe4786, 0x0fc19dc6, 0x240ca1cc, 0x2de92c6f, 0x4a7484aa, 0x5cb0a9dc, 0x76f988da,
    0x983e5152, 0xa831c66d, 0xb00327c8, 0xbf597fc7, 0xc6e00bf3, 0xd5a79147, 0x06ca6351, 0x14292967,
    0x27b70a85, 0x2e1b2138, 0x4d2c6dfc, 0x53380d13, 0x650a7354, 0x766a0abb, 0x81c2c92e, 0x92722c85,
    0xa2bfe8a1, 0xa81a664b, 0xc24b8b70, 0xc76c51a3, 0xd192e819, 0xd6990624, 0xf40e3585, 0x106aa070,
    0x19a4c116, 0x1e376c08, 0x2748774c, 0x34b0bcb5, 0x391c0cb3, 0x4ed8aa4a, 0x5b9cca4f, 0x682e6ff3,
    0x748f82ee, 0x78a5636f, 0x84c87814, 0x8cc70208, 0x90befffa, 0xa4506ceb, 0xbef9a3f7, 0xc67178f2,
];

/// First 32 bits of the fractional parts of the square roots of the first 8 primes.
const INITIAL: [u32; 8] = [
    0x6a09e667, 0xbb67ae85, 0x3c6ef372, 0xa54ff53a, 0x510e527f, 0x9b05688c, 0x1f83d9ab, 0x5be0cd19,
];

const BLOCK_BYTES: usize = 64;
const CHUNK_BYTES: usize = 4096;
const MESSAGE_BYTES: u64 = 1 << 20;
const MESSAGE_DIGEST: &str = "9bc1b2a288b26af7257a36277ae3816a7d4f16e89c1e7e77d0a5c48bad62b360";

/// Known digests, at lengths around those where the padding needs another block.
const SHORT: [(&str, usize, &str); 7] = [
    ("", 1, "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855"),
    ("abc", 1, "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad"),
    ("a", 55, "9f4390f8d30c2dd92ec9f095b65e2b9ae9b0a925a5258e241c9f1e910f734318"),
    ("a", 56, "b35439a4ac6f0948b6d6f9e3c6af0f5f590ce20f1bde7090ef7970686ec6738a"),
    ("a", 63, "7d3e74a05d7db15bce4ad9ec0658ea98e3f06eeecf16b4c6fff2da457ddc2f34"),
    ("a", 64, "ffe054fe7ae0cb6dc65c3af9b61d5209f439851db43d0ba5997337df154668eb"),
    ("a", 65, "635361c48bb9eab14198e76ea8ab7f1a41685d6ad62aa9146d301d4f17eb0ae0"),
];

/// Compresses whole blocks into the state; a trailing partial block is ignored.
pub type Compress = fn(state: &mut [u32; 8], blocks: &[u8]);

/// The entry in the catalog.
pub static KERNEL: Kernel = Kernel {
    name: "sha256",
    summary: "SHA-256 of 1 MiB of 'a', 4 KiB an iteration",
    note: "simd: about 2700 SSE2 instructions a block in registers, limited by the vector ports; \
           shani, ce: latency of the SHA unit; scalar is the default if simd does not exist \
           (aarch64)",
    unit: Unit::Bytes,
    parties: 1,
    variants: &[
        #[cfg(target_arch = "x86_64")]
        Variant {
            name: "simd",
            refusal: anywhere,
            crew: |threads, _: Options| Crew::alone(threads, |_| Ok(Hashing::new(simd::compress))),
        },
        Variant {
            name: "scalar",
            refusal: anywhere,
            crew: |threads, _: Options| {
                Crew::alone(threads, |_| Ok(Hashing::new(scalar::compress)))
            },
        },
        #[cfg(target_arch = "x86_64")]
        Variant {
            name: "shani",
            refusal: |_| shani::refusal(),
            crew: |threads, _: Options| Crew::alone(threads, |_| Ok(Hashing::new(shani::compress))),
        },
        #[cfg(target_arch = "aarch64")]
        Variant {
            name: "ce",
            refusal: |_| ce::refusal(),
            crew: |threads, _: Options| Crew::alone(threads, |_| Ok(Hashing::new(ce::compress))),
        },
    ],
    usual_cycles: None,
    instructions: None,
};

/// Appends the padding of FIPS 180-4, 5.1.1 and returns the digest in hex.
fn finish(compress: Compress, mut state: [u32; 8], rest: &[u8], message_bytes: u64) -> String {
    let mut tail = rest.to_vec();
    tail.push(0x80);
    while tail.len() % BLOCK_BYTES != BLOCK_BYTES - 8 {
        tail.push(0);
    }
    tail.extend_from_slice(&(message_bytes * 8).to_be_bytes());
    compress(&mut state, &tail);
    state.iter().map(|word| format!("{word:08x}")).collect()
}

/// The fastest implementation on this machine.
pub fn fastest() -> Compress {
    #[cfg(target_arch = "x86_64")]
    return if shani::refusal().is_none() { shani::compress } else { simd::compress };
    #[cfg(target_arch = "aarch64")]
    return if ce::refusal().is_none() { ce::compress } else { scalar::compress };
}

/// Compresses whole blocks in plain Rust.
pub fn plain() -> Compress {
    scalar::compress
}

/// The digest of a message, in hex.
pub fn digest(compress: Compress, message: &[u8]) -> String {
    let whole = message.len() - message.len() % BLOCK_BYTES;
    let mut state = INITIAL;
    compress(&mut state, &message[..whole]);
    finish(compress, state, &message[whole..], message.len() as u64)
}

struct Hashing {
    compress: Compress,
    chunk: Vec<u8>,
    state: [u32; 8],
    /// Hashed bytes of the current message.
    hashed: u64,
    digests: u64,
    wrong: Option<String>,
    short: Vec<Proof>,
}

impl Hashing {
    fn new(compress: Compress) -> Hashing {
        let short = SHORT
            .iter()
            .map(|(text, times, expected)| {
                let found = digest(compress, text.repeat(*times).as_bytes());
                Proof::new(format!("digest of \"{text}\" x {times}"), expected, found)
            })
            .collect();
        let mut hashing = Hashing {
            compress,
            chunk: vec![b'a'; CHUNK_BYTES],
            state: INITIAL,
            hashed: 0,
            digests: 0,
            wrong: None,
            short,
        };
        hashing.batch(MESSAGE_BYTES / CHUNK_BYTES as u64);
        hashing
    }

    fn finish_message(&mut self) {
        let found = finish(self.compress, self.state, &[], self.hashed);
        self.digests += 1;
        if found != MESSAGE_DIGEST {
            self.wrong.get_or_insert(found);
        }
        self.state = INITIAL;
        self.hashed = 0;
    }
}

impl Work for Hashing {
    fn batch(&mut self, iterations: u64) -> u64 {
        for _ in 0..iterations {
            (self.compress)(&mut self.state, &self.chunk);
            self.hashed += CHUNK_BYTES as u64;
            if self.hashed == MESSAGE_BYTES {
                self.finish_message();
            }
        }
        iterations
    }

    fn bytes_per_iteration(&self) -> u64 {
        CHUNK_BYTES as u64
    }

    fn prove(&mut self) -> Vec<Proof> {
        // Finish the current message too, so that every chunk is verified.
        self.batch((MESSAGE_BYTES - self.hashed) / CHUNK_BYTES as u64);
        let found = self.wrong.as_deref().unwrap_or(MESSAGE_DIGEST);
        let mut proofs = self.short.clone();
        proofs.push(Proof::new(
            format!("each of {} digests of 1 MiB of 'a'", self.digests),
            MESSAGE_DIGEST,
            found,
        ));
        proofs
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn forms() -> Vec<(&'static str, Compress)> {
        let mut forms: Vec<(&'static str, Compress)> = vec![("scalar", scalar::compress)];
        #[cfg(target_arch = "x86_64")]
        {
            forms.push(("simd", simd::compress));
            if shani::refusal().is_none() {
                forms.push(("shani", shani::compress));
            }
        }
        #[cfg(target_arch = "aarch64")]
        if ce::refusal().is_none() {
            forms.push(("ce", ce::compress));
        }
        forms
    }

    #[test]
    fn every_form_gives_the_published_digests() {
        for (name, compress) in forms() {
            for (text, times, expected) in SHORT {
                let message = text.repeat(times);
                assert_eq!(digest(compress, message.as_bytes()), expected, "{name} {times}");
            }
            let message = vec![b'a'; 1 << 20];
            assert_eq!(digest(compress, &message), MESSAGE_DIGEST, "{name}");
        }
    }

    #[test]
    fn the_forms_agree_on_messages_of_every_length_and_content() {
        let mut byte = 1_u32;
        let message: Vec<u8> = (0..700)
            .map(|_| {
                byte = byte.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
                (byte >> 24) as u8
            })
            .collect();
        for length in 0..message.len() {
            // An odd offset: blocks need no alignment.
            let part = &message[length % 3..length.max(length % 3)];
            let expected = digest(scalar::compress, part);
            for (name, compress) in forms() {
                assert_eq!(digest(compress, part), expected, "{name} {length}");
            }
        }
    }

    #[test]
    fn a_wrong_chunk_anywhere_is_found() {
        for (name, compress) in forms() {
            let mut work = Hashing::new(compress);
            work.batch(300);
            assert!(work.prove().iter().all(Proof::holds), "{name}");
            work.chunk[4095] = b'b';
            work.batch(1);
            work.chunk[4095] = b'a';
            work.batch(600);
            let last = work.prove().pop().map(|proof| proof.holds());
            assert_eq!(last, Some(false), "{name}");
        }
    }
}
