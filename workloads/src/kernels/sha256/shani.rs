//! SHA-256 with the SHA instructions of x86-64.

use core::arch::x86_64::{
    __m128i, _mm_add_epi32, _mm_alignr_epi8, _mm_blend_epi16, _mm_loadu_si128, _mm_set_epi64x,
    _mm_sha256msg1_epu32, _mm_sha256msg2_epu32, _mm_sha256rnds2_epu32, _mm_shuffle_epi8,
    _mm_shuffle_epi32, _mm_storeu_si128,
};
use std::is_x86_feature_detected;

use super::{BLOCK_BYTES, K};

/// Why this CPU cannot run it.
pub fn refusal() -> Option<String> {
    let has = is_x86_feature_detected!("sha")
        && is_x86_feature_detected!("sse4.1")
        && is_x86_feature_detected!("ssse3");
    (!has).then(|| "the CPU has no SHA instructions".to_owned())
}

/// Call only if `refusal` returns none.
pub fn compress(state: &mut [u32; 8], blocks: &[u8]) {
    // SAFETY: this variant is offered only if `refusal` returned none.
    unsafe { compress_blocks(state, blocks) }
}

#[target_feature(enable = "sha,sse4.1,ssse3")]
unsafe fn compress_blocks(state: &mut [u32; 8], blocks: &[u8]) {
    let swap = _mm_set_epi64x(0x0c0d_0e0f_0809_0a0b, 0x0405_0607_0001_0203);
    // SAFETY: both halves of the eight words are 16 bytes.
    let (low, high) = unsafe {
        let at = state.as_ptr().cast::<__m128i>();
        (_mm_loadu_si128(at), _mm_loadu_si128(at.add(1)))
    };
    // The instructions need the words in the order f e b a and h g d c, lowest first.
    let badc = _mm_shuffle_epi32::<0xb1>(low);
    let hgfe = _mm_shuffle_epi32::<0x1b>(high);
    let mut abef = _mm_alignr_epi8::<8>(badc, hgfe);
    let mut cdgh = _mm_blend_epi16::<0xf0>(hgfe, badc);

    for block in blocks.chunks_exact(BLOCK_BYTES) {
        let (abef_before, cdgh_before) = (abef, cdgh);
        // SAFETY: a block is four times 16 bytes.
        let mut w: [__m128i; 4] = core::array::from_fn(|quarter| unsafe {
            let at = block.as_ptr().cast::<__m128i>().add(quarter);
            _mm_shuffle_epi8(_mm_loadu_si128(at), swap)
        });
        for group in 0..16 {
            let now = w[group % 4];
            // SAFETY: K has 16 groups of four words.
            let k = unsafe { _mm_loadu_si128(K.as_ptr().cast::<__m128i>().add(group)) };
            let wk = _mm_add_epi32(now, k);
            cdgh = _mm_sha256rnds2_epu32(cdgh, abef, wk);
            abef = _mm_sha256rnds2_epu32(abef, cdgh, _mm_shuffle_epi32::<0x0e>(wk));
            if group < 12 {
                let (next, third, last) =
                    (w[(group + 1) % 4], w[(group + 2) % 4], w[(group + 3) % 4]);
                let seven_back = _mm_alignr_epi8::<4>(last, third);
                let sum = _mm_add_epi32(_mm_sha256msg1_epu32(now, next), seven_back);
                w[group % 4] = _mm_sha256msg2_epu32(sum, last);
            }
        }
        abef = _mm_add_epi32(abef, abef_before);
        cdgh = _mm_add_epi32(cdgh, cdgh_before);
    }

    let feba = _mm_shuffle_epi32::<0x1b>(abef);
    let dchg = _mm_shuffle_epi32::<0xb1>(cdgh);
    let dcba = _mm_blend_epi16::<0xf0>(feba, dchg);
    let hgfe = _mm_alignr_epi8::<8>(dchg, feba);
    // SAFETY: both halves of the eight words are 16 bytes.
    unsafe {
        let at = state.as_mut_ptr().cast::<__m128i>();
        _mm_storeu_si128(at, dcba);
        _mm_storeu_si128(at.add(1), hgfe);
    }
}
