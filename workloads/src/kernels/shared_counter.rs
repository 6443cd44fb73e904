//! Workers that all add to one counter: the kernels differ in what protects it.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use super::apart::Apart;
use crate::kernel::{Crew, Proof, Work};

/// A counter that many threads add to without losing an addition.
pub trait Counter: Default + Send + Sync + 'static {
    /// Adds one and returns the value before.
    fn add(&self) -> u64;

    /// The additions of all workers so far.
    fn value(&self) -> u64;

    /// Loses one addition, for the test of the proof.
    #[cfg(test)]
    fn lose_one(&self);
}

#[derive(Default)]
struct Shared<C> {
    counter: Apart<C>,
    /// What the workers did, added once per batch: what the counter must be.
    done: Apart<AtomicU64>,
}

struct Adder<C> {
    shared: Arc<Shared<C>>,
    additions: u64,
    /// Additions directly after another worker's.
    handovers: u64,
    /// The counter after this worker's last addition.
    due: u64,
}

impl<C: Counter> Work for Adder<C> {
    fn batch(&mut self, iterations: u64) -> u64 {
        for _ in 0..iterations {
            let found = self.shared.counter.0.add();
            self.handovers += u64::from(found != self.due);
            self.due = found + 1;
        }
        self.additions += iterations;
        self.shared.done.0.fetch_add(iterations, Ordering::Relaxed);
        iterations
    }

    fn prove(&mut self) -> Vec<Proof> {
        let done = self.shared.done.0.load(Ordering::Relaxed);
        let counter = self.shared.counter.0.value();
        vec![Proof::new("the counter is the additions of all workers", done, counter)]
    }

    fn counts(&self) -> Vec<(&'static str, u64)> {
        vec![("operations", self.additions), ("handovers", self.handovers)]
    }
}

/// Workers that share one counter.
pub fn crew<C: Counter>(threads: usize) -> Crew {
    let shared = Arc::new(Shared::<C>::default());
    Crew::alone(threads, move |_| Ok(adder(&shared)))
}

fn adder<C>(shared: &Arc<Shared<C>>) -> Adder<C> {
    Adder { shared: Arc::clone(shared), additions: 0, handovers: 0, due: 0 }
}

/// Checks a kernel's counter: nothing is lost, a loss is found, and handovers are counted.
#[cfg(test)]
pub fn check<C: Counter>() {
    let shared = Arc::new(Shared::<C>::default());
    let (mut first, mut second) = (adder(&shared), adder(&shared));
    std::thread::scope(|scope| {
        scope.spawn(|| first.batch(10_000));
        second.batch(20_000);
    });
    assert_eq!(shared.counter.0.value(), 30_000);
    assert!(first.prove().iter().chain(&second.prove()).all(Proof::holds));
    shared.counter.0.lose_one();
    assert!(!first.prove()[0].holds());

    let shared = Arc::new(Shared::<C>::default());
    let (mut first, mut second) = (adder(&shared), adder(&shared));
    first.batch(3);
    second.batch(3);
    first.batch(3);
    // The counter's first addition follows no other worker's.
    assert_eq!((first.handovers, second.handovers), (1, 1));
}
