//! Interrupts per CPU: an entry and the exit that ends it.

use std::collections::VecDeque;

use super::Tables;
use super::rows::Held;

/// Nesting beyond this is damage.
const DEEPEST: usize = 16;

/// Where the row of an open interrupt lies.
#[derive(Clone, Copy, Debug)]
struct Open {
    softirq: bool,
    number: i64,
    ts: i64,
    frame: u64,
    row: usize,
}

/// Interrupts that have begun and not ended, by CPU.
#[derive(Debug, Default)]
pub(super) struct Interrupts {
    open: Vec<Vec<Open>>,
    /// Entries without an exit, and exits without an entry.
    pub(super) unpaired: i64,
}

/// The frame that is being filled and those before it whose interrupts may still end.
pub(super) struct Filling<'a> {
    pub(super) frame: u64,
    pub(super) current: &'a mut Tables,
    pub(super) held: &'a mut VecDeque<Held>,
}

impl Interrupts {
    fn of(&mut self, cpu: i32) -> &mut Vec<Open> {
        let at = cpu.max(0) as usize;
        if self.open.len() <= at {
            self.open.resize_with(at + 1, Vec::new);
        }
        &mut self.open[at]
    }

    /// An entry whose row has just been written.
    pub(super) fn begin(
        &mut self,
        cpu: i32,
        softirq: bool,
        number: i64,
        ts: i64,
        at: (u64, usize),
    ) {
        let open = self.of(cpu);
        // Softirqs do not nest, nor does a handler interrupt itself: the exit was not seen.
        let stale =
            open.iter().position(|o| o.softirq == softirq && (softirq || o.number == number));
        let mut dropped = 0;
        if let Some(stale) = stale {
            dropped = open.len() - stale;
            open.truncate(stale);
        }
        if open.len() < DEEPEST {
            open.push(Open { softirq, number, ts, frame: at.0, row: at.1 });
        }
        self.unpaired += dropped as i64;
    }

    /// An exit; fills in the length where the entry is known.
    pub(super) fn end(&mut self, cpu: i32, softirq: bool, number: i64, ts: i64, to: Filling<'_>) {
        let open = self.of(cpu);
        let Some(at) = open.iter().rposition(|o| o.softirq == softirq && o.number == number) else {
            self.unpaired += 1;
            return;
        };
        let found = open[at];
        let dropped = open.len() - at - 1;
        open.truncate(at);
        self.unpaired += dropped as i64;
        let tables = if found.frame == to.frame {
            Some(to.current)
        } else {
            let held = to.held.iter_mut().find(|held| held.number == found.frame);
            held.map(|held| &mut held.tables)
        };
        match tables {
            Some(tables) => tables.interrupt_end(found.row, ts - found.ts),
            None => self.unpaired += 1,
        }
    }

    /// The first frame in which an interrupt is open.
    pub(super) fn earliest_open(&self) -> Option<u64> {
        self.open.iter().flatten().map(|open| open.frame).min()
    }

    /// Records of this CPU were lost: the ends of what is open may be among them.
    pub(super) fn forget(&mut self, cpu: i32) {
        self.of(cpu).clear();
    }
}
