//! spin_lock: all workers take one lock that is waited for by spinning, and add to what it protects.
//!
//! The lock is not fair: the holder often takes it again before another core has seen it free.
//! `handovers` counts how often it did change its owner; spin_handoff alternates strictly.

use std::hint::spin_loop;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use crate::kernel::{Crew, Kernel, Proof, Unit, Variant, Work, anywhere};

/// The entry in the catalog.
pub static KERNEL: Kernel = Kernel {
    name: "spin_lock",
    summary: "one lock for all workers; they spin with a pause while it is taken",
    note: "two atomic instructions alone; if shared, line transfers and the waiting of others",
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
struct Locked {
    is_taken: AtomicBool,
    /// Changed by a load and a store, so that a second holder would lose an addition.
    counter: AtomicU64,
    /// The number of the last holder, from 1.
    owner: AtomicU64,
}

impl Locked {
    fn lock(&self) {
        while self.is_taken.swap(true, Ordering::Acquire) {
            while self.is_taken.load(Ordering::Relaxed) {
                spin_loop();
            }
        }
    }

    fn unlock(&self) {
        self.is_taken.store(false, Ordering::Release);
    }
}

#[derive(Default)]
struct Shared {
    locked: Apart<Locked>,
    /// What the workers did, added once per batch: what the counter must be.
    done: Apart<AtomicU64>,
}

struct Holder {
    shared: Arc<Shared>,
    number: u64,
    acquisitions: u64,
    handovers: u64,
}

impl Work for Holder {
    fn batch(&mut self, iterations: u64) -> u64 {
        let locked = &self.shared.locked.0;
        for _ in 0..iterations {
            locked.lock();
            let counter = locked.counter.load(Ordering::Relaxed);
            let owner = locked.owner.load(Ordering::Relaxed);
            locked.counter.store(counter + 1, Ordering::Relaxed);
            locked.owner.store(self.number, Ordering::Relaxed);
            locked.unlock();
            self.handovers += u64::from(owner != self.number && owner != 0);
        }
        self.acquisitions += iterations;
        self.shared.done.0.fetch_add(iterations, Ordering::Relaxed);
        iterations
    }

    fn prove(&mut self) -> Vec<Proof> {
        let done = self.shared.done.0.load(Ordering::Relaxed);
        let counter = self.shared.locked.0.counter.load(Ordering::Relaxed);
        vec![Proof::new("the counter is the acquisitions of all workers", done, counter)]
    }

    fn counts(&self) -> Vec<(&'static str, u64)> {
        vec![("operations", self.acquisitions), ("handovers", self.handovers)]
    }
}

fn crew(threads: usize) -> Crew {
    let shared = Arc::new(Shared::default());
    Crew::numbered(threads, move |worker, _| Ok(holder(&shared, worker)))
}

fn holder(shared: &Arc<Shared>, worker: usize) -> Holder {
    Holder { shared: Arc::clone(shared), number: worker as u64 + 1, acquisitions: 0, handovers: 0 }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::thread;

    #[test]
    fn acquisitions_of_all_workers_count_and_a_lost_one_is_found() {
        let shared = Arc::new(Shared::default());
        let (mut first, mut second) = (holder(&shared, 0), holder(&shared, 1));
        thread::scope(|scope| {
            scope.spawn(|| first.batch(10_000));
            second.batch(20_000);
        });
        assert_eq!(shared.locked.0.counter.load(Ordering::Relaxed), 30_000);
        assert!(first.prove().iter().chain(&second.prove()).all(Proof::holds));
        shared.locked.0.counter.store(29_999, Ordering::Relaxed);
        assert!(!first.prove()[0].holds());
    }

    #[test]
    fn a_handover_is_an_acquisition_after_that_of_another_worker() {
        let shared = Arc::new(Shared::default());
        let (mut first, mut second) = (holder(&shared, 0), holder(&shared, 1));
        first.batch(3);
        second.batch(3);
        first.batch(3);
        assert_eq!((first.handovers, second.handovers), (1, 1));
    }
}
