//! Merges the tables of a chunk by time.

use std::cmp::Reverse;

use arrow_array::RecordBatch;

use super::counters::Counters;
use super::cpu::Occupant;
use super::gap::{self, Gap, OPEN};
use super::input::{Cursor, Flags, Ints, Longs, numbered};
use super::problem::ProblemKind;
use super::rows::BEGIN;
use super::switches::Switch;
use super::thread::Phase;
use super::wakeups::Kind;
use super::{Source, StateError, StateMachine};
use crate::chunk::{Chunk, Output};

struct Switches<'a> {
    cursor: Cursor<'a>,
    ts: Longs<'a>,
    cpu: Ints<'a>,
    seq: Longs<'a>,
    prev: Longs<'a>,
    next: Longs<'a>,
    state: Ints<'a>,
    wait_reason: Ints<'a>,
    prev_priority: Ints<'a>,
    next_priority: Ints<'a>,
    preempted: Flags<'a>,
    is_event: Vec<bool>,
}

impl<'a> Switches<'a> {
    fn open(batch: &'a RecordBatch) -> Result<Self, StateError> {
        const TABLE: &str = "context_switch";
        let ts = Longs::of(TABLE, "ts", batch)?;
        let cpu = Ints::of(TABLE, "cpu", batch)?;
        let seq = Longs::of(TABLE, "seq", batch)?;
        Ok(Self {
            cursor: Cursor::new(&ts, &cpu, Some(&seq)),
            ts,
            cpu,
            seq,
            prev: Longs::of(TABLE, "prev_utid", batch)?,
            next: Longs::of(TABLE, "next_utid", batch)?,
            state: Ints::of(TABLE, "prev_state", batch)?,
            wait_reason: Ints::of(TABLE, "prev_wait_reason", batch)?,
            prev_priority: Ints::of(TABLE, "prev_priority", batch)?,
            next_priority: Ints::of(TABLE, "next_priority", batch)?,
            preempted: Flags::of(TABLE, "prev_preempted", batch)?,
            is_event: numbered(TABLE, "source", batch, |word| word == Some("switch_event"))?,
        })
    }
}

struct Wakings<'a> {
    cursor: Cursor<'a>,
    ts: Longs<'a>,
    cpu: Ints<'a>,
    seq: Longs<'a>,
    utid: Longs<'a>,
    waker: Longs<'a>,
    kind: Vec<Option<Kind>>,
}

/// Rows that name a thread and perhaps a CPU: `migration`, `sched_yield`.
struct Notes<'a> {
    cursor: Cursor<'a>,
    cpu: Ints<'a>,
    utid: Longs<'a>,
    to: Option<Ints<'a>>,
}

impl<'a> Notes<'a> {
    fn open(
        table: &'static str,
        to: Option<&'static str>,
        batch: &'a RecordBatch,
    ) -> Result<Self, StateError> {
        let ts = Longs::of(table, "ts", batch)?;
        let cpu = Ints::of(table, "cpu", batch)?;
        let seq = Longs::of(table, "seq", batch)?;
        Ok(Self {
            cursor: Cursor::new(&ts, &cpu, Some(&seq)),
            cpu,
            utid: Longs::of(table, "utid", batch)?,
            to: to.map(|column| Ints::of(table, column, batch)).transpose()?,
        })
    }
}

struct Interrupts<'a> {
    cursor: Cursor<'a>,
    ts: Longs<'a>,
    cpu: Ints<'a>,
    dur: Longs<'a>,
}

impl StateMachine {
    /// Takes the rows of a chunk.
    pub(super) fn take_chunk(
        &mut self,
        chunk: &Chunk,
        out: &mut Vec<Output>,
    ) -> Result<(), StateError> {
        if let Some(batch) = chunk.batch("thread") {
            self.take_threads(batch)?;
        }
        if let Some(batch) = chunk.batch("cpu_idle") {
            self.take_idles(batch)?;
        }
        let mut switches = chunk.batch("context_switch").map(Switches::open).transpose()?;
        let mut wakings = chunk.batch("wakeup").map(|b| self.open_wakings(b)).transpose()?;
        let mut moves = chunk
            .batch("migration")
            .map(|batch| Notes::open("migration", Some("dest_cpu"), batch))
            .transpose()?;
        let mut yields = chunk
            .batch("sched_yield")
            .map(|batch| Notes::open("sched_yield", None, batch))
            .transpose()?;
        let mut interrupts = chunk.batch("interrupt_slice").map(open_interrupts).transpose()?;
        if let Some(batch) = chunk.batch("loss") {
            self.take_gaps(batch)?;
        }
        let mut samples =
            chunk.batch("counter_sample").map(|b| self.counters.open(b)).transpose()?;
        if let Some(batch) = chunk.batch("context_switch") {
            self.records.push(batch);
        }
        // Switches and wakeups number in the millions; the rest is rare.
        let mut rare_ts = i64::MIN;
        loop {
            if rare_ts <= self.now {
                rare_ts = [
                    moves.as_ref().map(|t| &t.cursor),
                    yields.as_ref().map(|t| &t.cursor),
                    interrupts.as_ref().map(|t| &t.cursor),
                    samples.as_ref().map(|t| &t.cursor),
                ]
                .iter()
                .flatten()
                .map(|cursor| cursor.next_ts())
                .min()
                .unwrap_or(i64::MAX);
            }
            let next = switches
                .as_ref()
                .map_or(i64::MAX, |t| t.cursor.next_ts())
                .min(wakings.as_ref().map_or(i64::MAX, |t| t.cursor.next_ts()))
                .min(rare_ts);
            // A malformed record may have the largest possible time.
            if next == i64::MAX
                && !switches.as_ref().is_some_and(|t| t.cursor.left())
                && !wakings.as_ref().is_some_and(|t| t.cursor.left())
                && !moves.as_ref().is_some_and(|t| t.cursor.left())
                && !yields.as_ref().is_some_and(|t| t.cursor.left())
                && !interrupts.as_ref().is_some_and(|t| t.cursor.left())
                && !samples.as_ref().is_some_and(|t| t.cursor.left())
            {
                break;
            }
            // Times reserved for the start of the trace are not record times.
            let now = next.max(self.now).max(BEGIN + 1);
            if next < self.now {
                self.problems.add(ProblemKind::Backwards);
            }
            self.begin_gaps(now);
            self.earliest = self.earliest.min(now);
            self.now = now;
            let s = switches.as_mut().map_or(0..0, |t| t.cursor.take_until(now));
            let w = wakings.as_mut().map_or(0..0, |t| t.cursor.take_until(now));
            let [m, y, i, c] = if rare_ts <= now {
                [
                    moves.as_mut().map(|t| &mut t.cursor),
                    yields.as_mut().map(|t| &mut t.cursor),
                    interrupts.as_mut().map(|t| &mut t.cursor),
                    samples.as_mut().map(|t| &mut t.cursor),
                ]
                .map(|cursor| cursor.map_or(0..0, |cursor| cursor.take_until(now)))
            } else {
                [0..0, 0..0, 0..0, 0..0]
            };
            if let Some(yields) = &yields {
                for place in y {
                    let row = yields.cursor.row(place);
                    let utid = yields.utid.get(row);
                    if self.has_cpu(yields.cpu.at(row)) {
                        self.recorded(yields.cpu.at(row), now);
                    }
                    if let Some(thread) = self.thread_number(utid) {
                        self.gathered().yields.push(thread);
                    }
                }
            }
            if let Some(switches) = &switches {
                for place in s {
                    self.take_switch(switches, switches.cursor.row(place));
                }
            }
            if let Some(wakings) = &wakings {
                for place in w {
                    self.take_waking(wakings, wakings.cursor.row(place));
                }
            }
            if let Some(moves) = &moves {
                for place in m {
                    let row = moves.cursor.row(place);
                    let to = moves.to.as_ref().and_then(|to| to.get(row));
                    if self.has_cpu(moves.cpu.at(row)) {
                        self.recorded(moves.cpu.at(row), now);
                    }
                    if let (Some(thread), Some(to)) = (self.thread_number(moves.utid.get(row)), to)
                    {
                        self.gathered().moves.push((thread, to));
                    }
                }
            }
            self.apply_moment();
            if let Some(interrupts) = &interrupts {
                for place in i {
                    self.take_interrupt(interrupts, interrupts.cursor.row(place));
                }
            }
            if let Some(samples) = &samples {
                for place in c {
                    let row = samples.cursor.row(place);
                    let (utid, cpu) = Counters::utid(samples, row);
                    if self.has_cpu(cpu) {
                        let thread = (utid, self.thread_number(utid));
                        self.counters.sample(samples, row, thread, &mut self.problems);
                    }
                }
            }
            let trace_id = self.settings.trace_id;
            self.rows.take(trace_id, false, out)?;
            self.counters.take(trace_id, false, out)?;
        }
        let cursors = [
            switches.as_ref().map(|t| &t.cursor),
            wakings.as_ref().map(|t| &t.cursor),
            moves.as_ref().map(|t| &t.cursor),
            yields.as_ref().map(|t| &t.cursor),
            interrupts.as_ref().map(|t| &t.cursor),
            samples.as_ref().map(|t| &t.cursor),
        ];
        let backwards = cursors.iter().flatten().map(|cursor| cursor.backwards).sum();
        self.problems.add_many(ProblemKind::Backwards, backwards);
        self.hand_out(chunk, out)
    }

    fn hand_out(&mut self, chunk: &Chunk, out: &mut Vec<Output>) -> Result<(), StateError> {
        let trace_id = self.settings.trace_id;
        if let Some(batch) = chunk.batch("loss") {
            out.push(Output { table: "loss", batch: batch.clone() });
        }
        let mut seen: Vec<_> = Vec::new();
        self.losses.retain(|loss| {
            let early = loss.start == BEGIN;
            if !early {
                seen.push(*loss);
            }
            early
        });
        out.extend(gap::losses(trace_id, &mut seen, BEGIN)?);
        let keep = usize::from(self.settings.source == Source::Etw);
        self.records.take(trace_id, keep, out)?;
        self.wakeups.take(trace_id, 1, out)
    }

    /// Notes threads and when they were created.
    pub(super) fn take_threads(&mut self, batch: &RecordBatch) -> Result<(), StateError> {
        let utid = Longs::of("thread", "utid", batch)?;
        let start = Longs::of("thread", "start_ns", batch)?;
        let is_idle = Flags::of("thread", "is_idle", batch)?;
        for row in 0..batch.num_rows() {
            let Some(number) = self.thread_number(utid.get(row)) else { continue };
            let thread = &mut self.threads[number as usize];
            thread.is_idle = is_idle.get(row) == Some(true);
            let untouched = thread.phase == Phase::Untouched && thread.last_record.is_none();
            if let (Some(start), true) = (start.get(row), untouched) {
                thread.phase = Phase::New;
                thread.since = start.max(BEGIN + 1);
                thread.left_censored = false;
            }
        }
        Ok(())
    }

    fn open_wakings<'a>(&mut self, batch: &'a RecordBatch) -> Result<Wakings<'a>, StateError> {
        const TABLE: &str = "wakeup";
        let ts = Longs::of(TABLE, "ts", batch)?;
        let cpu = Ints::of(TABLE, "cpu", batch)?;
        let seq = Longs::of(TABLE, "seq", batch)?;
        let kind = numbered(TABLE, "kind", batch, Kind::of)?;
        let prev_cpu = Ints::of(TABLE, "prev_cpu", batch)?;
        let target = Ints::of(TABLE, "target_cpu", batch)?;
        let sent = kind.iter().enumerate().map(|(row, kind)| match kind {
            // This record precedes the CPU choice: without a migration the thread remains where it
            // was.
            Some(Kind::Waking) => prev_cpu.get(row).or_else(|| target.get(row)),
            _ => target.get(row),
        });
        self.wakeups.push(batch, sent.collect());
        Ok(Wakings {
            cursor: Cursor::new(&ts, &cpu, Some(&seq)),
            ts,
            cpu,
            seq,
            utid: Longs::of(TABLE, "utid", batch)?,
            waker: Longs::of(TABLE, "waker_utid", batch)?,
            kind,
        })
    }

    /// Notes idle records: for a CPU without switches they are the only data.
    fn take_idles(&mut self, batch: &RecordBatch) -> Result<(), StateError> {
        const TABLE: &str = "cpu_idle";
        let cpu = Ints::of(TABLE, "cpu", batch)?;
        let ts = Longs::of(TABLE, "ts", batch)?;
        let dur = Longs::of(TABLE, "dur", batch)?;
        for row in 0..batch.num_rows() {
            let (number, ts) = (cpu.at(row), ts.at(row));
            if !self.has_cpu(number) {
                continue;
            }
            self.recorded(number, ts);
            let place = self.cpu(number);
            if place.last_switch.is_none() {
                let end = dur.get(row).map_or(i64::MAX, |dur| ts.saturating_add(dur));
                place.idles.push((ts, end));
            }
        }
        Ok(())
    }

    /// Notes the reported gaps of CPUs. Each is applied when its start is reached.
    fn take_gaps(&mut self, batch: &RecordBatch) -> Result<(), StateError> {
        const TABLE: &str = "loss";
        let cpu = Ints::of(TABLE, "cpu", batch)?;
        let start = Longs::of(TABLE, "start_ns", batch)?;
        let end = Longs::of(TABLE, "end_ns", batch)?;
        for row in 0..batch.num_rows() {
            let Some(cpu) = cpu.get(row) else { continue };
            if self.has_cpu(cpu) {
                let (start, end) = (start.get(row).unwrap_or(BEGIN), end.get(row).unwrap_or(OPEN));
                self.gaps_ahead.push(Reverse(Gap { start, cpu, end }));
            }
        }
        Ok(())
    }

    fn take_switch(&mut self, switches: &Switches<'_>, row: usize) {
        let cpu = switches.cpu.at(row);
        if !self.has_cpu(cpu) {
            return;
        }
        let (prev, next, now) = (switches.prev.get(row), switches.next.get(row), self.now);
        let place = self.cpu(cpu);
        if switches.is_event[row] {
            let same = |seen: Option<i64>, given: Option<i64>| given.is_none() || given == seen;
            if let Some((prev_seen, next_seen)) = place.unmatched.take()
                && same(prev_seen, prev)
                && same(next_seen, next)
            {
                self.records.drop_row(row);
                return;
            }
            // The switch-in half of a pair: after a gap, it may belong to a switch before the gap.
            let is_half = switches.preempted.get(row).is_none();
            if is_half && matches!(place.occupant, Occupant::AfterGap(_)) {
                place.from = place.from.max(now);
                self.records.drop_row(row);
                return;
            }
        } else {
            place.unmatched = Some((prev, next));
        }
        let switch = Switch {
            ts: self.now,
            cpu,
            seq: switches.seq.at(row),
            row,
            prev: self.thread_number(prev),
            next: self.thread_number(next),
            state: switches.state.get(row),
            wait_reason: switches.wait_reason.get(row),
            preempted: switches.preempted.get(row),
            prev_priority: switches.prev_priority.get(row),
            next_priority: switches.next_priority.get(row),
        };
        debug_assert!(switches.ts.at(row) <= self.now);
        self.gathered().switches.push(switch);
    }

    fn take_waking(&mut self, wakings: &Wakings<'_>, row: usize) {
        let (cpu, seq) = (wakings.cpu.at(row), wakings.seq.at(row));
        let waker = self.thread_number(wakings.waker.get(row));
        if self.has_cpu(cpu) {
            let now = self.now;
            self.recorded(cpu, now);
        }
        let Some(thread) = self.thread_number(wakings.utid.get(row)) else { return };
        let Some(kind) = wakings.kind[row] else { return };
        debug_assert!(wakings.ts.at(row) <= self.now);
        let waker = waker.map(|waker| self.threads[waker as usize].utid);
        let waking = self.wakeups.waking(row, (self.now, cpu, seq), kind, waker);
        self.gathered().wakings.push((thread, waking));
    }

    /// Notes a record on a CPU that [`Self::has_cpu`] has accepted.
    fn recorded(&mut self, cpu: i32, ts: i64) {
        let place = self.cpu(cpu);
        place.last_record = place.last_record.max(ts);
    }

    fn take_interrupt(&mut self, interrupts: &Interrupts<'_>, row: usize) {
        let cpu = interrupts.cpu.at(row);
        let Some(dur) = interrupts.dur.get(row).filter(|&dur| dur > 0) else { return };
        if !self.has_cpu(cpu) {
            return;
        }
        let ts = interrupts.ts.at(row).max(BEGIN + 1);
        self.recorded(cpu, ts);
        // On Windows the next record may show that the idle thread ran.
        if self.settings.source != Source::Etw
            && let Occupant::Thread(thread) = self.cpu(cpu).occupant
            && !self.threads[thread as usize].is_idle
        {
            self.cpu(cpu).forget_interrupts(ts);
        }
        self.cpu(cpu).interrupt(ts, ts.saturating_add(dur));
    }
}

fn open_interrupts(batch: &RecordBatch) -> Result<Interrupts<'_>, StateError> {
    const TABLE: &str = "interrupt_slice";
    let ts = Longs::of(TABLE, "ts", batch)?;
    let cpu = Ints::of(TABLE, "cpu", batch)?;
    let seq = Longs::of(TABLE, "seq", batch)?;
    Ok(Interrupts {
        cursor: Cursor::new(&ts, &cpu, Some(&seq)),
        dur: Longs::of(TABLE, "dur", batch)?,
        ts,
        cpu,
    })
}
