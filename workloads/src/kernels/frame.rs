//! frame: a 60 Hz loop; each frame needs a number of hand-offs to a partner and back.
//!
//! A frame starts at the next sixtieth of a second, or at once if the previous one took longer. On
//! one CPU, if the waiting party spins, each hand-off takes a time slice, which makes frames late.

use std::hint::spin_loop;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, OnceLock};
use std::thread::{self, Thread};

use super::apart::Apart;
use crate::beat::{Beat, FrameMark};
use crate::histogram::Histogram;
use crate::kernel::anywhere;
use crate::kernel::{Builder, Crew, How, Kernel, Link, Options, Proof, Unit, Variant, Work};

/// Number of spins before parking.
const SPINS: u32 = 2000;

/// The entry in the catalog.
pub static KERNEL: Kernel = Kernel {
    name: "frame",
    summary: "a 60 Hz loop that needs --handoffs N a frame (--how spin, yield or park)",
    note: "an iteration is a frame; 16.7 ms where hand-offs are quick, N time slices where both \
           parties spin on one CPU",
    unit: Unit::Iterations,
    parties: 2,
    variants: &[Variant { name: "default", refusal: anywhere, crew }],
    usual_cycles: None,
    instructions: None,
};

struct Table {
    /// Hand-offs so far: even, the main loop's turn; odd, the partner's.
    turn: Apart<AtomicU64>,
    /// Hand-offs due by the end of this frame; neither party goes beyond.
    target: Apart<AtomicU64>,
    released: Apart<AtomicBool>,
    threads: [OnceLock<Thread>; 2],
}

impl Table {
    fn new() -> Table {
        Table {
            turn: Apart(AtomicU64::new(0)),
            target: Apart(AtomicU64::new(0)),
            released: Apart(AtomicBool::new(false)),
            threads: [OnceLock::new(), OnceLock::new()],
        }
    }

    fn wake(&self, party: usize) {
        if let Some(thread) = self.threads[party].get() {
            thread.unpark();
        }
    }

    fn released(&self) -> bool {
        self.released.0.load(Ordering::Acquire)
    }
}

impl Link for Table {
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
    table: Arc<Table>,
    side: u64,
    how: How,
    handoffs: u64,
    done: u64,
    frames: u64,
    /// Frames that the end of the warm-up or of the run cut short.
    cut: u64,
    beat: Beat,
    /// Whether its frames are recorded: only one loop per process presents.
    presents: bool,
}

impl Party {
    fn new(table: Arc<Table>, side: u64, options: Options, presents: bool) -> Party {
        Party {
            table,
            side,
            how: options.how,
            handoffs: options.handoffs,
            done: 0,
            frames: 0,
            cut: 0,
            beat: Beat::new(),
            presents,
        }
    }

    fn pause(&self, tries: &mut u32) {
        *tries += 1;
        match self.how {
            How::Spin => spin_loop(),
            How::Yield => thread::yield_now(),
            How::Park if *tries < SPINS => spin_loop(),
            How::Park => thread::park(),
        }
    }

    /// Hands over at each of its turns, until `until` hand-offs are done; false: released.
    fn play(&mut self, until: impl Fn(&Table, u64) -> bool) -> bool {
        let mut tries = 0;
        loop {
            let turn = self.table.turn.0.load(Ordering::Acquire);
            if until(&self.table, turn) {
                return true;
            }
            if self.table.released() {
                return false;
            }
            let due = turn < self.table.target.0.load(Ordering::Acquire);
            if due && turn & 1 == self.side {
                self.table.turn.0.store(turn + 1, Ordering::Release);
                self.done += 1;
                self.table.wake(1 - self.side as usize);
                tries = 0;
            } else {
                self.pause(&mut tries);
            }
        }
    }

    fn frame(&mut self) -> bool {
        let table = Arc::clone(&self.table);
        if !self.beat.next(|| table.released()) {
            return false;
        }
        let target = self.table.turn.0.load(Ordering::Acquire) + self.handoffs;
        self.table.target.0.store(target, Ordering::Release);
        self.table.wake(1);
        if !self.play(|_, turn| turn >= target) {
            self.cut += 1;
            return false;
        }
        self.beat.present();
        self.frames += 1;
        true
    }
}

impl Work for Party {
    fn begin(&mut self) {
        self.beat.restart();
    }

    fn batch(&mut self, iterations: u64) -> u64 {
        if self.side == 1 {
            // The partner has no frames of its own; it runs until the end.
            self.play(|_, _| false);
            return 0;
        }
        for frame in 0..iterations {
            if !self.frame() {
                return frame;
            }
        }
        iterations
    }

    fn leave(&self) {
        self.table.release();
    }

    fn prove(&mut self) -> Vec<Proof> {
        let total = self.table.turn.0.load(Ordering::Acquire);
        let target = self.table.target.0.load(Ordering::Acquire);
        // The main loop does hand-offs 0, 2, 4, ... of all; the partner 1, 3, 5, ...
        let share = (total + 1 - self.side) / 2;
        let beyond = u64::from(total > target);
        let mut proofs = vec![
            Proof::new(format!("this party's share of {total} hand-offs"), share, self.done),
            Proof::new("hand-offs beyond those a frame needs", 0, beyond),
        ];
        if self.side == 0 {
            let whole = self.frames * self.handoffs;
            let most = self.cut * self.handoffs;
            let rest = total.checked_sub(whole).is_some_and(|rest| rest <= most);
            proofs.push(Proof::new(format!("hand-offs of {} frames", self.frames), true, rest));
        }
        proofs
    }

    fn counts(&self) -> Vec<(&'static str, u64)> {
        match self.side {
            0 => self.beat.counts(),
            _ => Vec::new(),
        }
    }

    fn latency(&self) -> Option<&Histogram> {
        (self.side == 0).then_some(self.beat.lengths())
    }

    fn frames(&self) -> &[FrameMark] {
        if self.presents { self.beat.marks() } else { &[] }
    }

    fn warnings(&self) -> Vec<String> {
        self.beat.warnings()
    }
}

fn crew(threads: usize, options: Options) -> Crew {
    let mut crew = Crew { builders: Vec::new(), links: Vec::new() };
    for pair in 0..threads / 2 {
        let table = Arc::new(Table::new());
        for side in 0..2 {
            let table = Arc::clone(&table);
            let builder: Builder = Box::new(move |_| {
                table.threads[side].get_or_init(thread::current);
                Ok(Box::new(Party::new(table, side as u64, options, (pair, side) == (0, 0))))
            });
            crew.builders.push(builder);
        }
        crew.links.push(table);
    }
    crew
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::beat::FRAME_NS;

    fn parties(how: How, handoffs: u64) -> (Arc<Table>, Party, Party) {
        let table = Arc::new(Table::new());
        let options = Options { how, handoffs, ..Options::default() };
        let main = Party::new(Arc::clone(&table), 0, options, true);
        let partner = Party::new(Arc::clone(&table), 1, options, false);
        (table, main, partner)
    }

    #[test]
    fn every_frame_has_its_hand_offs_even_an_odd_number() {
        for how in [How::Spin, How::Yield, How::Park] {
            let (table, mut main, mut partner) = parties(how, 3);
            thread::scope(|scope| {
                scope.spawn(|| {
                    partner.table.threads[1].get_or_init(thread::current);
                    assert_eq!(partner.batch(9), 0);
                });
                table.threads[0].get_or_init(thread::current);
                while table.threads[1].get().is_none() {
                    thread::yield_now();
                }
                assert_eq!(main.batch(3), 3);
                table.release();
            });
            assert_eq!(table.turn.0.load(Ordering::Acquire), 9);
            assert_eq!((main.done, partner.done, main.beat.lengths().total()), (5, 4, 2));
            let begins: Vec<i64> = main.frames().iter().map(|mark| mark.start_mono_ns).collect();
            assert!(begins[2] - begins[0] >= FRAME_NS * 18 / 10, "{begins:?}");
            assert!(main.prove().iter().chain(&partner.prove()).all(Proof::holds));
        }
    }

    #[test]
    fn release_ends_a_frame_that_has_no_partner_and_a_wrong_count_is_found() {
        let (table, mut main, mut partner) = parties(How::Spin, 2);
        table.release();
        assert_eq!(main.batch(2), 0);
        assert_eq!(partner.batch(2), 0);
        assert!(main.prove().iter().chain(&partner.prove()).all(Proof::holds));
        table.turn.0.store(7, Ordering::Release);
        let holds: Vec<bool> = main.prove().iter().map(Proof::holds).collect();
        assert_eq!(holds, [false, false, false]);
    }
}
