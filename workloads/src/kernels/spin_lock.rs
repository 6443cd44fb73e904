//! spin_lock: all workers take one lock that is waited for by spinning, and add to what it protects.
//!
//! The lock is not fair: the holder often takes it again before another core has seen it free.
//! `handovers` counts how often it did change its owner; spin_handoff alternates strictly.

use std::hint::spin_loop;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use super::shared_counter::{Counter, crew};
use crate::kernel::{Kernel, Unit, Variant, anywhere};

/// The entry in the catalog.
pub static KERNEL: Kernel = Kernel {
    name: "spin_lock",
    summary: "one lock for all workers; they spin with a pause while it is taken",
    note: "two atomic instructions alone; if shared, line transfers and the waiting of others",
    unit: Unit::Iterations,
    parties: 1,
    variants: &[Variant {
        name: "default",
        refusal: anywhere,
        crew: |threads, _| crew::<Locked>(threads),
    }],
    usual_cycles: None,
    instructions: None,
};

#[derive(Default)]
struct Locked {
    is_taken: AtomicBool,
    /// Changed by a load and a store, so that a second holder would lose an addition.
    counter: AtomicU64,
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

impl Counter for Locked {
    fn add(&self) -> u64 {
        self.lock();
        let found = self.counter.load(Ordering::Relaxed);
        self.counter.store(found + 1, Ordering::Relaxed);
        self.unlock();
        found
    }

    fn value(&self) -> u64 {
        self.counter.load(Ordering::Relaxed)
    }

    #[cfg(test)]
    fn lose_one(&self) {
        self.counter.fetch_sub(1, Ordering::Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::kernels::shared_counter::check;

    #[test]
    fn acquisitions_of_all_workers_count_and_a_lost_one_is_found() {
        check::<Locked>();
    }
}
