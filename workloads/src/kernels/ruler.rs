//! ruler: 64 dependent additions a loop, which take 64 core cycles at any clock.

use super::register_loop::{Register, register_loop};
use crate::kernel::Work;
use crate::os;

/// Additions an iteration.
const ADDS: u64 = 64;

register_loop! {
    KERNEL: {
        name: "ruler",
        summary: "64 dependent additions a loop: measures core cycles",
        note: "64 cycles on any core with a latency of one cycle per addition",
        usual_cycles: Some(64.0),
        instructions: Some(66),
    },
    adds: { sum: Register::sum("sum", ADDS) },
    x86_64: [".rept 64", "add {sum}, {m}", ".endr"],
    aarch64: [".rept 64", "add {sum}, {sum}, {m}", ".endr"],
}

/// Loops to time at once: about 30 us.
const TIMED_LOOPS: u64 = 2000;
/// Number of timings; the fastest counts, because interrupts and other threads only slow it.
const TIMINGS: u32 = 8;
/// An emulated CPU must not be measured for long.
const PATIENCE_NS: i64 = 20_000_000;

/// The same for a reading within the measured interval, which must not cost much: about 8 us each.
const SHORT_LOOPS: u64 = 500;
const SHORT_TIMINGS: u32 = 3;

/// Current length of a core cycle in ns.
pub fn core_cycle_ns() -> f64 {
    fastest(TIMED_LOOPS, TIMINGS)
}

/// The same from a tenth of the time, with a resolution of a few parts in a thousand.
pub fn core_cycle_ns_in_passing() -> f64 {
    fastest(SHORT_LOOPS, SHORT_TIMINGS)
}

fn fastest(loops: u64, timings: u32) -> f64 {
    let begin = os::monotonic_ns();
    let mut adds = adds();
    let mut fastest = i64::MAX;
    let mut before = begin;
    for _ in 0..timings {
        adds.batch(loops);
        let after = os::monotonic_ns();
        fastest = fastest.min(after - before);
        before = after;
        if after - begin > PATIENCE_NS {
            break;
        }
    }
    fastest as f64 / (ADDS * loops) as f64
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::kernels::register_loop::{ODD, checks};

    #[test]
    fn the_sum_counts_every_addition() {
        checks::every_iteration_counts(adds(), |[sum]| {
            (0..64).for_each(|_| *sum = sum.wrapping_add(ODD));
        });
    }

    #[test]
    fn a_wrong_sum_is_found() {
        checks::what_is_wrong_is_found(adds());
    }
}
