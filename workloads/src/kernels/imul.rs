//! imul1 to imul10: one to ten independent chains of 64-bit multiplications in one loop.
//!
//! The loop takes the latency of a multiplication until the chains fill every multiplier: it gets
//! slower once the number of chains exceeds latency x multipliers.

use super::register_loop::{Register, SEED, register_loop};

/// A different product for each chain, so that chains cannot be mistaken for each other.
const fn chain(name: &'static str, index: u64) -> Register {
    Register::product(name, SEED + 2 * index)
}

macro_rules! imul {
    (
        $kernel:ident, $worker:ident, $count:literal, $cycles:expr,
        $($chain:ident = $index:literal),+
    ) => {
        register_loop! {
            $kernel: {
                name: concat!("imul", $count),
                summary: concat!($count, " independent 64-bit multiplication(s) a loop"),
                note: "latency 3 a loop until the chains exceed latency x multipliers \
                       (one multiplier, on port 1, in most x86-64 cores)",
                usual_cycles: $cycles,
                // With the loop counter and its branch.
                instructions: Some($count + 2),
            },
            $worker: { $($chain: chain(concat!("chain ", $index), $index)),+ },
            x86_64: [$(concat!("imul {", stringify!($chain), "}, {m}")),+],
            aarch64: [
                $(concat!("mul {", stringify!($chain), "}, {", stringify!($chain), "}, {m}")),+
            ],
        }
    };
}

imul! { IMUL1, imul1, 1, Some(3.0), a = 0 }
imul! { IMUL2, imul2, 2, Some(3.0), a = 0, b = 1 }
imul! { IMUL3, imul3, 3, Some(3.0), a = 0, b = 1, c = 2 }
imul! { IMUL4, imul4, 4, None, a = 0, b = 1, c = 2, d = 3 }
imul! { IMUL5, imul5, 5, None, a = 0, b = 1, c = 2, d = 3, e = 4 }
imul! { IMUL6, imul6, 6, None, a = 0, b = 1, c = 2, d = 3, e = 4, f = 5 }
imul! { IMUL7, imul7, 7, None, a = 0, b = 1, c = 2, d = 3, e = 4, f = 5, g = 6 }
imul! { IMUL8, imul8, 8, None, a = 0, b = 1, c = 2, d = 3, e = 4, f = 5, g = 6, h = 7 }
imul! { IMUL9, imul9, 9, None, a = 0, b = 1, c = 2, d = 3, e = 4, f = 5, g = 6, h = 7, i = 8 }
imul! {
    IMUL10, imul10, 10, None,
    a = 0, b = 1, c = 2, d = 3, e = 4, f = 5, g = 6, h = 7, i = 8, j = 9
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::kernels::register_loop::{ODD, checks};

    fn multiply<const N: usize>(chains: &mut [u64; N]) {
        for chain in chains {
            *chain = chain.wrapping_mul(ODD);
        }
    }

    #[test]
    fn every_width_multiplies_each_of_its_chains() {
        checks::every_iteration_counts(imul1(), multiply);
        checks::every_iteration_counts(imul2(), multiply);
        checks::every_iteration_counts(imul3(), multiply);
        checks::every_iteration_counts(imul4(), multiply);
        checks::every_iteration_counts(imul5(), multiply);
        checks::every_iteration_counts(imul6(), multiply);
        checks::every_iteration_counts(imul7(), multiply);
        checks::every_iteration_counts(imul8(), multiply);
        checks::every_iteration_counts(imul9(), multiply);
        checks::every_iteration_counts(imul10(), multiply);
    }

    #[test]
    fn a_wrong_register_is_found() {
        checks::what_is_wrong_is_found(imul1());
        checks::what_is_wrong_is_found(imul2());
        checks::what_is_wrong_is_found(imul3());
        checks::what_is_wrong_is_found(imul4());
        checks::what_is_wrong_is_found(imul5());
        checks::what_is_wrong_is_found(imul6());
        checks::what_is_wrong_is_found(imul7());
        checks::what_is_wrong_is_found(imul8());
        checks::what_is_wrong_is_found(imul9());
        checks::what_is_wrong_is_found(imul10());
    }
}
