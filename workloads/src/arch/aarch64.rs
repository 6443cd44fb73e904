//! aarch64: the generic timer is what CLOCK_MONOTONIC reads, so the system's clock is used.

/// Never called: `counter_is_invariant` refuses it.
#[inline(always)]
pub fn counter() -> (u64, u32) {
    (0, 0)
}

/// False: the counter (cntvct_el0) is coarse and tells no CPU number, so it has nothing to add.
pub fn counter_is_invariant() -> bool {
    false
}
