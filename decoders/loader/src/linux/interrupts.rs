//! Interrupts per CPU: an entry and its exit.

use std::collections::VecDeque;

use schedlens_schedule::tables::{LateInterrupt, Moment};

use super::Tables;
use super::pending::Pending;

/// Deeper nesting means damaged data.
const DEEPEST: usize = 16;

/// The row of an open interrupt.
#[derive(Clone, Copy, Debug)]
struct Open {
    softirq: bool,
    number: i64,
    ts: i64,
    chunk: u64,
    row: usize,
    /// The CPU's first switch since. No interrupt lasts longer: its exit is missing.
    switched: Option<i64>,
}

/// Interrupts that have started and not ended, by CPU.
#[derive(Debug, Default)]
pub(crate) struct Interrupts {
    open: Vec<Vec<Open>>,
    /// By CPU, of handlers and of softirqs: its first moment, or the first after lost records, and
    /// the chunk, until a record shows that none has run since then.
    resumed: Vec<[Option<(Moment, u64)>; 2]>,
    /// Ends of interrupts are recorded.
    has_exits: bool,
    /// Entries without an exit, and exits without an entry.
    pub(crate) unpaired: i64,
}

/// Which interrupt an exit ends.
pub(crate) struct Which<'a> {
    pub(crate) softirq: bool,
    pub(crate) number: i64,
    /// The name, if the exit contains it.
    pub(crate) name: Option<&'a str>,
}

/// The current chunk and earlier ones whose interrupts may still end.
pub(crate) struct Filling<'a> {
    pub(crate) chunk: u64,
    pub(crate) current: &'a mut Tables,
    pub(crate) pending: &'a mut VecDeque<Pending>,
}

impl Filling<'_> {
    /// The tables of a chunk; `None` if the chunk is finished.
    fn tables(&mut self, chunk: u64) -> Option<&mut Tables> {
        if chunk == self.chunk {
            return Some(self.current);
        }
        self.pending
            .iter_mut()
            .find(|pending| pending.number == chunk)
            .map(|pending| &mut pending.tables)
    }
}

impl Interrupts {
    fn of(&mut self, cpu: i32) -> &mut Vec<Open> {
        let at = cpu.max(0) as usize;
        if self.open.len() <= at {
            self.open.resize_with(at + 1, Vec::new);
        }
        &mut self.open[at]
    }

    /// Handles an entry whose row has just been written.
    pub(crate) fn begin(
        &mut self,
        cpu: i32,
        softirq: bool,
        number: i64,
        ts: i64,
        at: (u64, usize),
    ) {
        // None was running before: softirqs and handlers do not nest, and only handlers interrupt.
        if let Some([handler, of_softirq]) = self.resumed.get_mut(cpu.max(0) as usize) {
            *handler = None;
            if softirq {
                *of_softirq = None;
            }
        }
        let open = self.of(cpu);
        // Softirqs do not nest, nor does a handler interrupt itself: the exit was missed.
        let stale =
            open.iter().position(|o| o.softirq == softirq && (softirq || o.number == number));
        let mut dropped = 0;
        if let Some(stale) = stale {
            dropped = open.len() - stale;
            open.truncate(stale);
        }
        if open.len() < DEEPEST {
            open.push(Open { softirq, number, ts, chunk: at.0, row: at.1, switched: None });
        }
        self.unpaired += dropped as i64;
    }

    /// Handles an exit and sets the length if the entry is known. If the entry was lost, or came
    /// before the CPU's first record, the row starts at the end of the gap or at that record: the
    /// handler has run at least since then.
    pub(crate) fn end(&mut self, which: Which<'_>, at: Moment, mut to: Filling<'_>) {
        let Which { softirq, number, name } = which;
        self.has_exits = true;
        let open = self.of(at.cpu);
        let Some(place) = open.iter().rposition(|o| o.softirq == softirq && o.number == number)
        else {
            self.unpaired += 1;
            let of_kind = self.resumed.get_mut(at.cpu.max(0) as usize);
            let resumed = of_kind.and_then(|kinds| kinds[usize::from(softirq)].take());
            // Of damaged records, one that begins a CPU's records may be later than the next ones.
            if let Some((begin, chunk)) = resumed
                && begin.ts <= at.ts
                && let Some(tables) = to.tables(chunk)
            {
                let kind = if softirq { "softirq" } else { "irq" };
                let (dur, name) = (at.ts - begin.ts, name.map(str::to_owned));
                tables.late_interrupt(LateInterrupt { begin, dur, kind, name });
            }
            return;
        };
        let found = open[place];
        let dropped = open.len() - place - 1;
        open.truncate(place);
        self.unpaired += dropped as i64;
        match to.tables(found.chunk) {
            Some(tables) => tables.interrupt_end(found.row, at.ts - found.ts),
            None => self.unpaired += 1,
        }
    }

    /// The first chunk with an open interrupt.
    pub(crate) fn earliest_open(&self) -> Option<u64> {
        self.open.iter().flatten().map(|open| open.chunk).min()
    }

    /// Records of this CPU were lost between these moments. Open interrupts last up to the gap;
    /// their ends may be among the lost records.
    pub(crate) fn lost(&mut self, before: Option<i64>, after: Moment, mut to: Filling<'_>) {
        if let Some(before) = before {
            self.last_until(after.cpu, before, &mut to);
        } else {
            self.of(after.cpu).clear();
        }
        self.resume(after, to.chunk);
    }

    /// The records of this CPU begin here, or go on after lost ones.
    pub(crate) fn resume(&mut self, first: Moment, chunk: u64) {
        let at = first.cpu.max(0) as usize;
        if self.resumed.len() <= at {
            self.resumed.resize(at + 1, [None; 2]);
        }
        self.resumed[at] = [Some((first, chunk)); 2];
    }

    /// The records of this CPU end at that time: open interrupts last at least until then.
    pub(crate) fn last_until(&mut self, cpu: i32, last: i64, to: &mut Filling<'_>) {
        for open in std::mem::take(self.of(cpu)) {
            let last = open.switched.map_or(last, |switched| switched.min(last));
            if self.has_exits
                && last > open.ts
                && let Some(tables) = to.tables(open.chunk)
            {
                tables.interrupt_end(open.row, last - open.ts);
            }
        }
    }

    /// A switch ends every interrupt.
    #[inline]
    pub(crate) fn switched(&mut self, cpu: i32, ts: i64) {
        for open in self.open.get_mut(cpu.max(0) as usize).into_iter().flatten() {
            open.switched.get_or_insert(ts);
        }
        self.is_outside(cpu);
    }

    /// The CPU runs no interrupt, so a later exit belongs to an entry after this.
    #[inline]
    pub(crate) fn is_outside(&mut self, cpu: i32) {
        if let Some(resumed) = self.resumed.get_mut(cpu.max(0) as usize) {
            *resumed = [None; 2];
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn exit_before_its_cpus_first_record_has_no_entry() {
        for (exit_ns, rows) in [(1_200, 0), (1_300, 1)] {
            let (mut interrupts, mut tables) = (Interrupts::default(), Tables::default());
            interrupts.resume(Moment { cpu: 0, ts: 1_300, seq: 0 }, 0);
            let filling = Filling { chunk: 0, current: &mut tables, pending: &mut VecDeque::new() };
            let which = Which { softirq: true, number: 7, name: Some("SCHED") };
            interrupts.end(which, Moment { cpu: 0, ts: exit_ns, seq: 1 }, filling);
            assert_eq!((interrupts.unpaired, tables.rows()), (1, rows));
        }
    }
}
