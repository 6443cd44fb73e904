//! SHA-256 with the cryptographic instructions of aarch64.

use core::arch::aarch64::{
    vaddq_u32, vld1q_u8, vld1q_u32, vreinterpretq_u32_u8, vrev32q_u8, vsha256h2q_u32,
    vsha256hq_u32, vsha256su0q_u32, vsha256su1q_u32, vst1q_u32,
};
use std::arch::is_aarch64_feature_detected;

use super::{BLOCK_BYTES, K};

/// Why this CPU cannot run it.
pub fn refusal() -> Option<String> {
    (!is_aarch64_feature_detected!("sha2")).then(|| "the CPU has no SHA instructions".to_owned())
}

/// Call only if `refusal` returns none.
pub fn compress(state: &mut [u32; 8], blocks: &[u8]) {
    // SAFETY: this variant is offered only if `refusal` returned none.
    unsafe { compress_blocks(state, blocks) }
}

#[target_feature(enable = "neon,sha2")]
unsafe fn compress_blocks(state: &mut [u32; 8], blocks: &[u8]) {
    // SAFETY: both halves of the eight words are 16 bytes.
    let (mut abcd, mut efgh) =
        unsafe { (vld1q_u32(state.as_ptr()), vld1q_u32(state.as_ptr().add(4))) };
    for block in blocks.chunks_exact(BLOCK_BYTES) {
        let (abcd_before, efgh_before) = (abcd, efgh);
        // SAFETY: a block is four times 16 bytes.
        let mut w = core::array::from_fn::<_, 4, _>(|quarter| unsafe {
            vreinterpretq_u32_u8(vrev32q_u8(vld1q_u8(block.as_ptr().add(16 * quarter))))
        });
        for group in 0..16 {
            let now = w[group % 4];
            // SAFETY: K has 16 groups of four words.
            let k = unsafe { vld1q_u32(K.as_ptr().add(4 * group)) };
            let wk = vaddq_u32(now, k);
            let abcd_then = abcd;
            abcd = vsha256hq_u32(abcd, efgh, wk);
            efgh = vsha256h2q_u32(efgh, abcd_then, wk);
            if group < 12 {
                let (next, third, last) =
                    (w[(group + 1) % 4], w[(group + 2) % 4], w[(group + 3) % 4]);
                w[group % 4] = vsha256su1q_u32(vsha256su0q_u32(now, next), third, last);
            }
        }
        abcd = vaddq_u32(abcd, abcd_before);
        efgh = vaddq_u32(efgh, efgh_before);
    }
    // SAFETY: both halves of the eight words are 16 bytes.
    unsafe {
        vst1q_u32(state.as_mut_ptr(), abcd);
        vst1q_u32(state.as_mut_ptr().add(4), efgh);
    }
}
