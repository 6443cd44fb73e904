//! spin_handoff: two parties that pass an item back and forth, strictly in turn.
//!
//! Between two CPUs, a hop is the transfer of a cache line. On one CPU, if the waiting party spins,
//! each hop takes a whole time slice. A plain lock would not show this: its holder takes it again.

use std::hint::spin_loop;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, OnceLock};
use std::thread::{self, Thread};

use super::apart::Apart;
use crate::kernel::anywhere;
use crate::kernel::{Builder, Crew, How, Kernel, Link, Options, Proof, Unit, Variant, Work};

/// Number of spins before parking.
const SPINS: u32 = 2000;

/// The entry in the catalog.
pub static KERNEL: Kernel = Kernel {
    name: "spin_handoff",
    summary: "two workers in strict alternation (--how spin, yield or park)",
    note: "one cache line transfer between two CPUs; a time slice a hop if both share one CPU",
    unit: Unit::Hops,
    parties: 2,
    variants: &[Variant { name: "default", refusal: anywhere, crew }],
    usual_cycles: None,
    instructions: None,
};

struct Pair {
    /// Hops so far: even, the first party's turn; odd, the second's.
    turn: Apart<AtomicU64>,
    /// The item that is handed over: the number of the hop.
    item: AtomicU64,
    released: Apart<AtomicBool>,
    threads: [OnceLock<Thread>; 2],
}

impl Pair {
    fn new() -> Pair {
        Pair {
            turn: Apart(AtomicU64::new(0)),
            item: AtomicU64::new(0),
            released: Apart(AtomicBool::new(false)),
            threads: [OnceLock::new(), OnceLock::new()],
        }
    }

    fn wake(&self, party: usize) {
        if let Some(thread) = self.threads[party].get() {
            thread.unpark();
        }
    }
}

impl Link for Pair {
    fn release(&self) {
        self.released.0.store(true, Ordering::Release);
        self.wake(0);
        self.wake(1);
    }

    fn rearm(&self) {
        self.released.0.store(false, Ordering::Release);
    }
}

struct Party {
    pair: Arc<Pair>,
    side: usize,
    how: How,
    hops: u64,
    /// Items that arrived out of sequence.
    gaps: u64,
    /// The next expected item.
    due: u64,
}

impl Party {
    fn new(pair: Arc<Pair>, side: usize, how: How) -> Party {
        Party { pair, side, how, hops: 0, gaps: 0, due: side as u64 }
    }

    /// Waits for its turn; false if the pair was released first.
    fn turn_came(&self) -> bool {
        let mut tries = 0;
        while self.pair.turn.0.load(Ordering::Acquire) & 1 != self.side as u64 {
            if self.pair.released.0.load(Ordering::Acquire) {
                return false;
            }
            match self.how {
                How::Spin => spin_loop(),
                How::Yield => thread::yield_now(),
                How::Park if tries < SPINS => {
                    tries += 1;
                    spin_loop();
                }
                How::Park => thread::park(),
            }
        }
        true
    }
}

impl Work for Party {
    fn batch(&mut self, iterations: u64) -> u64 {
        for done in 0..iterations {
            if !self.turn_came() {
                return done;
            }
            let item = self.pair.item.load(Ordering::Relaxed);
            self.gaps += u64::from(item != self.due);
            self.due = item + 2;
            self.hops += 1;
            self.pair.item.store(item + 1, Ordering::Relaxed);
            self.pair.turn.0.store(item + 1, Ordering::Release);
            if self.how == How::Park {
                self.pair.wake(1 - self.side);
            }
        }
        iterations
    }

    fn leave(&self) {
        self.pair.release();
    }

    fn prove(&mut self) -> Vec<Proof> {
        let total = self.pair.turn.0.load(Ordering::Acquire);
        // The first party does hops 0, 2, 4, ... of all; the second 1, 3, 5, ...
        let share = (total + 1 - self.side as u64) / 2;
        vec![
            Proof::new("items that were not the next", 0, self.gaps),
            Proof::new(format!("this party's share of {total} hops"), share, self.hops),
        ]
    }
}

fn crew(threads: usize, options: Options) -> Crew {
    let mut crew = Crew { builders: Vec::new(), links: Vec::new() };
    for _ in 0..threads / 2 {
        let pair = Arc::new(Pair::new());
        for side in 0..2 {
            let pair = Arc::clone(&pair);
            let builder: Builder = Box::new(move |_| {
                // Set before any party waits: all are built before the first batch begins.
                pair.threads[side].get_or_init(thread::current);
                Ok(Box::new(Party::new(pair, side, options.how)))
            });
            crew.builders.push(builder);
        }
        crew.links.push(pair);
    }
    crew
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parties(how: How) -> (Arc<Pair>, Party, Party) {
        let pair = Arc::new(Pair::new());
        let first = Party::new(Arc::clone(&pair), 0, how);
        let second = Party::new(Arc::clone(&pair), 1, how);
        (pair, first, second)
    }

    #[test]
    fn two_parties_alternate_without_a_gap() {
        for how in [How::Spin, How::Yield, How::Park] {
            let (pair, mut first, mut second) = parties(how);
            thread::scope(|scope| {
                scope.spawn(|| {
                    first.pair.threads[0].get_or_init(thread::current);
                    while first.pair.threads[1].get().is_none() {
                        thread::yield_now();
                    }
                    assert_eq!(first.batch(21), 21);
                });
                second.pair.threads[1].get_or_init(thread::current);
                while pair.threads[0].get().is_none() {
                    thread::yield_now();
                }
                assert_eq!(second.batch(20), 20);
            });
            assert_eq!(pair.turn.0.load(Ordering::Acquire), 41);
            assert!(first.prove().iter().chain(&second.prove()).all(Proof::holds));
        }
    }

    #[test]
    fn release_ends_a_wait_that_has_no_partner() {
        for how in [How::Spin, How::Yield, How::Park] {
            let (pair, mut first, mut second) = parties(how);
            pair.release();
            assert_eq!(second.batch(5), 0);
            assert_eq!(first.batch(5), 1);
            assert!(first.prove().iter().chain(&second.prove()).all(Proof::holds));
        }
    }

    #[test]
    fn a_lost_item_is_found() {
        let (pair, mut first, mut second) = parties(How::Spin);
        assert_eq!((first.batch(1), second.batch(1)), (1, 1));
        pair.item.store(4, Ordering::Relaxed);
        assert_eq!(first.batch(1), 1);
        let holds =
            |party: &mut Party| -> Vec<bool> { party.prove().iter().map(Proof::holds).collect() };
        assert_eq!(holds(&mut first), [false, false]);
    }
}
