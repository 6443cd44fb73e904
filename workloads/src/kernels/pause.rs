//! pause: the instruction that spin loops wait with.

use super::register_loop::{Register, register_loop};

register_loop! {
    KERNEL: {
        name: "pause",
        summary: "one PAUSE (aarch64: YIELD) a loop",
        note: "its length differs widely between cores (about 10 to 140 cycles) \
               and is not promised",
        usual_cycles: None,
        instructions: None,
    },
    pauses: { sum: Register::sum("sum", 1) },
    x86_64: ["pause", "add {sum}, {m}"],
    aarch64: ["yield", "add {sum}, {sum}, {m}"],
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::kernels::register_loop::{ODD, checks};

    #[test]
    fn every_pause_is_counted_and_a_wrong_count_is_found() {
        checks::every_iteration_counts(pauses(), |[sum]| *sum = sum.wrapping_add(ODD));
        checks::what_is_wrong_is_found(pauses());
    }
}
