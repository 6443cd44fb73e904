//! Records in the order of time, turned into frames of base-table rows.

use std::collections::HashMap;

use super::attrs::SampleParts;
use super::columns::{Batcher, Column, texts};
use super::events::{Event, Family, SwitchFields, WAKING};
use super::interrupts::{Filling, Interrupts};
use super::record;
use super::recording::Recording;
use super::streams::{self, Merge, Merged, NO_CPU};
use super::tables::{Loss, Moment, Switch, Tables, Wakeup};
use super::threads::{Birth, Threads};
use crate::bytes::{text, u32_at, u64_at};
use crate::error::DecodeError;
use crate::frame::Frame;
use crate::problem::{Problem, Problems};
use crate::reader::Finished;

/// `PWR_EVENT_EXIT` of `power:cpu_idle`.
const IDLE_EXIT: i64 = 0xffff_ffff;

#[derive(Clone, Debug, Default)]
struct Cpu {
    seq: i64,
    last_ns: Option<i64>,
    /// Lost records not yet closed in by a later one: (last time before, records, own time).
    gap: Option<(Option<i64>, i64, i64)>,
    /// Thread ids of a switch-out whose switch-in is expected next.
    leaving: Option<(i32, i32)>,
    /// Of the last `sched_switch`: thread id of the sample and the other one in its `prev_pid`.
    /// They differ for a leader that another thread's exec replaces.
    alias: Option<(i32, i32)>,
    idle: Option<(i64, i32)>,
}

/// Reads a recording frame by frame.
pub struct Frames<'a> {
    recording: &'a Recording,
    batcher: &'a Batcher,
    merge: Merge<'a>,
    start: u64,
    threads: Threads,
    cpus: Vec<Cpu>,
    interrupts: Interrupts,
    current: Tables,
    previous: Option<(Tables, i64)>,
    frame: u64,
    threads_told: usize,
    frame_rows: usize,
    done: bool,
    counters: Vec<Option<String>>,
    core_types: HashMap<i32, String>,
    problems: Problems,
    damaged_samples: i64,
    placeless_switches: i64,
    shared_counters: i64,
    namespace_switches: i64,
    read: u64,
}

impl<'a> Frames<'a> {
    /// From the begin; `core_types` by CPU, where known.
    pub fn new(
        recording: &'a Recording,
        batcher: &'a Batcher,
        trace_id: i64,
        core_types: HashMap<i32, String>,
        frame_rows: usize,
    ) -> Self {
        let events = &recording.events;
        let counters = events
            .attrs
            .iter()
            .zip(&recording.named)
            .map(|(attr, event)| {
                (attr.kind != super::attrs::TYPE_TRACEPOINT).then(|| event.name.clone())
            })
            .collect();
        let mut frames = Self {
            recording,
            batcher,
            merge: Merge::new(events, &recording.segments, &recording.index),
            start: recording.index.first.unwrap_or_default(),
            threads: Threads::new(trace_id),
            cpus: Vec::new(),
            interrupts: Interrupts::default(),
            current: Tables::default(),
            previous: None,
            frame: 0,
            threads_told: 0,
            frame_rows,
            done: false,
            counters,
            core_types,
            problems: recording.problems.clone(),
            damaged_samples: 0,
            placeless_switches: 0,
            shared_counters: 0,
            namespace_switches: 0,
            read: 0,
        };
        for span in &recording.index.early {
            for found in streams::records(&recording.segments, span) {
                frames.task(found.kind, found.bytes, None);
            }
        }
        for cpu in recording.index.cpus() {
            frames.threads.idle(cpu);
        }
        frames
    }

    /// Records read so far.
    pub fn read(&self) -> u64 {
        self.read
    }

    /// The thread that had an id at a time, or from the begin on, once all frames are read.
    pub fn utid_at(&self, tid: i64, ts: Option<i64>) -> Option<i64> {
        match ts {
            Some(ts) => self.threads.at(tid, ts),
            None => self.threads.at_begin(tid),
        }
    }

    /// The next frame; `None` after the last.
    ///
    /// # Errors
    /// Only what contradicts the schema; never the contents of a recording.
    pub fn next_frame(
        &mut self,
        mut on_progress: impl FnMut(u64) -> bool,
    ) -> Result<Option<Frame>, DecodeError> {
        while !self.done {
            let until = self.fill(&mut on_progress);
            let next = Tables::like(&self.current);
            let filled = std::mem::replace(&mut self.current, next);
            self.frame += 1;
            let ready = self.previous.replace((filled, until));
            if let Some(ready) = ready {
                return self.hand_out(ready).map(Some);
            }
        }
        let last = self.previous.take();
        last.map(|last| self.hand_out(last)).transpose()
    }

    fn hand_out(&mut self, (tables, until_ns): (Tables, i64)) -> Result<Frame, DecodeError> {
        let mut batches = tables.finish(self.batcher)?;
        let known = self.threads.len();
        if known > self.threads_told {
            batches.push(("thread", self.threads.batch(self.batcher, self.threads_told, known)?));
            self.threads_told = known;
        }
        Ok(Frame { batches, until_ns })
    }

    /// Reads records until the frame is full or all are read; gives back its end.
    fn fill(&mut self, on_progress: &mut impl FnMut(u64) -> bool) -> i64 {
        let mut last = None;
        while let Some(time) = self.merge.next_time() {
            let ts = time.wrapping_sub(self.start).cast_signed();
            if self.current.rows() >= self.frame_rows && last.is_some_and(|last| last < ts) {
                return ts;
            }
            last = Some(ts);
            let Some(merged) = self.merge.next() else { break };
            self.record(&merged, ts);
            self.read += 1;
            if self.read.is_multiple_of(1 << 16) && !on_progress(self.read) {
                break;
            }
        }
        self.done = true;
        self.close_open();
        i64::MAX
    }

    /// Ends what the recording leaves open.
    fn close_open(&mut self) {
        for (number, cpu) in self.cpus.iter_mut().enumerate() {
            if let Some((start_ns, events, own)) = cpu.gap.take() {
                self.current.loss(Loss {
                    cpu: Some(number as i32),
                    start_ns,
                    end_ns: Some(own),
                    events: Some(events),
                    signalled_by: "PERF_RECORD_LOST",
                });
            }
            if let Some((ts, state)) = cpu.idle.take() {
                self.current.idle(ts, number as i32, None, state);
            }
        }
        let index = &self.recording.index;
        let nowhere = |events, signalled_by| Loss {
            cpu: None,
            start_ns: None,
            end_ns: None,
            events,
            signalled_by,
        };
        // Records lost at the very end are told of by the recorder only.
        if let Some(more) = index.lost_samples.checked_sub(index.lost).filter(|more| *more > 0) {
            let events = i64::try_from(more).ok();
            self.current.loss(nowhere(events, "PERF_RECORD_LOST_SAMPLES"));
        }
        if index.damaged > 0 {
            self.current.loss(nowhere(None, "damaged"));
        }
        if self.recording.cut_off {
            self.current.loss(nowhere(None, "truncated"));
        }
    }

    fn cpu(&mut self, cpu: i32) -> &mut Cpu {
        let at = cpu.max(0) as usize;
        if self.cpus.len() <= at {
            self.cpus.resize(at + 1, Cpu::default());
        }
        &mut self.cpus[at]
    }

    #[inline]
    fn record(&mut self, merged: &Merged<'a>, ts: i64) {
        let cpu = merged.cpu;
        let found = &merged.record;
        let moment =
            if cpu == NO_CPU { Moment { ts, cpu, seq: 0 } } else { self.moment(found, cpu, ts) };
        match found.kind {
            record::SAMPLE => self.sample(merged, moment),
            record::SWITCH | record::SWITCH_CPU_WIDE => {
                self.switch_event(found.kind, found.misc, found.bytes, moment);
            }
            record::COMM | record::FORK | record::EXIT => {
                self.task(found.kind, found.bytes, Some(ts));
            }
            _ => {}
        }
    }

    #[inline(always)]
    fn moment(&mut self, found: &record::Record<'_>, number: i32, ts: i64) -> Moment {
        let start = self.start;
        let cpu = self.cpu(number);
        let seq = cpu.seq;
        cpu.seq += 1;
        if found.kind == record::LOST {
            let lost = u64_at(found.bytes, 16).unwrap_or_default();
            let lost = i64::try_from(lost).unwrap_or(i64::MAX);
            // Its own time: that at which there was room again.
            let before = cpu.last_ns;
            let gap = cpu.gap.get_or_insert((before, 0, ts));
            gap.1 = gap.1.saturating_add(lost);
            cpu.leaving = None;
            cpu.idle = None;
            self.interrupts.forget(number);
            let own = self.recording.events.trailer(found.bytes).and_then(|trailer| {
                let at = found.bytes.len().checked_sub(trailer.size)? + trailer.time?;
                u64_at(found.bytes, at)
            });
            if let (Some(own), Some(gap)) = (own, self.cpu(number).gap.as_mut()) {
                gap.2 = own.wrapping_sub(start).cast_signed().max(ts);
            }
        } else {
            cpu.last_ns = Some(ts);
            if let Some((start_ns, events, _)) = cpu.gap.take() {
                self.current.loss(Loss {
                    cpu: Some(number),
                    start_ns,
                    end_ns: Some(ts),
                    events: Some(events),
                    signalled_by: "PERF_RECORD_LOST",
                });
            }
        }
        Moment { ts, cpu: number, seq }
    }

    /// `COMM`, `FORK` and `EXIT`.
    fn task(&mut self, kind: u32, bytes: &[u8], ts: Option<i64>) {
        let id = |at| u32_at(bytes, at).unwrap_or_default().cast_signed();
        match kind {
            record::COMM => {
                let name = text(bytes.get(16..).unwrap_or_default());
                self.threads.comm((id(8), id(12)), ts, name);
            }
            // pid, ppid, tid, ptid
            record::FORK => self.threads.fork(Birth::Record, id(16), Some(id(8)), ts, id(20)),
            record::EXIT => {
                if let Some(ts) = ts {
                    self.threads.exit(id(16), ts);
                }
            }
            _ => {}
        }
    }

    /// A pair of `PERF_RECORD_SWITCH` is one row: the switch-out makes it, the switch-in that
    /// belongs to it is passed over.
    fn switch_event(&mut self, kind: u32, misc: u16, bytes: &[u8], moment: Moment) {
        let Some((pid, tid)) = streams::trailer_ids(&self.recording.events, bytes) else { return };
        if moment.cpu == NO_CPU {
            self.placeless_switches += 1;
            return;
        }
        let other = (kind == record::SWITCH_CPU_WIDE).then(|| {
            let id = |at| u32_at(bytes, at).unwrap_or(u32::MAX).cast_signed();
            (id(8), id(12))
        });
        let alias = self.cpu(moment.cpu).alias;
        let known_as = |tid| alias.filter(|(from, _)| *from == tid).map_or(tid, |(_, to)| to);
        let tid = known_as(tid);
        let other = other.map(|(pid, tid)| (pid, known_as(tid)));
        let other_tid = other.map_or(-1, |(_, tid)| tid);
        let out = misc & record::MISC_SWITCH_OUT != 0;
        let cpu = self.cpu(moment.cpu);
        let expected = cpu.leaving.take();
        if out {
            cpu.leaving = other.map(|_| (tid, other_tid));
        } else if other.is_some() && expected == Some((other_tid, tid)) {
            return;
        }
        let own = self.threads.now(tid, moment.cpu);
        let beside = self.threads.now(other_tid, moment.cpu);
        if let Some(own) = own {
            self.threads.belongs(own, pid);
        }
        if let (Some(beside), Some((pid, _))) = (beside, other) {
            self.threads.belongs(beside, pid);
        }
        let (own, beside) =
            (own.map(|life| self.threads.utid(life)), beside.map(|life| self.threads.utid(life)));
        let (prev, next) = if out { (own, beside) } else { (beside, own) };
        let preempted = out.then_some(misc & record::MISC_SWITCH_OUT_PREEMPT != 0);
        let row = Switch {
            prev,
            next,
            prev_preempted: preempted,
            by_switch_event: true,
            ..Switch::default()
        };
        self.current.switch(moment, row);
    }

    #[inline(always)]
    fn sample(&mut self, merged: &Merged<'a>, moment: Moment) {
        let recording = self.recording;
        let (Some(attr), Some(event)) =
            (recording.events.attrs.get(merged.event), recording.named.get(merged.event))
        else {
            return;
        };
        if matches!(event.family, Family::Other) {
            return;
        }
        if self.known_sample(attr, event, merged.record.bytes, moment).is_none() {
            self.damaged_samples += 1;
        }
    }

    #[inline(always)]
    fn known_sample(
        &mut self,
        attr: &super::attrs::Attr,
        event: &Event,
        bytes: &[u8],
        moment: Moment,
    ) -> Option<()> {
        let parts = attr.parts(bytes)?;
        if moment.cpu == NO_CPU {
            self.placeless_switches += 1;
            return Some(());
        }
        let ids = attr.sample.tid.and_then(|at| {
            Some((u32_at(bytes, at)?.cast_signed(), u32_at(bytes, at + 4)?.cast_signed()))
        });
        match &event.family {
            Family::Switch(fields) => {
                self.switch(fields, attr, &parts, ids.unwrap_or((-1, -1)), moment)
            }
            family => self.tracepoint(family, event, parts.raw, ids, moment),
        }
    }

    #[inline(always)]
    fn switch(
        &mut self,
        fields: &SwitchFields,
        attr: &super::attrs::Attr,
        parts: &SampleParts<'_>,
        ids: (i32, i32),
        moment: Moment,
    ) -> Option<()> {
        let raw = parts.raw;
        let prev_tid = fields.prev_pid.id(raw)?;
        let next_tid = fields.next_pid.id(raw)?;
        let state = fields.prev_state.read(raw)?;
        let (prev_comm, next_comm) = (fields.prev_comm.bytes(raw)?, fields.next_comm.bytes(raw)?);
        let prev_priority = i32::try_from(fields.prev_prio.read(raw)?).ok();
        let next_priority = i32::try_from(fields.next_prio.read(raw)?).ok();
        self.cpu(moment.cpu).alias =
            (ids.1 > 0 && ids.1 != prev_tid && prev_tid > 0).then_some((ids.1, prev_tid));
        let prev = self.threads.now(prev_tid, moment.cpu);
        if let Some(prev) = prev {
            self.threads.named(prev, moment.ts, prev_comm);
            if ids.1 == prev_tid {
                self.threads.belongs(prev, ids.0);
            } else if ids.1 > 0 {
                self.namespace_switches += 1;
            }
        }
        let next = self.threads.now(next_tid, moment.cpu);
        if let Some(next) = next {
            self.threads.named(next, moment.ts, next_comm);
        }
        let prev = prev.map(|life| self.threads.utid(life));
        let row = Switch {
            prev,
            next: next.map(|life| self.threads.utid(life)),
            prev_state: i32::try_from(state).ok(),
            prev_priority,
            next_priority,
            prev_preempted: fields.plus_mask.map(|mask| state & mask != 0),
            by_switch_event: false,
        };
        self.current.switch(moment, row);
        if !parts.read.is_empty() {
            self.counters(attr, parts.read, prev, moment);
        }
        Some(())
    }

    fn counters(
        &mut self,
        attr: &super::attrs::Attr,
        read: &[u8],
        utid: Option<i64>,
        moment: Moment,
    ) {
        let values = attr.values(read);
        self.shared_counters += i64::from(values.shared);
        let core_type = self.core_types.get(&moment.cpu).map(String::as_str);
        for (id, value) in values {
            let event = id.and_then(|id| self.recording.events.by_id(id));
            if let Some(name) = event.and_then(|event| self.counters.get(event)?.as_deref()) {
                self.current.counter(moment, utid, name, core_type, value);
            }
        }
    }

    /// A tracepoint other than `sched_switch`; `None` if its raw data is too short.
    fn tracepoint(
        &mut self,
        family: &Family,
        event: &Event,
        raw: &[u8],
        ids: Option<(i32, i32)>,
        moment: Moment,
    ) -> Option<()> {
        let ts = moment.ts;
        let current_tid = event.current(raw).or(ids.map(|(_, tid)| tid));
        match family {
            Family::Wakeup { kind, pid, target_cpu } => {
                let woken = pid.id(raw)?;
                let cpu = target_cpu.id(raw).filter(|cpu| *cpu >= 0);
                let waker = current_tid.and_then(|tid| self.threads.now(tid, moment.cpu));
                if let (Some(waker), Some((pid, tid))) = (waker, ids)
                    && Some(tid) == current_tid
                {
                    self.threads.belongs(waker, pid);
                }
                let utid = self.threads.now(woken, NO_CPU).map(|life| self.threads.utid(life));
                let row = Wakeup {
                    utid,
                    waker: waker.map(|life| self.threads.utid(life)),
                    prev_cpu: cpu.filter(|_| *kind == WAKING),
                    target_cpu: cpu,
                    kind: *kind,
                    in_interrupt: event.in_interrupt(raw),
                };
                self.current.wakeup(moment, row);
            }
            Family::Migrate { pid, orig_cpu, dest_cpu } => {
                let (orig, dest) = (orig_cpu.id(raw)?, dest_cpu.id(raw)?);
                let moved = self.threads.now(pid.id(raw)?, NO_CPU);
                let utid = moved.map(|life| self.threads.utid(life));
                self.current.migration(moment, utid, orig, dest);
            }
            Family::Fork { parent, child } => {
                let parent = parent.id(raw)?;
                self.threads.fork(Birth::Tracepoint, child.id(raw)?, None, Some(ts), parent);
            }
            Family::Exit { pid } => self.threads.exit(pid.id(raw)?, ts),
            Family::Exec { pid, old_pid } => {
                self.threads.exec(pid.id(raw)?, old_pid.id(raw)?, ts);
            }
            Family::Yield => {
                let yielding = current_tid.and_then(|tid| self.threads.now(tid, moment.cpu));
                let utid = yielding.map(|life| self.threads.utid(life));
                self.current.sched_yield(moment, utid);
            }
            Family::Priority { pid, old, new } => {
                let changed = self.threads.now(pid.id(raw)?, NO_CPU);
                let utid = changed.map(|life| self.threads.utid(life));
                let number = |value: Option<i64>| value.and_then(|v| i32::try_from(v).ok());
                self.current.priority(moment, utid, number(old.read(raw)), number(new.read(raw)));
            }
            Family::SoftirqEntry { vec, names } => {
                let vec = vec.read(raw)?;
                let name = names.iter().find(|(number, _)| *number == vec).map(|(_, name)| &**name);
                let row = self.current.interrupt(moment, "softirq", name);
                self.interrupts.begin(moment.cpu, true, vec, ts, (self.frame, row));
            }
            Family::IrqEntry { irq, name } => {
                let irq = irq.read(raw)?;
                let row = self.current.interrupt(moment, "irq", name.text(raw).as_deref());
                self.interrupts.begin(moment.cpu, false, irq, ts, (self.frame, row));
            }
            Family::SoftirqExit { vec } => self.interrupt_end(true, vec.read(raw)?, moment),
            Family::IrqExit { irq } => self.interrupt_end(false, irq.read(raw)?, moment),
            Family::Idle { state, cpu } => {
                let (state, cpu) = (state.read(raw)?, cpu.id(raw)?);
                if (0..super::attrs::CPU_LIMIT).contains(&cpu) {
                    self.idle(state, cpu, ts);
                }
            }
            Family::Frequency { khz, cpu } => {
                let (khz, cpu) = (khz.read(raw)?, cpu.id(raw)?);
                self.current.frequency(ts, cpu, khz);
            }
            Family::Switch(_) | Family::Other => {}
        }
        Some(())
    }

    fn interrupt_end(&mut self, softirq: bool, number: i64, moment: Moment) {
        let filling = Filling {
            number: self.frame,
            current: &mut self.current,
            previous: self.previous.as_mut().map(|(tables, _)| tables),
        };
        self.interrupts.end(moment.cpu, softirq, number, moment.ts, filling);
    }

    fn idle(&mut self, state: i64, number: i32, ts: i64) {
        let before = self.cpu(number).idle.take();
        if let Some((from, state)) = before {
            self.current.idle(from, number, Some(ts - from), state);
        }
        if state != IDLE_EXIT
            && let Ok(state) = i32::try_from(state)
        {
            self.cpu(number).idle = Some((ts, state));
        }
    }

    /// Everything that is known only at the end.
    ///
    /// # Errors
    /// Only what contradicts the schema.
    pub fn finish(&mut self) -> Result<Finished, DecodeError> {
        let recording = self.recording;
        let index = &recording.index;
        let batcher = self.batcher;
        let counted = [
            (self.damaged_samples, "samples", "samples that are shorter than their event's format"),
            (
                self.placeless_switches,
                "PERF_SAMPLE_CPU",
                "records that do not say on which CPU they were written: record with --sample-cpu",
            ),
            (
                self.shared_counters,
                "PERF_SAMPLE_READ",
                "counters took turns on the hardware, so their values miss part of the time: \
                 record fewer at once",
            ),
            (self.interrupts.unpaired, "interrupts", "an entry or an exit without the other"),
        ];
        for (count, place, what) in counted {
            if count > 0 {
                self.problems.add_many(place, what, count);
            }
        }
        let switches = self.recording.named.iter().zip(&index.samples);
        let switches: u64 = switches
            .filter(|(event, _)| matches!(event.family, Family::Switch(_)))
            .map(|(_, count)| count)
            .sum();
        // Exec by a thread that is not the leader makes a few.
        if self.namespace_switches.unsigned_abs() * 2 > switches {
            self.problems.add_many(
                "PERF_SAMPLE_TID",
                "thread ids of samples and of tracepoints differ: recorded inside a pid namespace, \
                 threads may be attributed to wrong processes",
                self.namespace_switches,
            );
        }
        let lives = self.threads.len();
        let batches = vec![
            ("process", self.threads.process_batch(batcher)?),
            ("thread", self.threads.batch(batcher, 0, lives)?),
            ("thread_name", self.threads.name_batch(batcher)?),
            ("record_count", record_counts(recording, batcher)?),
            ("problem", problem_batch(&self.problems.0, batcher)?),
        ];
        let since = |ts: u64| ts.wrapping_sub(self.start).cast_signed();
        Ok(Finished {
            batches,
            first_ns: index.first.map(since),
            last_ns: index.last.map(since),
            events_lost: i64::try_from(index.lost.max(index.lost_samples)).unwrap_or(i64::MAX),
        })
    }
}

/// Counts by name: samples by event, other records by kind.
pub(super) fn counts(recording: &Recording) -> Vec<(String, u64)> {
    let index = &recording.index;
    let mut counts: Vec<(String, u64)> = Vec::new();
    for (event, count) in recording.named.iter().zip(&index.samples) {
        match counts.iter_mut().find(|(name, _)| *name == event.name) {
            Some((_, sum)) => *sum += count,
            None => counts.push((event.name.clone(), *count)),
        }
    }
    for (kind, count) in index.kinds.iter().filter(|(kind, _)| **kind != record::SAMPLE) {
        counts.push((record::kind_name(*kind), *count));
    }
    counts
}

fn record_counts(
    recording: &Recording,
    batcher: &Batcher,
) -> Result<arrow_array::RecordBatch, DecodeError> {
    let counts = counts(recording);
    let mut column = Column::default();
    for (_, count) in &counts {
        column.push(i64::try_from(*count).unwrap_or(i64::MAX));
    }
    let columns = vec![
        ("record", texts(counts.iter().map(|(name, _)| Some(name)))),
        ("count", column.array()),
    ];
    batcher.batch("record_count", counts.len(), columns)
}

fn problem_batch(
    problems: &[Problem],
    batcher: &Batcher,
) -> Result<arrow_array::RecordBatch, DecodeError> {
    let rows = problems.iter().map(|problem| (&*problem.place, &*problem.what, problem.count));
    batcher.problems(rows)
}
