//! mpmc_queue: all workers put items into one bounded queue without locks, and take items out.
//!
//! Each place of the ring has a sequence number that says whose turn it is (D. Vyukov's bounded
//! queue): a worker claims a position with a compare-and-exchange, so that the two positions and the
//! places move between the cores. Every worker puts one item in and then takes one out, its own or
//! another's: nobody waits for a worker that has stopped.

use std::hint::spin_loop;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use super::apart::Apart;
use crate::kernel::{Crew, Kernel, Proof, Unit, Variant, Work, anywhere};

/// Places of the ring, a power of two; there are always fewer items than workers.
const PLACES: usize = 1024;
/// An item is its producer's number and, in these low bits, how many that one put in before.
const SEQUENCE_BITS: u32 = 48;

/// The entry in the catalog.
pub static KERNEL: Kernel = Kernel {
    name: "mpmc_queue",
    summary: "a queue without locks: every worker puts an item in and takes one out",
    note: "two compare-and-exchanges alone; transfers of three cache lines and retries if shared",
    unit: Unit::Iterations,
    parties: 1,
    variants: &[Variant { name: "default", refusal: too_many, crew: |threads, _| crew(threads) }],
    usual_cycles: None,
    instructions: None,
};

fn too_many(threads: usize) -> Option<String> {
    let refusal = || format!("its queue has {PLACES} places, one for each worker");
    if threads > PLACES { Some(refusal()) } else { anywhere(threads) }
}

struct Place {
    sequence: AtomicU64,
    item: AtomicU64,
}

/// What all workers did, added once per batch.
#[derive(Default)]
struct Totals {
    put: AtomicU64,
    taken: AtomicU64,
    sum_put: AtomicU64,
    sum_taken: AtomicU64,
}

struct Queue {
    ring: Vec<Place>,
    head: Apart<AtomicU64>,
    tail: Apart<AtomicU64>,
    totals: Apart<Totals>,
}

impl Queue {
    fn new() -> Queue {
        let place = |at| Place { sequence: AtomicU64::new(at), item: AtomicU64::new(0) };
        Queue {
            ring: (0..PLACES as u64).map(place).collect(),
            head: Apart::default(),
            tail: Apart::default(),
            totals: Apart::default(),
        }
    }

    /// Claims the position whose place is ready, `ahead` of it. Returns it and the failed attempts.
    fn claim(&self, position: &AtomicU64, ahead: u64) -> (u64, u64) {
        let mut at = position.load(Ordering::Relaxed);
        let mut retries = 0;
        loop {
            let ready = self.place(at).sequence.load(Ordering::Acquire) == at + ahead;
            if ready {
                match position.compare_exchange_weak(
                    at,
                    at + 1,
                    Ordering::Relaxed,
                    Ordering::Relaxed,
                ) {
                    Ok(_) => return (at, retries),
                    Err(found) => at = found,
                }
            } else {
                spin_loop();
                at = position.load(Ordering::Relaxed);
            }
            retries += 1;
        }
    }

    fn place(&self, at: u64) -> &Place {
        &self.ring[at as usize & (PLACES - 1)]
    }

    /// Puts an item in; how often that had to be tried again.
    fn put(&self, item: u64) -> u64 {
        let (at, retries) = self.claim(&self.tail.0, 0);
        let place = self.place(at);
        place.item.store(item, Ordering::Relaxed);
        place.sequence.store(at + 1, Ordering::Release);
        retries
    }

    /// Takes an item out; waits until there is one.
    fn take(&self) -> (u64, u64) {
        let (at, retries) = self.claim(&self.head.0, 1);
        let place = self.place(at);
        let item = place.item.load(Ordering::Relaxed);
        place.sequence.store(at + PLACES as u64, Ordering::Release);
        (item, retries)
    }
}

struct Member {
    queue: Arc<Queue>,
    number: usize,
    operations: u64,
    retries: u64,
    /// Items of other workers that this one took.
    handovers: u64,
    /// For each producer, the lowest sequence number that may come next.
    due: Vec<u64>,
    /// Items that came after a later item of the same producer.
    disorder: u64,
}

impl Work for Member {
    fn batch(&mut self, iterations: u64) -> u64 {
        let (mut sum_put, mut sum_taken) = (0_u64, 0_u64);
        for done in 0..iterations {
            let put = (self.number as u64) << SEQUENCE_BITS | (self.operations + done);
            self.retries += self.queue.put(put);
            let (taken, retries) = self.queue.take();
            self.retries += retries;
            sum_put = sum_put.wrapping_add(put);
            sum_taken = sum_taken.wrapping_add(taken);
            let (producer, sequence) = split(taken);
            self.handovers += u64::from(producer != self.number);
            match self.due.get_mut(producer) {
                Some(due) if *due <= sequence => *due = sequence + 1,
                _ => self.disorder += 1,
            }
        }
        self.operations += iterations;
        let totals = &self.queue.totals.0;
        totals.put.fetch_add(iterations, Ordering::Relaxed);
        totals.taken.fetch_add(iterations, Ordering::Relaxed);
        totals.sum_put.fetch_add(sum_put, Ordering::Relaxed);
        totals.sum_taken.fetch_add(sum_taken, Ordering::Relaxed);
        iterations
    }

    fn prove(&mut self) -> Vec<Proof> {
        let Totals { put, taken, sum_put, sum_taken } = &self.queue.totals.0;
        let found = |total: &AtomicU64| total.load(Ordering::Relaxed);
        vec![
            Proof::new("positions of items put in", found(put), found(&self.queue.tail.0)),
            Proof::new("positions of items taken", found(taken), found(&self.queue.head.0)),
            Proof::new("sum of the items of all workers", found(sum_put), found(sum_taken)),
            Proof::new("items out of their producer's order", 0, self.disorder),
        ]
    }

    fn counts(&self) -> Vec<(&'static str, u64)> {
        vec![
            ("operations", self.operations),
            ("handovers", self.handovers),
            ("retries", self.retries),
        ]
    }
}

/// An item's producer and sequence number.
fn split(item: u64) -> (usize, u64) {
    ((item >> SEQUENCE_BITS) as usize, item & ((1 << SEQUENCE_BITS) - 1))
}

fn crew(threads: usize) -> Crew {
    let queue = Arc::new(Queue::new());
    Crew::numbered(threads, move |number, _| Ok(member(&queue, number, threads)))
}

fn member(queue: &Arc<Queue>, number: usize, threads: usize) -> Member {
    Member {
        queue: Arc::clone(queue),
        number,
        operations: 0,
        retries: 0,
        handovers: 0,
        due: vec![0; threads],
        disorder: 0,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::thread;

    #[test]
    fn no_item_is_lost_or_out_of_order() {
        let queue = Arc::new(Queue::new());
        let mut members: Vec<Member> = (0..3).map(|number| member(&queue, number, 3)).collect();
        thread::scope(|scope| {
            for member in &mut members {
                scope.spawn(|| member.batch(5_000));
            }
        });
        for member in &mut members {
            assert!(member.prove().iter().all(Proof::holds), "{:?}", member.prove());
        }
        assert_eq!(queue.tail.0.load(Ordering::Relaxed), 15_000);
    }

    #[test]
    fn lost_changed_and_disordered_items_are_found() {
        let holds = |change: fn(&Queue, &mut Member)| -> Vec<bool> {
            let queue = Arc::new(Queue::new());
            let mut member = member(&queue, 0, 1);
            member.batch(3);
            change(&queue, &mut member);
            member.prove().iter().map(Proof::holds).collect()
        };
        assert_eq!(holds(|_, _| {}), [true; 4]);
        let lost = holds(|queue, _| assert_eq!(queue.put(3), 0));
        assert_eq!(lost, [false, true, true, true]);
        let twice = holds(|queue, member| {
            queue.put(0);
            member.batch(1);
        });
        assert_eq!(twice, [false, true, false, false]);
    }

    #[test]
    fn the_ring_wraps_and_limits_the_workers() {
        let queue = Queue::new();
        for item in 0..PLACES as u64 * 3 {
            assert_eq!(queue.put(item), 0);
            assert_eq!(queue.take(), (item, 0));
        }
        assert_eq!((too_many(PLACES), too_many(PLACES + 1).is_some()), (None, true));
    }
}
