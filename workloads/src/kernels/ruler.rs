//! ruler: 64 dependent additions a loop: a loop takes 64 core cycles whatever the clock.

use core::arch::asm;
use std::hint::black_box;

use super::{ODD, SEED};
use crate::kernel::{Crew, Kernel, Proof, Unit, Variant, Work, anywhere};
use crate::os;

/// Additions an iteration.
const ADDS: u64 = 64;

/// The catalogue's line.
pub static KERNEL: Kernel = Kernel {
    name: "ruler",
    summary: "64 dependent additions a loop: tells core cycles",
    note: "64 cycles on any core that adds in one",
    unit: Unit::Iterations,
    parties: 1,
    variants: &[Variant {
        name: "default",
        refusal: anywhere,
        crew: |threads, _| Crew::alone(threads, |_| Ok(Adds::new())),
    }],
    usual_cycles: Some(64.0),
};

struct Adds {
    sum: u64,
    iterations: u64,
}

impl Adds {
    fn new() -> Adds {
        Adds { sum: SEED, iterations: 0 }
    }
}

/// Adds `ADDS * iterations` times; the addend is a register, since some cores fold
/// an immediate into the rename stage and would then take no cycle for it.
fn add(sum: &mut u64, iterations: u64) {
    if iterations == 0 {
        return;
    }
    // SAFETY: registers only.
    #[cfg(target_arch = "x86_64")]
    unsafe {
        asm!(
            ".p2align 6",
            "2:",
            ".rept 64",
            "add {sum}, {addend}",
            ".endr",
            "dec {left}",
            "jnz 2b",
            sum = inout(reg) *sum,
            addend = in(reg) ODD,
            left = inout(reg) iterations => _,
            options(nostack, nomem),
        );
    }
    // SAFETY: registers only.
    #[cfg(target_arch = "aarch64")]
    unsafe {
        asm!(
            ".p2align 6",
            "2:",
            ".rept 64",
            "add {sum}, {sum}, {addend}",
            ".endr",
            "subs {left}, {left}, #1",
            "b.ne 2b",
            sum = inout(reg) *sum,
            addend = in(reg) ODD,
            left = inout(reg) iterations => _,
            options(nostack, nomem),
        );
    }
}

impl Work for Adds {
    fn batch(&mut self, iterations: u64) -> u64 {
        add(&mut self.sum, iterations);
        self.iterations += iterations;
        iterations
    }

    fn prove(&mut self) -> Vec<Proof> {
        let adds = ADDS.wrapping_mul(self.iterations);
        vec![Proof::new(
            format!("sum = seed + m * {adds} mod 2^64"),
            format!("{:#018x}", SEED.wrapping_add(ODD.wrapping_mul(adds))),
            format!("{:#018x}", self.sum),
        )]
    }
}

/// Loops timed at once: about 30 us.
const TIMED_LOOPS: u64 = 2000;
/// Timings of which the fastest counts: interrupts and other threads only make it slower.
const TIMINGS: u32 = 8;
/// An emulated CPU must not be measured for long.
const PATIENCE_NS: i64 = 20_000_000;

/// Length of a core cycle in ns, here and now.
pub fn core_cycle_ns() -> f64 {
    let begin = os::monotonic_ns();
    let mut sum = SEED;
    let mut fastest = i64::MAX;
    let mut before = begin;
    for _ in 0..TIMINGS {
        add(&mut sum, TIMED_LOOPS);
        let after = os::monotonic_ns();
        fastest = fastest.min(after - before);
        before = after;
        if after - begin > PATIENCE_NS {
            break;
        }
    }
    black_box(sum);
    fastest as f64 / (ADDS * TIMED_LOOPS) as f64
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_sum_counts_every_addition() {
        let mut sum = 5;
        add(&mut sum, 0);
        assert_eq!(sum, 5);
        add(&mut sum, 3);
        assert_eq!(sum, (0..3 * ADDS).fold(5, |sum, _| ODD.wrapping_add(sum)));
    }

    #[test]
    fn a_wrong_sum_is_found() {
        let mut work = Adds::new();
        work.batch(1000);
        work.batch(1);
        assert!(work.prove().iter().all(Proof::holds));
        work.sum += 1;
        assert!(!work.prove().iter().any(Proof::holds));
    }
}
