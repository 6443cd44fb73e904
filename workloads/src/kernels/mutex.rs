//! mutex: all workers take one mutex of the system, and add to what it protects.
//!
//! A worker that finds it taken spins briefly and then sleeps, unlike in spin_lock.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use crate::kernel::{Crew, Kernel, Proof, Unit, Variant, Work, anywhere};

/// The entry in the catalog.
pub static KERNEL: Kernel = Kernel {
    name: "mutex",
    summary: "one mutex for all workers; they sleep while it is taken",
    note: "two atomic instructions alone; if shared, line transfers, sleeping and waking",
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
    counter: u64,
    /// The number of the last holder, from 1.
    owner: u64,
}

#[derive(Default)]
struct Shared {
    locked: Apart<Mutex<Locked>>,
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
        for _ in 0..iterations {
            let mut locked = self.shared.locked.0.lock().unwrap_or_else(PoisonError::into_inner);
            locked.counter += 1;
            let owner = std::mem::replace(&mut locked.owner, self.number);
            drop(locked);
            self.handovers += u64::from(owner != self.number && owner != 0);
        }
        self.acquisitions += iterations;
        self.shared.done.0.fetch_add(iterations, Ordering::Relaxed);
        iterations
    }

    fn prove(&mut self) -> Vec<Proof> {
        let done = self.shared.done.0.load(Ordering::Relaxed);
        let counter = self.shared.locked.0.lock().unwrap_or_else(PoisonError::into_inner).counter;
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
        assert!(first.prove().iter().chain(&second.prove()).all(Proof::holds));
        first.batch(1);
        second.batch(1);
        assert!(first.handovers + second.handovers >= 1);
        shared.done.0.fetch_add(1, Ordering::Relaxed);
        assert!(!first.prove()[0].holds());
    }
}
