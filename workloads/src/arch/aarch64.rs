//! aarch64: CLOCK_MONOTONIC reads the generic timer, so the system's clock is used.

/// Never called: `counter_is_invariant` refuses the counter.
#[inline(always)]
pub fn counter() -> (u64, u32) {
    (0, 0)
}

/// False: the counter (cntvct_el0) is coarse and has no CPU number, so it has no advantage.
pub fn counter_is_invariant() -> bool {
    false
}
