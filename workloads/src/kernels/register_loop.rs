//! Kernels that use only registers, so that the final value of each is known exactly.

use crate::kernel::{Proof, Work};

/// An odd number without a special pattern, which the registers add or multiply by.
pub const ODD: u64 = 0x9e37_79b9_7f4a_7c15;
/// The initial value of registers.
pub const SEED: u64 = 0x0123_4567_89ab_cdef;

/// base ^ exponent mod 2^64.
fn power(mut base: u64, mut exponent: u64) -> u64 {
    let mut result = 1_u64;
    while exponent > 0 {
        if exponent & 1 == 1 {
            result = result.wrapping_mul(base);
        }
        base = base.wrapping_mul(base);
        exponent >>= 1;
    }
    result
}

/// What an iteration does to a register.
#[derive(Clone, Copy)]
enum Step {
    /// Adds `ODD` that many times.
    Add(u64),
    /// Multiplies by `ODD`.
    Multiply,
}

/// A register's initial value and how it changes.
#[derive(Clone, Copy)]
pub struct Register {
    name: &'static str,
    seed: u64,
    step: Step,
}

impl Register {
    /// A sum that an iteration adds `ODD` to `adds` times.
    pub const fn sum(name: &'static str, adds: u64) -> Register {
        Register { name, seed: SEED, step: Step::Add(adds) }
    }

    /// A product that an iteration multiplies by `ODD`.
    pub const fn product(name: &'static str, seed: u64) -> Register {
        Register { name, seed, step: Step::Multiply }
    }

    fn proof(self, iterations: u64, found: u64) -> Proof {
        let Register { name, seed, step } = self;
        let (law, expected) = match step {
            Step::Add(adds) => {
                let all = adds.wrapping_mul(iterations);
                (format!("seed + m * {all}"), seed.wrapping_add(ODD.wrapping_mul(all)))
            }
            Step::Multiply => {
                (format!("seed * m^{iterations}"), seed.wrapping_mul(power(ODD, iterations)))
            }
        };
        Proof::new(
            format!("{name} = {law} mod 2^64"),
            format!("{expected:#018x}"),
            format!("{found:#018x}"),
        )
    }
}

/// A worker of such a kernel.
pub struct RegisterLoop<const N: usize> {
    run: fn(&mut [u64; N], u64),
    registers: [Register; N],
    values: [u64; N],
    iterations: u64,
}

impl<const N: usize> RegisterLoop<N> {
    /// At its initial values; `run` does the given number of iterations.
    pub fn new(registers: [Register; N], run: fn(&mut [u64; N], u64)) -> Self {
        let values = registers.map(|register| register.seed);
        RegisterLoop { run, registers, values, iterations: 0 }
    }
}

impl<const N: usize> Work for RegisterLoop<N> {
    fn batch(&mut self, iterations: u64) -> u64 {
        (self.run)(&mut self.values, iterations);
        self.iterations += iterations;
        iterations
    }

    fn prove(&mut self) -> Vec<Proof> {
        let both = self.registers.iter().zip(self.values);
        both.map(|(register, value)| register.proof(self.iterations, value)).collect()
    }
}

/// Defines a kernel by its text, its registers and its instructions, in which `{m}` is `ODD`: the
/// entry in the catalog, and the function that creates a worker.
macro_rules! register_loop {
    (
        $kernel:ident: { $($text:ident: $value:expr),+ $(,)? },
        $worker:ident: { $($register:ident: $law:expr),+ $(,)? },
        x86_64: [$($x86:expr),+ $(,)?],
        aarch64: [$($arm:expr),+ $(,)?] $(,)?
    ) => {
        /// The entry in the catalog.
        pub static $kernel: $crate::kernel::Kernel = $crate::kernel::Kernel {
            $($text: $value,)+
            unit: $crate::kernel::Unit::Iterations,
            parties: 1,
            variants: &[$crate::kernel::Variant {
                name: "default",
                refusal: $crate::kernel::anywhere,
                crew: |threads, _| $crate::kernel::Crew::alone(threads, |_| Ok($worker())),
            }],
        };

        fn $worker() -> $crate::kernels::register_loop::RegisterLoop<
            { [$(stringify!($register)),+].len() },
        > {
            $crate::kernels::register_loop::RegisterLoop::new([$($law),+], |values, iterations| {
                if iterations == 0 {
                    return;
                }
                let [$(mut $register),+] = *values;
                // SAFETY: registers only.
                unsafe {
                    // ODD is in a register, because some cores fold an immediate into the
                    // rename stage and then need no cycle for it.
                    $crate::kernels::asm_loop::counted_loop!(
                        iterations,
                        x86_64: [$($x86),+],
                        aarch64: [$($arm),+],
                        $($register = inout(reg) $register,)+
                        m = in(reg) $crate::kernels::register_loop::ODD,
                        options(nostack, nomem),
                    );
                }
                *values = [$($register),+];
            })
        }
    };
}

pub(super) use register_loop;

/// The checks that the tests of every such kernel share.
#[cfg(test)]
pub mod checks {
    use super::*;

    /// The loop does exactly as many iterations as requested.
    pub fn every_iteration_counts<const N: usize>(
        mut work: RegisterLoop<N>,
        iteration: fn(&mut [u64; N]),
    ) {
        let mut expected = std::array::from_fn(|index| 5 + index as u64);
        work.values = expected;
        assert_eq!(work.batch(0), 0);
        assert_eq!(work.values, expected);
        assert_eq!(work.batch(3), 3);
        (0..3).for_each(|_| iteration(&mut expected));
        assert_eq!(work.values, expected);
        assert_eq!(work.iterations, 3);
    }

    /// The proofs hold, but fail for a register that was changed, and all fail if iterations were
    /// miscounted.
    pub fn what_is_wrong_is_found<const N: usize>(mut work: RegisterLoop<N>) {
        let holds = |work: &mut RegisterLoop<N>| -> Vec<bool> {
            work.prove().iter().map(Proof::holds).collect()
        };
        assert_eq!(holds(&mut work), [true; N]);
        work.batch(1000);
        work.batch(1);
        assert_eq!(holds(&mut work), [true; N]);
        for changed in 0..N {
            for bit in [0, 63] {
                work.values[changed] ^= 1 << bit;
                let expected: [bool; N] = std::array::from_fn(|index| index != changed);
                assert_eq!(holds(&mut work), expected);
                work.values[changed] ^= 1 << bit;
            }
        }
        work.iterations -= 1;
        assert_eq!(holds(&mut work), [false; N]);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn power_equals_repeated_multiplication() {
        let mut product = 1_u64;
        for exponent in 0..300 {
            assert_eq!(power(ODD, exponent), product);
            product = product.wrapping_mul(ODD);
        }
        assert_eq!(power(3, 40), 12_157_665_459_056_928_801);
        assert_eq!(power(2, 64), 0);
    }

    #[test]
    fn a_proof_says_the_law_and_both_values() {
        let sum = Register::sum("sum", 8).proof(2, 7);
        assert_eq!(sum.proof, "sum = seed + m * 16 mod 2^64");
        assert_eq!(
            (sum.expected.as_str(), sum.found.as_str()),
            ("0xe49ae0ff7e538f3f", "0x0000000000000007")
        );
        let product = Register::product("chain 1", 3).proof(1, 0);
        assert_eq!(product.proof, "chain 1 = seed * m^1 mod 2^64");
        assert_eq!(product.expected, "0xdaa66d2c7ddf743f");
    }
}
