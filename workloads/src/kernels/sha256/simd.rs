//! SHA-256 in SSE2 registers: only K and the message come from memory.
//!
//! xmm0 to xmm7 contain a to h, each word doubled into the low and the high half of a quadword, so
//! that one 64-bit shift right leaves the rotated word in the low half (FIPS 180-4 needs twelve
//! rotations a round and SSE2 has none). xmm8 to xmm11 contain the 16 live words of the message
//! schedule, xmm12 to xmm15 are scratch, and the chaining value is in eight general registers.

use core::arch::asm;

use super::{BLOCK_BYTES, K};

/// K with each word in all four lanes, as paddd needs it.
#[repr(C, align(64))]
struct Constants([[u32; 4]; 64]);

static CONSTANTS: Constants = {
    let mut lanes = [[0; 4]; 64];
    let mut t = 0;
    while t < 64 {
        lanes[t] = [K[t]; 4];
        t += 1;
    }
    Constants(lanes)
};

/// Loads 16 bytes of the message and reverses the bytes of each word.
macro_rules! load {
    ($w:literal, $offset:literal) => {
        concat!(
            "movdqu ",
            $w,
            ", [{message} + ",
            $offset,
            "]\n",
            "movdqa xmm12, ",
            $w,
            "\n",
            "psrlw ",
            $w,
            ", 8\n",
            "psllw xmm12, 8\n",
            "por ",
            $w,
            ", xmm12\n",
            "pshuflw ",
            $w,
            ", ",
            $w,
            ", 0xb1\n",
            "pshufhw ",
            $w,
            ", ",
            $w,
            ", 0xb1\n",
        )
    };
}

/// One round; `lane` broadcasts the word of the schedule, `offset` is that of its K.
macro_rules! round {
    ($a:literal $b:literal $c:literal $d:literal $e:literal $f:literal $g:literal $h:literal,
     $w:literal, $lane:literal, $offset:literal) => {
        concat!(
            // T1 = h + W + K ...
            "pshufd xmm12, ",
            $w,
            ", ",
            $lane,
            "\n",
            "paddd xmm12, [{k} + ",
            $offset,
            "]\n",
            "paddd xmm12, ",
            $h,
            "\n",
            // ... + Sum1(e): rotations by 6, 11 and 25 ...
            "movdqa xmm13, ",
            $e,
            "\n",
            "psrlq xmm13, 6\n",
            "movdqa xmm14, xmm13\n",
            "psrlq xmm14, 5\n",
            "pxor xmm13, xmm14\n",
            "psrlq xmm14, 14\n",
            "pxor xmm13, xmm14\n",
            "paddd xmm12, xmm13\n",
            // ... + Ch(e, f, g) = g ^ (e & (f ^ g))
            "movdqa xmm15, ",
            $f,
            "\n",
            "pxor xmm15, ",
            $g,
            "\n",
            "pand xmm15, ",
            $e,
            "\n",
            "pxor xmm15, ",
            $g,
            "\n",
            "paddd xmm12, xmm15\n",
            // the new e, in place of d
            "paddd ",
            $d,
            ", xmm12\n",
            "pshufd ",
            $d,
            ", ",
            $d,
            ", 0xa0\n",
            // + Sum0(a): rotations by 2, 13 and 22
            "movdqa xmm13, ",
            $a,
            "\n",
            "psrlq xmm13, 2\n",
            "movdqa xmm14, xmm13\n",
            "psrlq xmm14, 11\n",
            "pxor xmm13, xmm14\n",
            "psrlq xmm14, 9\n",
            "pxor xmm13, xmm14\n",
            "paddd xmm12, xmm13\n",
            // + Maj(a, b, c) = (a & b) | (c & (a | b))
            "movdqa xmm13, ",
            $a,
            "\n",
            "movdqa xmm14, ",
            $a,
            "\n",
            "pand xmm13, ",
            $b,
            "\n",
            "por xmm14, ",
            $b,
            "\n",
            "pand xmm14, ",
            $c,
            "\n",
            "por xmm13, xmm14\n",
            "paddd xmm12, xmm13\n",
            // the new a, in place of h
            "pshufd ",
            $h,
            ", xmm12, 0xa0\n",
        )
    };
}

/// Two words of sigma1 of the doubled words in xmm13, into the low half of xmm14.
macro_rules! sigma1 {
    () => {
        "movdqa xmm14, xmm13
        psrld xmm14, 10
        psrlq xmm13, 17
        pxor xmm14, xmm13
        psrlq xmm13, 2
        pxor xmm14, xmm13
        pshufd xmm14, xmm14, 0x88
        "
    };
}

/// The four words that follow the sixteen in `w0` to `w3`, in place of `w0`.
macro_rules! schedule {
    ($w0:literal, $w1:literal, $w2:literal, $w3:literal) => {
        concat!(
            // W(t-7)
            "movdqa xmm13, ",
            $w2,
            "\n",
            "movss xmm13, ",
            $w3,
            "\n",
            "pshufd xmm13, xmm13, 0x39\n",
            // sigma0(W(t-15)): rotations by 7 and 18 from both sides, shift by 3
            "movdqa xmm12, ",
            $w0,
            "\n",
            "movss xmm12, ",
            $w1,
            "\n",
            "pshufd xmm12, xmm12, 0x39\n",
            "paddd ",
            $w0,
            ", xmm13\n",
            "movdqa xmm14, xmm12\n",
            "psrld xmm14, 3\n",
            "movdqa xmm15, xmm12\n",
            "psrld xmm15, 7\n",
            "pxor xmm14, xmm15\n",
            "psrld xmm15, 11\n",
            "pxor xmm14, xmm15\n",
            "pslld xmm12, 14\n",
            "pxor xmm14, xmm12\n",
            "pslld xmm12, 11\n",
            "pxor xmm14, xmm12\n",
            "paddd ",
            $w0,
            ", xmm14\n",
            // sigma1(W(t-2)): two words need the two just made
            "pshufd xmm13, ",
            $w3,
            ", 0xfa\n",
            sigma1!(),
            "psrldq xmm14, 8\n",
            "paddd ",
            $w0,
            ", xmm14\n",
            "pshufd xmm13, ",
            $w0,
            ", 0x50\n",
            sigma1!(),
            "pslldq xmm14, 8\n",
            "paddd ",
            $w0,
            ", xmm14\n",
        )
    };
}

/// Four rounds, after which the roles have moved by four.
macro_rules! four_rounds {
    ($a:literal $b:literal $c:literal $d:literal $e:literal $f:literal $g:literal $h:literal,
     $w:literal, $o0:literal, $o1:literal, $o2:literal, $o3:literal) => {
        concat!(
            round!($a $b $c $d $e $f $g $h, $w, "0x00", $o0),
            round!($h $a $b $c $d $e $f $g, $w, "0x55", $o1),
            round!($g $h $a $b $c $d $e $f, $w, "0xaa", $o2),
            round!($f $g $h $a $b $c $d $e, $w, "0xff", $o3),
        )
    };
}

macro_rules! first_half {
    ($w:literal, $o0:literal, $o1:literal, $o2:literal, $o3:literal) => {
        four_rounds!("xmm0" "xmm1" "xmm2" "xmm3" "xmm4" "xmm5" "xmm6" "xmm7",
                     $w, $o0, $o1, $o2, $o3)
    };
}

macro_rules! second_half {
    ($w:literal, $o0:literal, $o1:literal, $o2:literal, $o3:literal) => {
        four_rounds!("xmm4" "xmm5" "xmm6" "xmm7" "xmm0" "xmm1" "xmm2" "xmm3",
                     $w, $o0, $o1, $o2, $o3)
    };
}

/// Doubles a word of the chaining value into its register.
macro_rules! begin {
    ($x:literal, $h:literal) => {
        concat!("movd ", $x, ", {", $h, ":e}\npshufd ", $x, ", ", $x, ", 0\n")
    };
}

/// Adds a register's word to the chaining value.
macro_rules! end {
    ($x:literal, $h:literal) => {
        concat!("movd xmm12, {", $h, ":e}\npaddd ", $x, ", xmm12\nmovd {", $h, ":e}, ", $x, "\n")
    };
}

/// Compresses whole blocks into the state.
pub fn compress(state: &mut [u32; 8], blocks: &[u8]) {
    let count = (blocks.len() / BLOCK_BYTES) as u64;
    if count == 0 {
        return;
    }
    let [mut h0, mut h1, mut h2, mut h3, mut h4, mut h5, mut h6, mut h7] = *state;
    // SAFETY: reads `count` blocks of the slice and the 1 KiB table; writes registers only.
    unsafe {
        asm!(
            ".p2align 6",
            "2:",
            load!("xmm8", "0"),
            load!("xmm9", "16"),
            load!("xmm10", "32"),
            load!("xmm11", "48"),
            begin!("xmm0", "h0"),
            begin!("xmm1", "h1"),
            begin!("xmm2", "h2"),
            begin!("xmm3", "h3"),
            begin!("xmm4", "h4"),
            begin!("xmm5", "h5"),
            begin!("xmm6", "h6"),
            begin!("xmm7", "h7"),
            "mov {turns:e}, 3",
            ".p2align 4",
            "3:",
            first_half!("xmm8", "0", "16", "32", "48"),
            schedule!("xmm8", "xmm9", "xmm10", "xmm11"),
            second_half!("xmm9", "64", "80", "96", "112"),
            schedule!("xmm9", "xmm10", "xmm11", "xmm8"),
            first_half!("xmm10", "128", "144", "160", "176"),
            schedule!("xmm10", "xmm11", "xmm8", "xmm9"),
            second_half!("xmm11", "192", "208", "224", "240"),
            schedule!("xmm11", "xmm8", "xmm9", "xmm10"),
            "add {k}, 256",
            "dec {turns:e}",
            "jnz 3b",
            first_half!("xmm8", "0", "16", "32", "48"),
            second_half!("xmm9", "64", "80", "96", "112"),
            first_half!("xmm10", "128", "144", "160", "176"),
            second_half!("xmm11", "192", "208", "224", "240"),
            "sub {k}, 768",
            end!("xmm0", "h0"),
            end!("xmm1", "h1"),
            end!("xmm2", "h2"),
            end!("xmm3", "h3"),
            end!("xmm4", "h4"),
            end!("xmm5", "h5"),
            end!("xmm6", "h6"),
            end!("xmm7", "h7"),
            "add {message}, 64",
            "dec {count}",
            "jnz 2b",
            h0 = inout(reg) h0,
            h1 = inout(reg) h1,
            h2 = inout(reg) h2,
            h3 = inout(reg) h3,
            h4 = inout(reg) h4,
            h5 = inout(reg) h5,
            h6 = inout(reg) h6,
            h7 = inout(reg) h7,
            k = inout(reg) CONSTANTS.0.as_ptr() => _,
            message = inout(reg) blocks.as_ptr() => _,
            count = inout(reg) count => _,
            turns = out(reg) _,
            out("xmm0") _, out("xmm1") _, out("xmm2") _, out("xmm3") _,
            out("xmm4") _, out("xmm5") _, out("xmm6") _, out("xmm7") _,
            out("xmm8") _, out("xmm9") _, out("xmm10") _, out("xmm11") _,
            out("xmm12") _, out("xmm13") _, out("xmm14") _, out("xmm15") _,
            options(nostack, readonly),
        );
    }
    *state = [h0, h1, h2, h3, h4, h5, h6, h7];
}
