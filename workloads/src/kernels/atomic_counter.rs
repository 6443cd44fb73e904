//! atomic_counter: all workers add to one counter with an atomic instruction.
//!
//! The cache line of the counter moves between the workers' cores; siblings share the cache that
//! holds it.

use std::sync::atomic::{AtomicU64, Ordering};

use super::shared_counter::{Counter, crew};
use crate::kernel::{Kernel, Unit, Variant, anywhere};

/// The entry in the catalog.
pub static KERNEL: Kernel = Kernel {
    name: "atomic_counter",
    summary: "atomic additions to one counter that all workers share",
    note: "an atomic instruction alone; a cache line transfer for each run of additions if shared",
    unit: Unit::Iterations,
    parties: 1,
    variants: &[Variant {
        name: "default",
        refusal: anywhere,
        crew: |threads, _| crew::<AtomicU64>(threads),
    }],
    usual_cycles: None,
    instructions: None,
};

impl Counter for AtomicU64 {
    fn add(&self) -> u64 {
        self.fetch_add(1, Ordering::Relaxed)
    }

    fn value(&self) -> u64 {
        self.load(Ordering::Relaxed)
    }

    #[cfg(test)]
    fn lose_one(&self) {
        self.fetch_sub(1, Ordering::Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::kernels::shared_counter::check;

    #[test]
    fn additions_of_all_workers_count_and_a_lost_one_is_found() {
        check::<AtomicU64>();
    }
}
