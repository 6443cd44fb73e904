//! x86-64: the time stamp counter.

use core::arch::asm;
use core::arch::x86_64::{__cpuid, CpuidResult};

/// The time stamp counter and IA32_TSC_AUX, read after earlier and before later instructions.
#[inline(always)]
pub fn counter() -> (u64, u32) {
    let (low, high, aux): (u32, u32, u32);
    // SAFETY: called only if `counter_is_invariant` has found rdtscp.
    unsafe {
        asm!(
            "lfence",
            "rdtscp",
            "lfence",
            out("eax") low,
            out("edx") high,
            out("ecx") aux,
            options(nostack, nomem, preserves_flags),
        );
    }
    (u64::from(high) << 32 | u64::from(low), aux)
}

/// Whether rdtscp exists and the counter has a constant rate in all power states.
pub fn counter_is_invariant() -> bool {
    let highest = cpuid(0x8000_0000).eax;
    if highest < 0x8000_0007 {
        return false;
    }
    let rdtscp = cpuid(0x8000_0001).edx & (1 << 27) != 0;
    let invariant = cpuid(0x8000_0007).edx & (1 << 8) != 0;
    rdtscp && invariant
}

// The intrinsic was unsafe in older compilers.
#[allow(unused_unsafe)]
fn cpuid(leaf: u32) -> CpuidResult {
    // SAFETY: every x86-64 CPU has the instruction.
    unsafe { __cpuid(leaf) }
}
