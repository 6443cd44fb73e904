//! queue: a producer and a consumer on a bounded queue with a lock and two conditions.
//!
//! With capacity 1, the parties wait for each other at almost every item; with capacity 64, they
//! hardly ever switch.

use std::collections::VecDeque;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};

use crate::kernel::{Builder, Crew, Kernel, Link, Options, Proof, Unit, Variant, Work, anywhere};

/// The entry in the catalog.
pub static KERNEL: Kernel = Kernel {
    name: "queue",
    summary: "a producer and a consumer on a bounded queue (--depth 1 to 64, default 1)",
    note: "wake-up latency at depth 1; the lock alone at depth 64",
    unit: Unit::Items,
    parties: 2,
    variants: &[Variant { name: "default", refusal: anywhere, crew }],
    usual_cycles: None,
    instructions: None,
};

struct Places {
    items: VecDeque<u64>,
    /// Total number of items put in.
    pushed: u64,
    released: bool,
}

struct Queue {
    depth: usize,
    places: Mutex<Places>,
    item_came: Condvar,
    place_came: Condvar,
}

impl Queue {
    fn new(depth: usize) -> Queue {
        Queue {
            depth,
            places: Mutex::new(Places {
                items: VecDeque::with_capacity(depth),
                pushed: 0,
                released: false,
            }),
            item_came: Condvar::new(),
            place_came: Condvar::new(),
        }
    }

    fn places(&self) -> MutexGuard<'_, Places> {
        self.places.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Waits for space; None if the queue was released instead. Some(waited).
    fn push(&self, item: u64) -> Option<bool> {
        let mut places = self.places();
        let mut waited = false;
        while places.items.len() >= self.depth {
            if places.released {
                return None;
            }
            waited = true;
            places = self.place_came.wait(places).unwrap_or_else(PoisonError::into_inner);
        }
        places.items.push_back(item);
        places.pushed += 1;
        drop(places);
        self.item_came.notify_one();
        Some(waited)
    }

    /// Waits for an item; None if the queue was released instead. Some(item, waited).
    fn pop(&self) -> Option<(u64, bool)> {
        let mut places = self.places();
        let mut waited = false;
        loop {
            if let Some(item) = places.items.pop_front() {
                drop(places);
                self.place_came.notify_one();
                return Some((item, waited));
            }
            if places.released {
                return None;
            }
            waited = true;
            places = self.item_came.wait(places).unwrap_or_else(PoisonError::into_inner);
        }
    }
}

impl Link for Queue {
    fn release(&self) {
        self.places().released = true;
        self.item_came.notify_all();
        self.place_came.notify_all();
    }

    fn rearm(&self) {
        self.places().released = false;
    }
}

struct Producer {
    queue: Arc<Queue>,
    produced: u64,
    waits: u64,
}

impl Work for Producer {
    fn batch(&mut self, iterations: u64) -> u64 {
        for done in 0..iterations {
            let Some(waited) = self.queue.push(self.produced + 1) else {
                return done;
            };
            self.waits += u64::from(waited);
            self.produced += 1;
        }
        iterations
    }

    fn leave(&self) {
        self.queue.release();
    }

    fn prove(&mut self) -> Vec<Proof> {
        // Items that the consumer did not take must still be in the queue, in order.
        let places = self.queue.places();
        let left = places.items.len() as u64;
        let first = (self.produced + 1).saturating_sub(left);
        let due: Vec<u64> = (first..=self.produced).collect();
        let found: Vec<u64> = places.items.iter().copied().collect();
        vec![
            Proof::new("items produced", self.produced, places.pushed),
            Proof::new("items left in the queue", format!("{due:?}"), format!("{found:?}")),
        ]
    }

    fn counts(&self) -> Vec<(&'static str, u64)> {
        vec![("waits", self.waits), ("produced_items", self.produced)]
    }
}

struct Consumer {
    queue: Arc<Queue>,
    consumed: u64,
    sum: u64,
    out_of_order: u64,
    waits: u64,
}

impl Work for Consumer {
    fn batch(&mut self, iterations: u64) -> u64 {
        for done in 0..iterations {
            let Some((item, waited)) = self.queue.pop() else {
                return done;
            };
            self.waits += u64::from(waited);
            self.consumed += 1;
            self.out_of_order += u64::from(item != self.consumed);
            self.sum = self.sum.wrapping_add(item);
        }
        iterations
    }

    fn leave(&self) {
        self.queue.release();
    }

    fn prove(&mut self) -> Vec<Proof> {
        let n = u128::from(self.consumed);
        let places = self.queue.places();
        let taken = places.pushed.saturating_sub(places.items.len() as u64);
        vec![
            Proof::new("items out of order", 0, self.out_of_order),
            Proof::new(format!("sum of {n} items"), n * (n + 1) / 2, self.sum),
            Proof::new("items taken of those produced", taken, self.consumed),
        ]
    }

    fn counts(&self) -> Vec<(&'static str, u64)> {
        vec![("waits", self.waits), ("consumed_items", self.consumed)]
    }
}

fn crew(threads: usize, options: Options) -> Crew {
    let mut crew = Crew { builders: Vec::new(), links: Vec::new() };
    for _ in 0..threads / 2 {
        let queue = Arc::new(Queue::new(options.depth));
        let (of_producer, of_consumer) = (Arc::clone(&queue), Arc::clone(&queue));
        let producer: Builder =
            Box::new(move |_| Ok(Box::new(Producer { queue: of_producer, produced: 0, waits: 0 })));
        let consumer: Builder = Box::new(move |_| {
            Ok(Box::new(Consumer {
                queue: of_consumer,
                consumed: 0,
                sum: 0,
                out_of_order: 0,
                waits: 0,
            }))
        });
        crew.builders.extend([producer, consumer]);
        crew.links.push(queue);
    }
    crew
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::thread;

    fn parties(depth: usize) -> (Arc<Queue>, Producer, Consumer) {
        let queue = Arc::new(Queue::new(depth));
        let producer = Producer { queue: Arc::clone(&queue), produced: 0, waits: 0 };
        let consumer =
            Consumer { queue: Arc::clone(&queue), consumed: 0, sum: 0, out_of_order: 0, waits: 0 };
        (queue, producer, consumer)
    }

    fn holds(work: &mut dyn Work) -> Vec<bool> {
        work.prove().iter().map(Proof::holds).collect()
    }

    #[test]
    fn every_item_arrives_in_order_at_any_depth() {
        for depth in [1, 2, 64] {
            let (queue, mut producer, mut consumer) = parties(depth);
            thread::scope(|scope| {
                scope.spawn(|| assert_eq!(producer.batch(1001), 1001));
                assert_eq!(consumer.batch(1000), 1000);
            });
            assert_eq!(queue.places().items, [1001]);
            assert_eq!(consumer.sum, 500_500);
            assert_eq!(holds(&mut producer), [true, true]);
            assert_eq!(holds(&mut consumer), [true, true, true]);
        }
    }

    #[test]
    fn the_queue_holds_no_more_than_its_depth_and_release_ends_waits() {
        let (queue, mut producer, mut consumer) = parties(3);
        queue.release();
        assert_eq!(producer.batch(10), 3);
        assert_eq!(consumer.batch(10), 3);
        queue.rearm();
        assert_eq!(producer.batch(2), 2);
        assert_eq!(consumer.batch(1), 1);
        assert_eq!(queue.places().items, [5]);
        assert_eq!((producer.waits, consumer.waits), (0, 0));
    }

    #[test]
    fn lost_doubled_and_changed_items_are_found() {
        let (queue, mut producer, mut consumer) = parties(8);
        producer.batch(4);
        consumer.batch(1);
        queue.places().items.pop_front();
        assert_eq!(holds(&mut consumer), [true, true, false]);
        consumer.batch(1);
        assert_eq!(holds(&mut consumer), [false, false, false]);
        queue.places().items.push_back(4);
        assert_eq!(holds(&mut producer), [true, false]);
    }
}
