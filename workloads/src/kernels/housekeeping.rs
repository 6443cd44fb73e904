//! housekeeping: computes for 50 us of every millisecond and sleeps in between: a CPU that is 5 %
//! busy, as one with a monitoring agent.

use std::thread;
use std::time::Duration;

use super::register_loop::{ODD, SEED};
use crate::kernel::{Crew, Kernel, Proof, Unit, Variant, Work, anywhere};
use crate::os;

const PERIOD_NS: i64 = 1_000_000;
const BUSY_NS: i64 = 50_000;
/// Additions between two looks at the time.
const CHUNK: u64 = 256;

/// The entry in the catalog.
pub static KERNEL: Kernel = Kernel {
    name: "housekeeping",
    summary: "computes for 50 us of every millisecond, then sleeps: 5 % of a CPU",
    note: "an iteration is one period of 1 ms",
    unit: Unit::Iterations,
    parties: 1,
    variants: &[Variant {
        name: "default",
        refusal: anywhere,
        crew: |threads, _| Crew::alone(threads, |_| Ok(Housekeeper::new())),
    }],
    usual_cycles: None,
    instructions: None,
};

struct Housekeeper {
    sum: u64,
    additions: u64,
    busy_ns: i64,
    due_ns: i64,
}

impl Housekeeper {
    fn new() -> Housekeeper {
        Housekeeper { sum: SEED, additions: 0, busy_ns: 0, due_ns: os::monotonic_ns() }
    }

    fn compute(&mut self) {
        let begin = os::monotonic_ns();
        let mut now = begin;
        while now - begin < BUSY_NS {
            for _ in 0..CHUNK {
                self.sum = std::hint::black_box(self.sum.wrapping_add(ODD));
            }
            self.additions += CHUNK;
            now = os::monotonic_ns();
        }
        self.busy_ns += now - begin;
    }
}

impl Work for Housekeeper {
    fn begin(&mut self) {
        self.busy_ns = 0;
        self.due_ns = os::monotonic_ns();
    }

    fn batch(&mut self, iterations: u64) -> u64 {
        for _ in 0..iterations {
            self.compute();
            self.due_ns += PERIOD_NS;
            let left_ns = self.due_ns - os::monotonic_ns();
            match u64::try_from(left_ns) {
                Ok(left_ns) => thread::sleep(Duration::from_nanos(left_ns)),
                // It was kept off its CPU: periods that passed are not made up for.
                Err(_) => self.due_ns = os::monotonic_ns(),
            }
        }
        iterations
    }

    fn prove(&mut self) -> Vec<Proof> {
        let expected = SEED.wrapping_add(ODD.wrapping_mul(self.additions));
        vec![Proof::new(format!("sum after {} additions", self.additions), expected, self.sum)]
    }

    fn counts(&self) -> Vec<(&'static str, u64)> {
        vec![("busy_ns", u64::try_from(self.busy_ns).unwrap_or(0))]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_computes_for_a_twentieth_of_the_time_and_a_wrong_sum_is_found() {
        let mut work = Housekeeper::new();
        work.begin();
        let begin = os::monotonic_ns();
        assert_eq!(work.batch(20), 20);
        let took_ns = os::monotonic_ns() - begin;
        // Other programs make both longer, but never the share of 20 periods of 1 ms shorter.
        assert!(took_ns >= 20 * PERIOD_NS && work.busy_ns >= 20 * BUSY_NS, "{took_ns}");
        assert!(work.prove().iter().all(Proof::holds));
        work.sum ^= 1;
        assert!(!work.prove().iter().all(Proof::holds));
    }
}
