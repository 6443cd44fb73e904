//! Turns records into rows of the base tables.

use std::collections::{HashMap, VecDeque};

use schedlens_input::bytes::{text, u32_at};
use schedlens_perf_data::Merged;
use schedlens_perf_data::attrs::Attr;
use schedlens_perf_data::events::Family;
use schedlens_perf_data::record;
use schedlens_perf_data::recording::Recording;
use schedlens_perf_data::streams::{self, NO_CPU};
use schedlens_schedule::pool::Pools;
use schedlens_schedule::tables::{Loss, Moment};

use super::Tables;
use super::interrupts::{Filling, Interrupts, Which};
use super::pending::Pending;
use super::switches::Switch;
use super::threads::{Birth, Threads};

/// `PWR_EVENT_EXIT` of `power:cpu_idle`.
const IDLE_EXIT: i64 = 0xffff_ffff;

/// Maximum rows that wait for the ends of their interrupts.
const PENDING_ROWS: usize = 1 << 20;

/// The open state of a CPU.
#[derive(Clone, Debug, Default)]
struct Cpu<'a> {
    seq: i64,
    /// Time and bytes of the last record.
    last: Option<(i64, &'a [u8])>,
    /// Thread ids of a switch-out whose switch-in should come next.
    leaving: Option<(i32, i32)>,
    /// From the last `sched_switch`: the sample's thread id, and the different one in its
    /// `prev_pid`. They differ for a leader that another thread's exec replaces.
    alias: Option<(i32, i32)>,
    idle: Option<(i64, i32)>,
}

/// Incomplete records, counted.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Odd {
    pub(super) damaged_samples: i64,
    pub(super) placeless: i64,
    pub(super) shared_counters: i64,
    pub(super) namespace_switches: i64,
    pub(super) repeated: i64,
}

/// The rows of the current chunk, and the state they depend on.
pub(super) struct Rows<'a> {
    pub(super) recording: &'a Recording,
    pub(super) threads: Threads,
    pub(super) current: Tables,
    pub(super) chunk: u64,
    pending: VecDeque<Pending>,
    pub(super) interrupts: Interrupts,
    pub(super) odd: Odd,
    start: u64,
    cpus: Vec<Cpu<'a>>,
    counters: Vec<Option<String>>,
    core_types: HashMap<i32, String>,
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
            threads: Threads::new(trace_id),
            current: Tables::new(pools),
            chunk: 0,
            pending: VecDeque::new(),
            interrupts: Interrupts::default(),
            odd: Odd::default(),
            start: recording.index.first.unwrap_or_default(),
            cpus: Vec::new(),
            counters,
            core_types,
        };
        for span in &recording.index.early {
            for found in streams::records(&recording.segments, span) {
                rows.task(found.kind, found.bytes, None);
            }
        }
        for cpu in recording.index.cpus() {
            rows.threads.idle(cpu);
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
            self.current.loss(loss);
        }
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
            self.current.loss(nowhere(events, "PERF_RECORD_LOST_SAMPLES"));
        }
        let placed = !index.is_empty();
        if index.damaged > 0 && !placed {
            self.current.loss(nowhere(None, "damaged"));
        }
        if self.recording.cut_off && !placed {
            self.current.loss(nowhere(None, "truncated"));
        }
    }

    /// Ends the chunk at that time and starts the next one.
    pub(super) fn cut(&mut self, until_ns: i64, pools: &Pools) {
        let tables = std::mem::replace(&mut self.current, Tables::new(pools));
        self.pending.push_back(Pending { number: self.chunk, tables, until_ns });
        self.chunk += 1;
    }

    /// Returns the first pending chunk once its interrupts have ended or too many rows wait for
    /// that; at the end, in any case.
    pub(super) fn release(&mut self, at_the_end: bool) -> Option<Pending> {
        let first = self.pending.front()?;
        let complete = self.interrupts.earliest_open().is_none_or(|open| open > first.number);
        let waiting: usize = self.pending.iter().map(|chunk| chunk.tables.rows()).sum();
        let due = at_the_end || complete || waiting > PENDING_ROWS;
        if due { self.pending.pop_front() } else { None }
    }

    /// Time since the start of the recording.
    #[inline]
    pub(super) fn since(&self, time: u64) -> i64 {
        time.wrapping_sub(self.start).cast_signed()
    }

    /// Closes whatever is still open at the end of the recording.
    pub(super) fn close_open(&mut self) {
        for (number, cpu) in self.cpus.iter_mut().enumerate() {
            if let Some((ts, state)) = cpu.idle.take() {
                self.current.idle(ts, number as i32, None, state);
            }
        }
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
            self.moment((kind == record::LOST).then_some(before), cpu, ts)
        };
        if kind == record::SAMPLE {
            self.sample(merged, moment);
        } else {
            self.other_record(merged, moment.apart());
        }
    }

    #[inline(never)]
    fn other_record(&mut self, merged: &Merged<'a>, moment: Moment) {
        let kind = merged.kind();
        match kind {
            record::SWITCH | record::SWITCH_CPU_WIDE => {
                self.switch_event(kind, merged.misc(), merged.bytes, moment);
            }
            record::COMM | record::FORK | record::EXIT => {
                self.task(kind, merged.bytes, Some(moment.ts));
            }
            _ => {}
        }
    }

    /// `lost`: records were lost; the value is the time of the last record before them.
    #[inline(always)]
    fn moment(&mut self, lost: Option<Option<i64>>, number: i32, ts: i64) -> Moment {
        let cpu = self.cpu(number);
        let seq = cpu.seq;
        cpu.seq += 1;
        let moment = Moment { ts, cpu: number, seq };
        if let Some(before) = lost {
            self.lost(before, moment);
        }
        moment
    }

    /// Whatever is open on a CPU may have ended in its lost records.
    #[inline(never)]
    fn lost(&mut self, before: Option<i64>, after: Moment) {
        let cpu = self.cpu(after.cpu);
        cpu.leaving = None;
        cpu.idle = None;
        let filling =
            Filling { chunk: self.chunk, current: &mut self.current, pending: &mut self.pending };
        self.interrupts.lost(before, after, filling);
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
            record::FORK => {
                let (pid, tid) = (id(8), id(16));
                self.threads.fork(Birth::Record, tid, Some(pid), ts, id(20));
                if pid == tid {
                    self.threads.created_by(pid, id(12));
                }
            }
            record::EXIT => {
                if let Some(ts) = ts {
                    self.threads.exit(id(16), ts);
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
            self.odd.placeless += 1;
            return;
        }
        let other = (kind == record::SWITCH_CPU_WIDE).then(|| {
            let id = |at| u32_at(bytes, at).unwrap_or(u32::MAX).cast_signed();
            (id(8), id(12))
        });
        self.interrupts.switched(moment.cpu);
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
        let other_life = self.threads.now(other_tid, moment.cpu);
        if let Some(own) = own {
            self.threads.belongs(own, pid);
        }
        if let (Some(other_life), Some((pid, _))) = (other_life, other) {
            self.threads.belongs(other_life, pid);
        }
        let (own, other_life) = (
            own.map(|life| self.threads.utid(life)),
            other_life.map(|life| self.threads.utid(life)),
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
        self.current.switches.put(moment, row);
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
        if self.tracepoint(attr, event, merged.bytes, moment).is_none() {
            self.odd.damaged_samples += 1;
        }
    }

    /// Remembers the other id of the thread that leaves a CPU.
    #[inline(always)]
    pub(super) fn alias(&mut self, cpu: i32, alias: Option<(i32, i32)>) {
        self.cpu(cpu).alias = alias;
    }

    pub(super) fn counters(&mut self, attr: &Attr, read: &[u8], utid: Option<i64>, moment: Moment) {
        let values = attr.values(read);
        self.odd.shared_counters += i64::from(values.shared);
        let core_type = self.core_types.get(&moment.cpu).map(String::as_str);
        for (id, value) in values {
            let event = id.and_then(|id| self.recording.events.by_id(id));
            if let Some(name) = event.and_then(|event| self.counters.get(event)?.as_deref()) {
                self.current.counter(moment, utid, name, core_type, value);
            }
        }
    }

    pub(super) fn interrupt_end(&mut self, which: Which<'_>, moment: Moment) {
        let (chunk, current) = (self.chunk, &mut self.current);
        let filling = Filling { chunk, current, pending: &mut self.pending };
        self.interrupts.end(which, moment, filling);
    }

    pub(super) fn idle(&mut self, state: i64, number: i32, ts: i64) {
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
}
