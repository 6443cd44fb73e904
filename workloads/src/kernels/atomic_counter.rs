//! atomic_counter: all workers add to one counter with an atomic instruction.
//!
//! The cache line of the counter moves between the workers' cores; siblings share the cache that
//! holds it.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use crate::kernel::{Crew, Kernel, Proof, Unit, Variant, Work, anywhere};

/// The entry in the catalog.
pub static KERNEL: Kernel = Kernel {
    name: "atomic_counter",
    summary: "atomic additions to one counter that all workers share",
    note: "an atomic instruction alone; a cache line transfer for each run of additions if shared",
    unit: Unit::Iterations,
    parties: 1,
    variants: &[Variant { name: "default", refusal: anywhere, crew: |threads, _| crew(threads) }],
    usual_cycles: None,
    instructions: None,
};

/// Puts its content on separate cache lines.
#[repr(align(128))]
#[derive(Default)]
struct Apart<T>(T);

#[derive(Default)]
struct Shared {
    counter: Apart<AtomicU64>,
    /// What the workers did, added once per batch: what the counter must be.
    done: Apart<AtomicU64>,
}

struct Adder {
    shared: Arc<Shared>,
    additions: u64,
    handovers: u64,
    /// The counter after this worker's last addition.
    due: u64,
}

impl Work for Adder {
    fn batch(&mut self, iterations: u64) -> u64 {
        for _ in 0..iterations {
            let found = self.shared.counter.0.fetch_add(1, Ordering::Relaxed);
            self.handovers += u64::from(found != self.due);
            self.due = found + 1;
        }
        self.additions += iterations;
        self.shared.done.0.fetch_add(iterations, Ordering::Relaxed);
        iterations
    }

    fn prove(&mut self) -> Vec<Proof> {
        let done = self.shared.done.0.load(Ordering::Relaxed);
        let counter = self.shared.counter.0.load(Ordering::Relaxed);
        vec![Proof::new("the counter is the additions of all workers", done, counter)]
    }

    fn counts(&self) -> Vec<(&'static str, u64)> {
        vec![("operations", self.additions), ("handovers", self.handovers)]
    }
}

fn crew(threads: usize) -> Crew {
    let shared = Arc::new(Shared::default());
    Crew::alone(threads, move |_| Ok(adder(&shared)))
}

fn adder(shared: &Arc<Shared>) -> Adder {
    Adder { shared: Arc::clone(shared), additions: 0, handovers: 0, due: 0 }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::thread;

    #[test]
    fn additions_of_all_workers_count_and_a_lost_one_is_found() {
        let shared = Arc::new(Shared::default());
        let (mut first, mut second) = (adder(&shared), adder(&shared));
        thread::scope(|scope| {
            scope.spawn(|| first.batch(10_000));
            second.batch(20_000);
        });
        assert_eq!(shared.counter.0.load(Ordering::Relaxed), 30_000);
        assert!(first.prove().iter().chain(&second.prove()).all(Proof::holds));
        shared.counter.0.fetch_sub(1, Ordering::Relaxed);
        assert!(!first.prove()[0].holds());
    }

    #[test]
    fn a_handover_is_an_addition_after_that_of_another_worker() {
        let shared = Arc::new(Shared::default());
        let (mut first, mut second) = (adder(&shared), adder(&shared));
        first.batch(3);
        second.batch(3);
        first.batch(3);
        assert_eq!((first.handovers, second.handovers), (1, 1));
    }
}
