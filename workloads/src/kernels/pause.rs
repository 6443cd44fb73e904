//! pause: the instruction that spin loops wait with.

use core::arch::asm;

use super::{ODD, SEED};
use crate::kernel::{Crew, Kernel, Proof, Unit, Variant, Work, anywhere};

/// The catalogue's line.
pub static KERNEL: Kernel = Kernel {
    name: "pause",
    summary: "one PAUSE (aarch64: YIELD) a loop",
    note: "its length differs widely between cores (about 10 to 140 cycles) and is not promised",
    unit: Unit::Iterations,
    parties: 1,
    variants: &[Variant {
        name: "default",
        refusal: anywhere,
        crew: |threads, _| Crew::alone(threads, |_| Ok(Pauses::new())),
    }],
    usual_cycles: None,
};

struct Pauses {
    sum: u64,
    iterations: u64,
}

impl Pauses {
    fn new() -> Pauses {
        Pauses { sum: SEED, iterations: 0 }
    }
}

fn pause(sum: &mut u64, iterations: u64) {
    if iterations == 0 {
        return;
    }
    // SAFETY: registers only.
    #[cfg(target_arch = "x86_64")]
    unsafe {
        asm!(
            ".p2align 6",
            "2:",
            "pause",
            "add {sum}, {addend}",
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
            "yield",
            "add {sum}, {sum}, {addend}",
            "subs {left}, {left}, #1",
            "b.ne 2b",
            sum = inout(reg) *sum,
            addend = in(reg) ODD,
            left = inout(reg) iterations => _,
            options(nostack, nomem),
        );
    }
}

impl Work for Pauses {
    fn batch(&mut self, iterations: u64) -> u64 {
        pause(&mut self.sum, iterations);
        self.iterations += iterations;
        iterations
    }

    fn prove(&mut self) -> Vec<Proof> {
        let n = self.iterations;
        vec![Proof::new(
            format!("sum = seed + m * {n} mod 2^64"),
            format!("{:#018x}", SEED.wrapping_add(ODD.wrapping_mul(n))),
            format!("{:#018x}", self.sum),
        )]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_pause_is_counted_and_a_wrong_count_is_found() {
        let mut work = Pauses::new();
        work.batch(0);
        assert_eq!(work.sum, SEED);
        work.batch(3);
        assert_eq!(work.sum, SEED.wrapping_add(ODD.wrapping_mul(3)));
        assert!(work.prove().iter().all(Proof::holds));
        work.iterations -= 1;
        assert!(!work.prove().iter().any(Proof::holds));
    }
}
