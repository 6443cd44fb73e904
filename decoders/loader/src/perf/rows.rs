//! Turns records into rows of the base tables.

use std::cmp::Reverse;
use std::collections::HashMap;

use schedlens_input::bytes::{text, u32_at, u64_at};
use schedlens_perf_data::attrs::Attr;
use schedlens_perf_data::record;
use schedlens_perf_data::recording::Recording;
use schedlens_perf_data::streams::{self, NO_CPU};
use schedlens_perf_data::{DAMAGED, Merged};
use schedlens_schedule::pool::Pools;
use schedlens_schedule::tables::{Loss, Moment};
use schedlens_tracepoints::events::{Event, Family};

use super::callchains::Callchains;
use crate::linux::rows as linux;
use crate::linux::switches::Switch;
use crate::linux::threads::Birth;
use crate::linux::tracepoints::{Around, Done};

/// The open state of a CPU.
#[derive(Clone, Debug, Default)]
struct Cpu<'a> {
    seq: i64,
    /// Time and bytes of the last record.
    last: Option<(i64, &'a [u8])>,
    /// Thread ids of a switch-out whose switch-in should come next.
    leaving: Option<(i32, i32)>,
    /// Thread id of the last switch-in by `PERF_RECORD_SWITCH`, and whether the thread has
    /// exited since, on this CPU.
    running: Option<(i32, bool)>,
    /// From the last `sched_switch`: the sample's thread id, and the different one in its
    /// `prev_pid`. They differ for a leader that another thread's exec replaces.
    alias: Option<(i32, i32)>,
}

/// Incomplete records of perf, counted.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Odd {
    pub(super) shared_counters: i64,
    pub(super) repeated: i64,
}

/// The rows of the current chunk, and the state they depend on.
pub(super) struct Rows<'a> {
    pub(super) recording: &'a Recording,
    pub(super) linux: linux::Rows,
    pub(super) odd: Odd,
    start: u64,
    cpus: Vec<Cpu<'a>>,
    /// Damage that no record reports: CPU and the time of the first record after it, latest first.
    damage: Vec<(i32, i64)>,
    counters: Vec<Option<String>>,
    core_types: HashMap<i32, String>,
    pub(super) callchains: Callchains,
}

impl<'a> Rows<'a> {
    /// Starts with what existed before the recording; `core_types` by CPU, if known.
    pub(super) fn new(
        recording: &'a Recording,
        trace_id: i64,
        core_types: HashMap<i32, String>,
        pools: &Pools,
    ) -> Self {
        let events = recording.events.attrs.iter().zip(&recording.named);
        let counters = events
            .map(|(attr, event)| {
                (attr.kind != schedlens_perf_data::attrs::TYPE_TRACEPOINT)
                    .then(|| event.name.clone())
            })
            .collect();
        let mut rows = Self {
            recording,
            linux: linux::Rows::new(trace_id, pools),
            odd: Odd::default(),
            start: recording.index.first.unwrap_or_default(),
            cpus: Vec::new(),
            damage: Vec::new(),
            counters,
            core_types,
            callchains: Callchains::new(recording, trace_id),
        };
        for span in &recording.index.early {
            for found in streams::records(&recording.segments, span) {
                rows.task(found.kind, found.bytes, None);
                rows.callchains.record(found.kind, found.misc, found.bytes);
            }
        }
        for cpu in recording.index.cpus() {
            rows.linux.threads.idle(cpu);
        }
        rows.losses();
        rows
    }

    /// Adds all known losses: a gap must be known before its start is reached.
    fn losses(&mut self) {
        let index = &self.recording.index;
        for gap in &index.gaps {
            let loss = Loss {
                cpu: Some(gap.cpu),
                start_ns: gap.before.map(|before| self.since(before)),
                end_ns: gap.until.map(|until| self.since(until)),
                events: gap.events.and_then(|events| i64::try_from(events).ok()),
                signalled_by: gap.signalled_by,
            };
            if let (Some(end_ns), true) = (loss.end_ns, gap.signalled_by == DAMAGED) {
                self.damage.push((gap.cpu, end_ns));
            }
            self.linux.current.loss(loss);
        }
        self.damage.sort_unstable_by_key(|(_, end_ns)| Reverse(*end_ns));
        let nowhere = |events, signalled_by| Loss {
            cpu: None,
            start_ns: None,
            end_ns: None,
            events,
            signalled_by,
        };
        // For records lost at the very end, only the recorder's count is written.
        if let Some(more) = index.lost_samples.checked_sub(index.lost).filter(|more| *more > 0) {
            let events = i64::try_from(more).ok();
            self.linux.current.loss(nowhere(events, "PERF_RECORD_LOST_SAMPLES"));
        }
        let placed = !index.is_empty();
        if index.damaged > 0 && !placed {
            self.linux.current.loss(nowhere(None, "damaged"));
        }
        if self.recording.cut_off && !placed {
            self.linux.current.loss(nowhere(None, "truncated"));
        }
    }

    /// Time since the start of the recording.
    #[inline]
    pub(super) fn since(&self, time: u64) -> i64 {
        time.wrapping_sub(self.start).cast_signed()
    }

    /// Each CPU and the time of its last record so far.
    pub(super) fn ends(&self) -> Vec<(i32, i64)> {
        let lasts = (0..).zip(&self.cpus).map(|(cpu, here)| (cpu, here.last));
        lasts.filter_map(|(cpu, last)| Some((cpu, last?.0))).collect()
    }

    #[inline(always)]
    fn cpu(&mut self, cpu: i32) -> &mut Cpu<'a> {
        let at = cpu.max(0) as usize;
        if self.cpus.len() <= at {
            self.more_cpus(at);
        }
        &mut self.cpus[at]
    }

    #[inline(never)]
    fn more_cpus(&mut self, last: usize) {
        self.cpus.resize(last + 1, Cpu::default());
    }

    /// Processes a record.
    #[inline(always)]
    pub(super) fn record(&mut self, merged: &Merged<'a>, ts: i64) {
        let cpu = merged.cpu;
        let kind = merged.kind();
        if ts < 0 {
            return self.before_start(merged);
        }
        let moment = if cpu == NO_CPU {
            Moment { ts, cpu, seq: 0 }
        } else {
            let here = self.cpu(cpu);
            // The file contains a block twice; no two real records are byte-identical.
            if here.last == Some((ts, merged.bytes)) {
                self.odd.repeated += 1;
                return;
            }
            let before = here.last.replace((ts, merged.bytes)).map(|(before, _)| before);
            let is_after_loss = kind == record::LOST || self.is_after_damage(cpu, ts);
            self.moment(is_after_loss.then_some(before), cpu, ts)
        };
        if kind == record::SAMPLE {
            self.sample(merged, moment);
        } else {
            self.other_record(merged, moment.apart());
        }
    }

    /// What happened before the events were enabled: it existed already when the recording started.
    #[inline(never)]
    fn before_start(&mut self, merged: &Merged<'a>) {
        let (kind, bytes) = (merged.kind(), merged.bytes);
        self.callchains.record(kind, merged.misc(), bytes);
        if kind == record::EXIT {
            self.task(kind, bytes, Some(0));
        } else {
            // Only the list at the start of the file is complete.
            let lists_threads = self.linux.threads.lists_threads;
            self.task(kind, bytes, None);
            self.linux.threads.lists_threads = lists_threads;
        }
    }

    #[inline(never)]
    fn other_record(&mut self, merged: &Merged<'a>, moment: Moment) {
        let kind = merged.kind();
        if self.callchains.stacks.is_some() {
            self.callchains.record(kind, merged.misc(), merged.bytes);
        }
        match kind {
            record::SWITCH | record::SWITCH_CPU_WIDE => {
                self.switch_event(kind, merged.misc(), merged.bytes, moment);
            }
            record::COMM | record::FORK | record::EXIT | record::CGROUP => {
                self.task(kind, merged.bytes, Some(moment.ts));
                if kind == record::EXIT && moment.cpu != NO_CPU {
                    let tid = u32_at(merged.bytes, 16).map(u32::cast_signed);
                    if let Some((running, exited)) = &mut self.cpu(moment.cpu).running {
                        *exited |= tid == Some(*running);
                    }
                }
            }
            _ => {}
        }
    }

    /// Whether this record of a CPU is the first after damage.
    #[inline(always)]
    fn is_after_damage(&mut self, cpu: i32, ts: i64) -> bool {
        // Only the earliest: there are few, and none in most files.
        self.damage.last().is_some_and(|(_, end_ns)| *end_ns <= ts) && self.leave_damage(cpu, ts)
    }

    #[inline(never)]
    fn leave_damage(&mut self, cpu: i32, ts: i64) -> bool {
        let left = |(of, end_ns): &(i32, i64)| *of == cpu && *end_ns <= ts;
        let found = self.damage.iter().any(left);
        // Records come in time order, so nothing follows earlier ones.
        self.damage.retain(|gap| gap.1 >= ts && !left(gap));
        found
    }

    /// `lost`: records were lost; the value is the time of the last record before them.
    #[inline(always)]
    fn moment(&mut self, lost: Option<Option<i64>>, number: i32, ts: i64) -> Moment {
        let cpu = self.cpu(number);
        let seq = cpu.seq;
        cpu.seq += 1;
        let moment = Moment { ts, cpu: number, seq };
        if let Some(before) = lost {
            self.cpu(number).leaving = None;
            self.linux.lost(before, moment);
        } else if seq == 0 {
            self.linux.begins(moment);
        }
        moment
    }

    /// `COMM`, `FORK`, `EXIT` and `CGROUP`.
    fn task(&mut self, kind: u32, bytes: &[u8], ts: Option<i64>) {
        let id = |at| u32_at(bytes, at).unwrap_or_default().cast_signed();
        match kind {
            record::COMM => {
                let name = text(bytes.get(16..).unwrap_or_default());
                self.linux.threads.comm((id(8), id(12)), ts, name);
            }
            record::CGROUP => {
                if let Some(number) = u64_at(bytes, 8) {
                    let path = text(bytes.get(16..).unwrap_or_default());
                    self.linux.threads.cgroups.named(number, path);
                }
            }
            // pid, ppid, tid, ptid
            record::FORK => {
                let (pid, tid) = (id(8), id(16));
                self.linux.threads.fork(Birth::Record, tid, Some(pid), ts, id(20));
                if pid == tid {
                    self.linux.threads.created_by(pid, id(12));
                }
            }
            record::EXIT => {
                if let Some(ts) = ts {
                    self.linux.threads.exit(id(16), ts);
                }
            }
            _ => {}
        }
    }

    /// A pair of `PERF_RECORD_SWITCH` is one row: the switch-out creates it, and the matching
    /// switch-in is skipped.
    fn switch_event(&mut self, kind: u32, misc: u16, bytes: &[u8], moment: Moment) {
        let Some((pid, tid)) = streams::trailer_ids(&self.recording.events, bytes) else { return };
        if moment.cpu == NO_CPU {
            self.linux.odd.placeless += 1;
            return;
        }
        let other = (kind == record::SWITCH_CPU_WIDE).then(|| {
            let id = |at| u32_at(bytes, at).unwrap_or(u32::MAX).cast_signed();
            (id(8), id(12))
        });
        self.linux.interrupts.switched(moment.cpu, moment.ts);
        let alias = self.cpu(moment.cpu).alias;
        let known_as = |tid| alias.filter(|(from, _)| *from == tid).map_or(tid, |(_, to)| to);
        let mut tid = known_as(tid);
        let other = other.map(|(pid, tid)| (pid, known_as(tid)));
        let other_tid = other.map_or(-1, |(_, tid)| tid);
        let out = misc & record::MISC_SWITCH_OUT != 0;
        let cpu = self.cpu(moment.cpu);
        // The kernel writes -1 for a thread whose parent collected its exit status before the
        // thread left the CPU for the last time.
        if out && tid == -1 {
            tid = cpu.running.filter(|(_, exited)| *exited).map_or(tid, |(running, _)| running);
        }
        let entered = if out { other.map(|(_, tid)| tid) } else { Some(tid) };
        cpu.running = entered.map(|tid| (tid, false));
        let expected = cpu.leaving.take();
        if out {
            cpu.leaving = other.map(|_| (tid, other_tid));
        } else if other.is_some()
            && expected.is_some_and(|(left, entered)| {
                entered == tid && (left == other_tid || other_tid == -1)
            })
        {
            return;
        }
        let own = self.linux.threads.now(tid, moment.cpu);
        let other_life = self.linux.threads.now(other_tid, moment.cpu);
        if let Some(own) = own {
            self.linux.threads.belongs(own, pid);
        }
        if let (Some(other_life), Some((pid, _))) = (other_life, other) {
            self.linux.threads.belongs(other_life, pid);
        }
        let (own, other_life) = (
            own.map(|life| self.linux.threads.utid(life)),
            other_life.map(|life| self.linux.threads.utid(life)),
        );
        let (prev, next) = if out { (own, other_life) } else { (other_life, own) };
        let preempted = out.then_some(misc & record::MISC_SWITCH_OUT_PREEMPT != 0);
        let row = Switch {
            prev,
            next,
            prev_preempted: preempted,
            source: Switch::SWITCH_EVENT,
            ..Switch::default()
        };
        self.linux.current.switches.put(moment, row);
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
            self.plain_sample(attr, merged, moment.apart());
            return;
        }
        if self.tracepoint(attr, event, merged.bytes, moment).is_none() {
            self.linux.odd.damaged_samples += 1;
        }
    }

    /// `None` if the sample is shorter than its event's format.
    #[inline(always)]
    fn tracepoint(
        &mut self,
        attr: &Attr,
        event: &Event,
        bytes: &[u8],
        moment: Moment,
    ) -> Option<()> {
        let parts = attr.parts(bytes)?;
        if moment.cpu == NO_CPU {
            self.linux.odd.placeless += 1;
            return Some(());
        }
        let ids = attr.sample.tid.and_then(|at| {
            Some((u32_at(bytes, at)?.cast_signed(), u32_at(bytes, at + 4)?.cast_signed()))
        });
        if attr.sample.cgroup_from_end.is_some() {
            self.cgroup(attr, bytes, ids, moment);
        }
        let done = self.linux.tracepoint(event, Around { raw: parts.raw, ids, moment })?;
        if attr.has_callchain() {
            self.stack_of(attr, (moment.ts, bytes), ids, done);
        }
        if let Done::Switch { prev_tid, prev } = done {
            let tid = ids.map_or(-1, |(_, tid)| tid);
            let differs = tid > 0 && tid != prev_tid && prev_tid > 0;
            self.cpu(moment.cpu).alias = differs.then_some((tid, prev_tid));
            if !parts.read.is_empty() {
                self.counters(attr, parts.read, prev, moment.apart());
            }
        }
        Some(())
    }

    /// Adds the stack to the row that a tracepoint became.
    #[inline(never)]
    fn stack_of(
        &mut self,
        attr: &Attr,
        (ts, bytes): (i64, &[u8]),
        ids: Option<(i32, i32)>,
        done: Done,
    ) {
        let wanted = matches!(done, Done::Switch { .. } | Done::Wakeup);
        let Some((pid, _)) = ids.filter(|_| wanted) else { return };
        let stack = self.callchains.stack(attr, pid, ts, bytes);
        match done {
            Done::Switch { .. } => self.linux.current.switches.stack(stack),
            Done::Wakeup => self.linux.current.wakeups.stack(stack),
            Done::Other => {}
        }
    }

    /// A sample of time or of a counter.
    #[inline(never)]
    fn plain_sample(&mut self, attr: &Attr, merged: &Merged<'a>, moment: Moment) {
        if moment.cpu == NO_CPU || self.callchains.sampled(merged.event).is_none() {
            return;
        }
        let bytes = merged.bytes;
        let ids = attr.sample.tid.and_then(|at| {
            Some((u32_at(bytes, at)?.cast_signed(), u32_at(bytes, at + 4)?.cast_signed()))
        });
        let life = ids.and_then(|(_, tid)| self.linux.threads.now(tid, moment.cpu));
        if let (Some(life), Some((pid, _))) = (life, ids) {
            self.linux.threads.belongs(life, pid);
        }
        let utid = life.map(|life| self.linux.threads.utid(life));
        let stack = ids.and_then(|(pid, _)| self.callchains.stack(attr, pid, moment.ts, bytes));
        let period = attr.period(bytes).and_then(|period| i64::try_from(period).ok());
        let event = self.callchains.sampled(merged.event).unwrap_or_default();
        self.linux.current.sample(moment, utid, (event, period), stack);
    }

    /// Of idle threads it is of no use.
    #[inline(never)]
    fn cgroup(&mut self, attr: &Attr, bytes: &[u8], ids: Option<(i32, i32)>, moment: Moment) {
        if let (Some((_, tid)), Some(id)) = (ids.filter(|(_, tid)| *tid > 0), attr.cgroup(bytes))
            && let Some(life) = self.linux.threads.now(tid, moment.cpu)
        {
            self.linux.threads.cgroups.sampled(life, moment.ts, id);
        }
    }

    fn counters(&mut self, attr: &Attr, read: &[u8], utid: Option<i64>, moment: Moment) {
        let values = attr.values(read);
        self.odd.shared_counters += i64::from(values.shared);
        let core_type = self.core_types.get(&moment.cpu).map(String::as_str);
        for (id, value) in values {
            let event = id.and_then(|id| self.recording.events.by_id(id));
            if let Some(name) = event.and_then(|event| self.counters.get(event)?.as_deref()) {
                self.linux.current.counter(moment, utid, name, core_type, value);
            }
        }
    }
}
