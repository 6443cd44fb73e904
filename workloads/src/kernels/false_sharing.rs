//! false_sharing: each worker adds to its own counter, on one cache line or on separate ones.
//!
//! The workers share no data, so that only the placement of the counters differs. `own_line` is the
//! control.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use crate::kernel::{Crew, Kernel, Proof, Unit, Variant, Work, anywhere};

/// Counters of 8 bytes in 64 bytes, the cache line of x86-64 and most aarch64 cores.
const PER_LINE: usize = 8;
/// A distance in counters at which neither lines nor prefetched pairs of lines are shared.
const APART: usize = 32;

/// The entry in the catalog.
pub static KERNEL: Kernel = Kernel {
    name: "false_sharing",
    summary: "atomic additions to a counter of each worker's own, eight of them on a cache line",
    note: "the additions of atomic_counter without shared data; own_line is the control",
    unit: Unit::Iterations,
    parties: 1,
    variants: &[
        Variant { name: "same_line", refusal: anywhere, crew: |threads, _| crew(threads, 1) },
        Variant { name: "own_line", refusal: anywhere, crew: |threads, _| crew(threads, APART) },
    ],
    usual_cycles: None,
    instructions: None,
};

#[repr(align(64))]
#[derive(Default)]
struct Line([AtomicU64; PER_LINE]);

/// The counters of all workers: that of a worker is `distance` after the previous one's.
struct Counters {
    lines: Vec<Line>,
    distance: usize,
}

impl Counters {
    fn new(threads: usize, distance: usize) -> Counters {
        let lines = (threads * distance).div_ceil(PER_LINE);
        Counters { lines: (0..lines).map(|_| Line::default()).collect(), distance }
    }

    fn of(&self, worker: usize) -> &AtomicU64 {
        let at = worker * self.distance;
        &self.lines[at / PER_LINE].0[at % PER_LINE]
    }
}

struct Adder {
    counters: Arc<Counters>,
    worker: usize,
    additions: u64,
}

impl Work for Adder {
    fn batch(&mut self, iterations: u64) -> u64 {
        let counter = self.counters.of(self.worker);
        for _ in 0..iterations {
            counter.fetch_add(1, Ordering::Relaxed);
        }
        self.additions += iterations;
        iterations
    }

    fn prove(&mut self) -> Vec<Proof> {
        let counter = self.counters.of(self.worker).load(Ordering::Relaxed);
        vec![Proof::new("this worker's counter", self.additions, counter)]
    }

    fn counts(&self) -> Vec<(&'static str, u64)> {
        vec![("operations", self.additions)]
    }
}

fn crew(threads: usize, distance: usize) -> Crew {
    let counters = Arc::new(Counters::new(threads, distance));
    Crew::numbered(threads, move |worker, _| {
        Ok(Adder { counters: Arc::clone(&counters), worker, additions: 0 })
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn line_of(counters: &Counters, worker: usize) -> usize {
        std::ptr::from_ref(counters.of(worker)) as usize / 64
    }

    #[test]
    fn eight_workers_share_a_line_or_none_do() {
        let same = Counters::new(9, 1);
        let lines: Vec<usize> = (0..9).map(|worker| line_of(&same, worker)).collect();
        assert!(lines[..8].iter().all(|line| *line == lines[0]));
        assert_ne!(lines[8], lines[0]);
        let own = Counters::new(3, APART);
        assert!(line_of(&own, 1) >= line_of(&own, 0) + 4);
        assert!(line_of(&own, 2) >= line_of(&own, 1) + 4);
    }

    #[test]
    fn a_counter_that_another_worker_changed_is_found() {
        let counters = Arc::new(Counters::new(2, 1));
        let mut first = Adder { counters: Arc::clone(&counters), worker: 0, additions: 0 };
        let mut second = Adder { counters, worker: 1, additions: 0 };
        assert_eq!((first.batch(7), second.batch(9)), (7, 9));
        assert!(first.prove().iter().chain(&second.prove()).all(Proof::holds));
        first.counters.of(1).fetch_add(1, Ordering::Relaxed);
        assert!(first.prove()[0].holds() && !second.prove()[0].holds());
    }
}
