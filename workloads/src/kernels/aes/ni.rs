//! AES with the instructions of x86-64.

use std::arch::x86_64::{
    __m128i, _mm_add_epi64, _mm_aesenc_si128, _mm_aesenclast_si128, _mm_loadu_si128,
    _mm_setzero_si128, _mm_storeu_si128, _mm_xor_si128,
};

use super::{BLOCK_BYTES, Keys, ROUNDS};

/// Number of blocks processed at once.
const LANES: usize = 8;

/// Why this CPU cannot run it.
pub fn refusal() -> Option<String> {
    (!std::arch::is_x86_feature_detected!("aes")).then(|| "the CPU has no AES-NI".to_owned())
}

/// Call only if `refusal` returns none.
pub fn encrypt(keys: &Keys, blocks: &[u8]) -> [u64; 2] {
    // SAFETY: this variant is offered only if the CPU has AES-NI.
    unsafe { encrypt_all(keys, blocks) }
}

#[target_feature(enable = "aes")]
fn load(block: &[u8]) -> __m128i {
    debug_assert_eq!(block.len(), BLOCK_BYTES);
    // SAFETY: callers pass whole blocks.
    unsafe { _mm_loadu_si128(block.as_ptr().cast()) }
}

#[target_feature(enable = "aes")]
fn encrypt_all(keys: &Keys, blocks: &[u8]) -> [u64; 2] {
    let keys = keys.map(|key| load(&key));
    let mut sum = _mm_setzero_si128();
    for group in blocks.chunks(LANES * BLOCK_BYTES) {
        let mut lanes = [_mm_setzero_si128(); LANES];
        let used = group.len() / BLOCK_BYTES;
        for (lane, block) in lanes.iter_mut().zip(group.chunks_exact(BLOCK_BYTES)) {
            *lane = _mm_xor_si128(load(block), keys[0]);
        }
        for key in &keys[1..ROUNDS] {
            for lane in &mut lanes {
                *lane = _mm_aesenc_si128(*lane, *key);
            }
        }
        for lane in &lanes[..used] {
            sum = _mm_add_epi64(sum, _mm_aesenclast_si128(*lane, keys[ROUNDS]));
        }
    }
    let mut halves = [0; 2];
    // SAFETY: writes exactly both halves.
    unsafe { _mm_storeu_si128(halves.as_mut_ptr().cast(), sum) };
    halves
}
