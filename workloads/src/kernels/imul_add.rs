//! imul_add: a chain of multiplications and a chain of additions in one loop.

use core::arch::asm;

use super::imul::power;
use super::{ODD, SEED};
use crate::kernel::{Crew, Kernel, Proof, Unit, Variant, Work, anywhere};

/// The catalogue's line.
pub static KERNEL: Kernel = Kernel {
    name: "imul_add",
    summary: "one multiplication and one independent addition a loop",
    note: "latency 3 of the multiplication; the addition hides behind it",
    unit: Unit::Iterations,
    parties: 1,
    variants: &[Variant {
        name: "default",
        refusal: anywhere,
        crew: |threads, _| Crew::alone(threads, |_| Ok(Both::new())),
    }],
    usual_cycles: Some(3.0),
};

struct Both {
    product: u64,
    sum: u64,
    iterations: u64,
}

impl Both {
    fn new() -> Both {
        Both { product: SEED, sum: SEED, iterations: 0 }
    }
}

fn multiply_and_add(product: &mut u64, sum: &mut u64, iterations: u64) {
    if iterations == 0 {
        return;
    }
    // SAFETY: registers only.
    #[cfg(target_arch = "x86_64")]
    unsafe {
        asm!(
            ".p2align 6",
            "2:",
            "imul {product}, {m}",
            "add {sum}, {m}",
            "dec {left}",
            "jnz 2b",
            product = inout(reg) *product,
            sum = inout(reg) *sum,
            m = in(reg) ODD,
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
            "mul {product}, {product}, {m}",
            "add {sum}, {sum}, {m}",
            "subs {left}, {left}, #1",
            "b.ne 2b",
            product = inout(reg) *product,
            sum = inout(reg) *sum,
            m = in(reg) ODD,
            left = inout(reg) iterations => _,
            options(nostack, nomem),
        );
    }
}

impl Work for Both {
    fn batch(&mut self, iterations: u64) -> u64 {
        multiply_and_add(&mut self.product, &mut self.sum, iterations);
        self.iterations += iterations;
        iterations
    }

    fn prove(&mut self) -> Vec<Proof> {
        let n = self.iterations;
        vec![
            Proof::new(
                format!("product = seed * m^{n} mod 2^64"),
                format!("{:#018x}", SEED.wrapping_mul(power(ODD, n))),
                format!("{:#018x}", self.product),
            ),
            Proof::new(
                format!("sum = seed + m * {n} mod 2^64"),
                format!("{:#018x}", SEED.wrapping_add(ODD.wrapping_mul(n))),
                format!("{:#018x}", self.sum),
            ),
        ]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn both_chains_are_counted() {
        let (mut product, mut sum) = (7, 7);
        multiply_and_add(&mut product, &mut sum, 0);
        assert_eq!((product, sum), (7, 7));
        multiply_and_add(&mut product, &mut sum, 2);
        let expected = 7_u64.wrapping_mul(ODD).wrapping_mul(ODD);
        assert_eq!(product, expected);
        assert_eq!(sum, ODD.wrapping_add(ODD).wrapping_add(7));
    }

    #[test]
    fn a_wrong_value_of_either_chain_is_found() {
        let mut work = Both::new();
        work.batch(12_345);
        let holds =
            |work: &mut Both| -> Vec<bool> { work.prove().iter().map(Proof::holds).collect() };
        assert_eq!(holds(&mut work), [true, true]);
        work.sum ^= 1 << 63;
        assert_eq!(holds(&mut work), [true, false]);
        work.product ^= 1;
        assert_eq!(holds(&mut work), [false, false]);
    }
}
