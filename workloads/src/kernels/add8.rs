//! add8: eight dependent additions a loop: the control of add1, with an eighth of its branches.

use super::register_loop::{Register, register_loop};

register_loop! {
    KERNEL: {
        name: "add8",
        summary: "eight dependent additions a loop",
        note: "8 cycles: the additions of add1 with an eighth of its branches",
        usual_cycles: Some(8.0),
        instructions: Some(10),
    },
    adds: { sum: Register::sum("sum", 8) },
    x86_64: [".rept 8", "add {sum}, {m}", ".endr"],
    aarch64: [".rept 8", "add {sum}, {sum}, {m}", ".endr"],
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::kernels::register_loop::{ODD, checks};

    #[test]
    fn the_sum_counts_every_addition() {
        checks::every_iteration_counts(adds(), |[sum]| {
            (0..8).for_each(|_| *sum = sum.wrapping_add(ODD));
        });
    }

    #[test]
    fn a_wrong_sum_is_found() {
        checks::what_is_wrong_is_found(adds());
    }
}
