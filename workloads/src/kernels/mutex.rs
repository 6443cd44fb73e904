//! mutex: all workers take one mutex of the system, and add to what it protects.
//!
//! A worker that finds it taken spins briefly and then sleeps, unlike in spin_lock.

use std::sync::{Mutex, PoisonError};

use super::shared_counter::{Counter, crew};
use crate::kernel::{Kernel, Unit, Variant, anywhere};

/// The entry in the catalog.
pub static KERNEL: Kernel = Kernel {
    name: "mutex",
    summary: "one mutex for all workers; they sleep while it is taken",
    note: "two atomic instructions alone; if shared, line transfers, sleeping and waking",
    unit: Unit::Iterations,
    parties: 1,
    variants: &[Variant {
        name: "default",
        refusal: anywhere,
        crew: |threads, _| crew::<Mutex<u64>>(threads),
    }],
    usual_cycles: None,
    instructions: None,
};

impl Counter for Mutex<u64> {
    fn add(&self) -> u64 {
        let mut counter = self.lock().unwrap_or_else(PoisonError::into_inner);
        let found = *counter;
        *counter = found + 1;
        found
    }

    fn value(&self) -> u64 {
        *self.lock().unwrap_or_else(PoisonError::into_inner)
    }

    #[cfg(test)]
    fn lose_one(&self) {
        *self.lock().unwrap_or_else(PoisonError::into_inner) -= 1;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::kernels::shared_counter::check;

    #[test]
    fn acquisitions_of_all_workers_count_and_a_lost_one_is_found() {
        check::<Mutex<u64>>();
    }
}
