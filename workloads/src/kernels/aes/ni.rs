//! AES by the instructions of x86-64.

use std::arch::x86_64::{
    __m128i, _mm_add_epi64, _mm_aesenc_si128, _mm_aesenclast_si128, _mm_loadu_si128,
    _mm_setzero_si128, _mm_storeu_si128, _mm_xor_si128,
};

use super::{BLOCK_BYTES, Keys, ROUNDS};

/// Blocks under way at once.
const LANES: usize = 8;

/// Why this CPU cannot.
pub fn refusal() -> Option<String> {
    (!std::arch::is_x86_feature_detected!("aes")).then(|| "the CPU has no AES-NI".to_owned())
}

/// Only for CPUs that `refusal` does not refuse.
pub fn encrypt(keys: &Keys, blocks: &[u8]) -> [u64; 2] {
    // SAFETY: the crew is made only where the CPU has AES-NI.
    unsafe { encrypt_all(keys, blocks) }
}

#[target_feature(enable = "aes")]
fn load(block: &[u8]) -> __m128i {
    debug_assert_eq!(block.len(), BLOCK_BYTES);
    // SAFETY: callers hand over whole blocks.
    unsafe { _mm_loadu_si128(block.as_ptr().cast()) }
}

#[target_feature(enable = "aes")]
fn encrypt_all(keys: &Keys, blocks: &[u8]) -> [u64; 2] {
    let keys = keys.map(|key| load(&key));
    let mut sum = _mm_setzero_si128();
    for group in blocks.chunks(LANES * BLOCK_BYTES) {
        let mut lanes = [_mm_setzero_si128(); LANES];
        let held = group.len() / BLOCK_BYTES;
        for (lane, block) in lanes.iter_mut().zip(group.chunks_exact(BLOCK_BYTES)) {
            *lane = _mm_xor_si128(load(block), keys[0]);
        }
        for key in &keys[1..ROUNDS] {
            for lane in &mut lanes {
                *lane = _mm_aesenc_si128(*lane, *key);
            }
        }
        for lane in &lanes[..held] {
            sum = _mm_add_epi64(sum, _mm_aesenclast_si128(*lane, keys[ROUNDS]));
        }
    }
    let mut halves = [0; 2];
    // SAFETY: both halves are written, no more.
    unsafe { _mm_storeu_si128(halves.as_mut_ptr().cast(), sum) };
    halves
}
