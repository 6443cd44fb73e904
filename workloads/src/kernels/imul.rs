//! imul1 to imul10: one to ten independent chains of 64-bit multiplications in one loop.
//!
//! The loop takes the latency of a multiplication until the chains fill every multiplier:
//! the number of chains from which it gets slower is latency x multipliers.

use core::arch::asm;

use super::{ODD, SEED};
use crate::kernel::{Crew, Kernel, Options, Proof, Unit, Variant, Work, anywhere};

const CHAINS: usize = 10;

/// base ^ exponent mod 2^64.
pub fn power(mut base: u64, mut exponent: u64) -> u64 {
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

fn seed(chain: usize) -> u64 {
    SEED.wrapping_add(2 * chain as u64)
}

struct Chains<const N: usize> {
    run: fn(&mut [u64; CHAINS], u64),
    chains: [u64; CHAINS],
    iterations: u64,
}

impl<const N: usize> Chains<N> {
    fn new(run: fn(&mut [u64; CHAINS], u64)) -> Self {
        let mut chains = [0; CHAINS];
        for (index, chain) in chains.iter_mut().enumerate() {
            *chain = seed(index);
        }
        Chains { run, chains, iterations: 0 }
    }
}

impl<const N: usize> Work for Chains<N> {
    fn batch(&mut self, iterations: u64) -> u64 {
        (self.run)(&mut self.chains, iterations);
        self.iterations += iterations;
        iterations
    }

    fn prove(&mut self) -> Vec<Proof> {
        let growth = power(ODD, self.iterations);
        (0..N)
            .map(|chain| {
                Proof::new(
                    format!("chain {chain} = seed * m^{} mod 2^64", self.iterations),
                    format!("{:#018x}", seed(chain).wrapping_mul(growth)),
                    format!("{:#018x}", self.chains[chain]),
                )
            })
            .collect()
    }
}

macro_rules! imul {
    ($kernel:ident, $name:literal, $function:ident, $count:literal, $cycles:expr,
     $($chain:ident = $index:literal),+) => {
        fn $function(chains: &mut [u64; CHAINS], iterations: u64) {
            if iterations == 0 {
                return;
            }
            $(let mut $chain = chains[$index];)+
            // SAFETY: registers only.
            #[cfg(target_arch = "x86_64")]
            unsafe {
                asm!(
                    ".p2align 6",
                    "2:",
                    $(concat!("imul {", stringify!($chain), "}, {m}"),)+
                    "dec {left}",
                    "jnz 2b",
                    $($chain = inout(reg) $chain,)+
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
                    $(concat!("mul {", stringify!($chain), "}, {", stringify!($chain), "}, {m}"),)+
                    "subs {left}, {left}, #1",
                    "b.ne 2b",
                    $($chain = inout(reg) $chain,)+
                    m = in(reg) ODD,
                    left = inout(reg) iterations => _,
                    options(nostack, nomem),
                );
            }
            $(chains[$index] = $chain;)+
        }

        /// The catalogue's line.
        pub static $kernel: Kernel = Kernel {
            name: $name,
            summary: concat!($count, " independent 64-bit multiplication(s) a loop"),
            note: "latency 3 a loop until the chains exceed latency x multipliers \
                   (one multiplier, on port 1, in most x86-64 cores)",
            unit: Unit::Iterations,
            parties: 1,
            variants: &[Variant {
                name: "default",
                refusal: anywhere,
                crew: |threads, _: Options| {
                    Crew::alone(threads, |_| Ok(Chains::<$count>::new($function)))
                },
            }],
            usual_cycles: $cycles,
        };
    };
}

imul!(IMUL1, "imul1", imul1, 1, Some(3.0), a = 0);
imul!(IMUL2, "imul2", imul2, 2, Some(3.0), a = 0, b = 1);
imul!(IMUL3, "imul3", imul3, 3, Some(3.0), a = 0, b = 1, c = 2);
imul!(IMUL4, "imul4", imul4, 4, None, a = 0, b = 1, c = 2, d = 3);
imul!(IMUL5, "imul5", imul5, 5, None, a = 0, b = 1, c = 2, d = 3, e = 4);
imul!(IMUL6, "imul6", imul6, 6, None, a = 0, b = 1, c = 2, d = 3, e = 4, f = 5);
imul!(IMUL7, "imul7", imul7, 7, None, a = 0, b = 1, c = 2, d = 3, e = 4, f = 5, g = 6);
imul!(IMUL8, "imul8", imul8, 8, None, a = 0, b = 1, c = 2, d = 3, e = 4, f = 5, g = 6, h = 7);
imul!(
    IMUL9,
    "imul9",
    imul9,
    9,
    None,
    a = 0,
    b = 1,
    c = 2,
    d = 3,
    e = 4,
    f = 5,
    g = 6,
    h = 7,
    i = 8
);
imul!(
    IMUL10,
    "imul10",
    imul10,
    10,
    None,
    a = 0,
    b = 1,
    c = 2,
    d = 3,
    e = 4,
    f = 5,
    g = 6,
    h = 7,
    i = 8,
    j = 9
);

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
    fn every_width_multiplies_each_of_its_chains_and_no_other() {
        let functions = [imul1, imul2, imul3, imul4, imul5, imul6, imul7, imul8, imul9, imul10];
        for (index, function) in functions.into_iter().enumerate() {
            let mut chains: [u64; CHAINS] = std::array::from_fn(|chain| 100 + chain as u64);
            function(&mut chains, 0);
            function(&mut chains, 2);
            for (chain, value) in chains.into_iter().enumerate() {
                let begin = 100 + chain as u64;
                let expected =
                    if chain <= index { begin.wrapping_mul(ODD).wrapping_mul(ODD) } else { begin };
                assert_eq!(value, expected, "imul{} chain {chain}", index + 1);
            }
        }
    }

    #[test]
    fn a_wrong_register_is_found() {
        let mut work = Chains::<4>::new(imul4);
        assert_eq!(work.batch(1001), 1001);
        assert!(work.prove().iter().all(Proof::holds));
        work.chains[2] ^= 1;
        let wrong: Vec<bool> = work.prove().iter().map(Proof::holds).collect();
        assert_eq!(wrong, [true, true, false, true]);
        work.chains[2] ^= 1;
        work.iterations += 1;
        assert!(!work.prove().iter().any(Proof::holds));
    }
}
