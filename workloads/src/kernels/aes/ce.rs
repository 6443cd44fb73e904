//! AES with the instructions of aarch64.

use std::arch::aarch64::{
    uint8x16_t, vaddq_u64, vaeseq_u8, vaesmcq_u8, vdupq_n_u8, vdupq_n_u64, veorq_u8,
    vgetq_lane_u64, vld1q_u8, vreinterpretq_u64_u8,
};

use super::{BLOCK_BYTES, Keys, ROUNDS};

/// Number of blocks processed at once.
const LANES: usize = 8;

/// Why this CPU cannot run it.
pub fn refusal() -> Option<String> {
    (!std::arch::is_aarch64_feature_detected!("aes"))
        .then(|| "the CPU has no AES instructions".to_owned())
}

/// Call only if `refusal` returns none.
pub fn encrypt(keys: &Keys, blocks: &[u8]) -> [u64; 2] {
    // SAFETY: this variant is offered only if the CPU has the instructions.
    unsafe { encrypt_all(keys, blocks) }
}

#[target_feature(enable = "neon,aes")]
fn load(block: &[u8]) -> uint8x16_t {
    debug_assert_eq!(block.len(), BLOCK_BYTES);
    // SAFETY: callers pass whole blocks.
    unsafe { vld1q_u8(block.as_ptr()) }
}

#[target_feature(enable = "neon,aes")]
fn encrypt_all(keys: &Keys, blocks: &[u8]) -> [u64; 2] {
    let keys = keys.map(|key| load(&key));
    let mut sum = vdupq_n_u64(0);
    for group in blocks.chunks(LANES * BLOCK_BYTES) {
        let mut lanes = [vdupq_n_u8(0); LANES];
        let used = group.len() / BLOCK_BYTES;
        for (lane, block) in lanes.iter_mut().zip(group.chunks_exact(BLOCK_BYTES)) {
            *lane = load(block);
        }
        // AESE adds the key before it substitutes; the last round key is added separately.
        for key in &keys[..ROUNDS - 1] {
            for lane in &mut lanes {
                *lane = vaesmcq_u8(vaeseq_u8(*lane, *key));
            }
        }
        for lane in &lanes[..used] {
            let last = veorq_u8(vaeseq_u8(*lane, keys[ROUNDS - 1]), keys[ROUNDS]);
            sum = vaddq_u64(sum, vreinterpretq_u64_u8(last));
        }
    }
    [vgetq_lane_u64::<0>(sum), vgetq_lane_u64::<1>(sum)]
}
