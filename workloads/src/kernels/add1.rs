//! add1: one dependent addition a loop, so one taken branch a cycle.

use super::register_loop::{Register, register_loop};

register_loop! {
    KERNEL: {
        name: "add1",
        summary: "one addition a loop",
        note: "1 cycle: a dependent addition and one taken branch (port 6, or 0 and 6)",
        usual_cycles: Some(1.0),
        instructions: Some(3),
    },
    adds: { sum: Register::sum("sum", 1) },
    x86_64: ["add {sum}, {m}"],
    aarch64: ["add {sum}, {sum}, {m}"],
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::kernels::register_loop::{ODD, checks};

    #[test]
    fn the_sum_counts_every_addition() {
        checks::every_iteration_counts(adds(), |[sum]| *sum = sum.wrapping_add(ODD));
    }

    #[test]
    fn a_wrong_sum_is_found() {
        checks::what_is_wrong_is_found(adds());
    }
}
