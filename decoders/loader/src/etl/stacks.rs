//! Samples, and stacks of switches, wakeups and samples: they are recorded after their event, the
//! kernel's part and the user part apart.

use std::borrow::Cow;

use schedlens_etl::payload::stacks::{Sample, StackContent, StackPart, addresses, is_kernel};
use schedlens_schedule::tables::Moment;

use super::row_stacks::rows_at;
use super::session::Session;
use super::state::filling::Filling;
use crate::stacks::{Part, Stacks};

/// `sample.event` of samples by time.
const BY_TIME: &str = "SampledProfile";

/// The row to which a stack belongs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Row {
    Switch(usize),
    Wakeup(usize),
    Sample(usize),
}

/// The stack of a row that has `before`, after another part of it.
fn joined(stacks: &mut Stacks, before: Option<i64>, part: i64) -> Option<i64> {
    match before {
        Some(before) => stacks.join(before, part),
        None => Some(part),
    }
}

impl Session<'_> {
    /// A sample of what runs on a CPU.
    #[inline(never)]
    pub(super) fn sample(&mut self, read: &Sample, by_time: bool, at: Moment) {
        let life = self.lives.now(read.tid, at.cpu, at.ts);
        let utid = Some(self.lives.utid(life));
        if by_time {
            let interval = self.code.sample_interval_ns;
            let period = interval.and_then(|ns| ns.checked_mul(read.number.into()));
            self.current.tables.sample(at, utid, (BY_TIME, period), None);
        } else {
            let name = match self.code.source(read.number) {
                Some(name) => Cow::Borrowed(name),
                None => Cow::Owned(format!("ProfileSource {}", read.number)),
            };
            self.current.tables.sample(at, utid, (&name, None), None);
        }
    }

    /// A part of a stack belongs to the record with its time. A wakeup's stack names the waker, a
    /// switch's stack is that of the thread switched in.
    #[inline(never)]
    pub(super) fn stack(&mut self, part: &StackPart<'_>, pointer: usize, at: Moment) {
        let Some(ts) = self.clock.near_ns(part.event) else { return };
        self.lives.belongs(part.tid, part.pid);
        let stack = self.stack_of(part, pointer, (ts, at.ts));
        let Some(row) = self.row_of(ts, part.tid, at.cpu) else { return };
        if let Row::Wakeup(row) = row {
            self.name_waker(ts, row, part.tid, at.cpu);
        }
        let (Some(stacks), Some(part)) = (self.stacks.as_deref_mut(), stack) else { return };
        let Some(filling) = filling_at(&mut self.current, &mut self.closed, ts) else { return };
        let tables = &mut filling.tables;
        match row {
            Row::Switch(row) => {
                let stack = joined(stacks, tables.switches.stacks.get(row), part);
                tables.switches.stacks.set(row, stack);
            }
            Row::Wakeup(row) => {
                let stack = joined(stacks, tables.wakeups.stacks.get(row), part);
                tables.wakeups.stacks.set(row, stack);
            }
            Row::Sample(row) => {
                let (_, _, before) = tables.sample_at(row);
                if let Some(stack) = joined(stacks, before, part) {
                    tables.stack_of_sample(row, stack);
                }
            }
        }
    }

    /// The number of a part of a stack; `None` if its addresses are unknown. The times are those of
    /// its event and of its own record: a key may stand for another stack by then.
    fn stack_of(
        &mut self,
        part: &StackPart<'_>,
        pointer: usize,
        (event_ns, record_ns): (i64, i64),
    ) -> Option<i64> {
        let stacks = self.stacks.as_deref_mut()?;
        self.code_changes.apply(self.code, event_ns, &mut stacks.spaces);
        let read;
        let chain = match part.content {
            StackContent::Addresses(bytes) => {
                read = addresses(bytes, pointer).collect::<Vec<_>>();
                &*read
            }
            StackContent::Key(key) => match self.code.stack(key, record_ns) {
                Some(chain) => chain,
                None => {
                    self.stack_counts.undefined += 1;
                    return None;
                }
            },
        };
        let parts = chain.iter().map(|address| {
            (if is_kernel(*address, pointer) { Part::Kernel } else { Part::User }, *address)
        });
        stacks.of_chain(part.pid.cast_signed(), chain, parts, None)
    }

    /// The row of the event at a time to which a thread's stack belongs that a CPU wrote.
    fn row_of(&mut self, ts: i64, tid: u32, cpu: i32) -> Option<Row> {
        let life = self.lives.holder(tid, cpu);
        let utid = life.map(|life| self.lives.utid(life));
        let oldest = self.closed.chunks.front().unwrap_or(&self.current).from_ns;
        if ts < oldest {
            self.stack_counts.late += 1;
            return None;
        }
        let tables = &mut filling_at(&mut self.current, &mut self.closed, ts)?.tables;
        if let Some(row) = utid.and_then(|utid| tables.switches.entering(ts, utid)) {
            return Some(Row::Switch(row));
        }
        let sample = rows_at(tables.sample_times(), ts)
            .find(|row| utid.is_some() && tables.sample_at(*row).1 == utid)
            .map(Row::Sample);
        if tables.wakeups.latest().is_none_or(|latest| latest < ts) {
            return sample;
        }
        tables.wakeups.settle();
        let rows = rows_at(tables.wakeups.times(), ts);
        let mut on_cpu = rows.clone().filter(|row| tables.wakeups.cpu(*row) == Some(cpu));
        match (on_cpu.next(), on_cpu.next()) {
            (Some(only), None) => Some(Row::Wakeup(only)),
            // If it was written on another CPU, it may also belong to a sample taken there at that
            // time.
            (None, _) => sample.or_else(|| {
                let alone = rows.len() == 1 && tables.wakeups.waker_unknown(rows.start);
                alone.then_some(Row::Wakeup(rows.start))
            }),
            _ => sample,
        }
    }

    /// The stack of a wakeup is that of its waker.
    fn name_waker(&mut self, ts: i64, row: usize, tid: u32, cpu: i32) {
        let Some(filling) = filling_at(&mut self.current, &mut self.closed, ts) else { return };
        let number = filling.number;
        let waking_cpu = filling.tables.wakeups.cpu(row).unwrap_or(cpu);
        let life = self.lives.now(tid, waking_cpu, ts);
        filling.tables.wakeups.correct_waker(row, self.lives.utid(life));
        self.scheduling.cpu(waking_cpu).given.retain(|given| *given != (number, row));
    }
}

/// The chunk that contains a time.
fn filling_at<'s>(
    current: &'s mut Filling,
    closed: &'s mut super::state::filling::Closed,
    ts: i64,
) -> Option<&'s mut Filling> {
    if current.from_ns <= ts { Some(current) } else { closed.at(ts) }
}
