//! From events to the records of a perf.data.

use std::collections::BTreeMap;
use std::io::Write;

use super::attrs::{Event as Attr, SIZE};
use super::features;
use super::formats::{self, PREEMPTED, SOFTIRQ_TIMER, Tracepoint};
use super::records::{self, Stamp};
use crate::bytes::Bytes;
use crate::error::WriteError;
use crate::event::{Event, Interrupt, Leaves, Phase, Ready, Switch};
use crate::layout::PerfOptions;
use crate::machine::Machine;
use crate::random::Random;
use crate::roster::Roster;
use crate::script::Line;

/// `sizeof(struct perf_file_header)`
const FILE_HEADER: usize = 104;
/// cpu_idle's state for leaving.
const IDLE_EXIT: u32 = u32::MAX;
/// `TASK_INTERRUPTIBLE`, `EXIT_ZOMBIE`
const INTERRUPTIBLE: u64 = 1;
const ZOMBIE: u64 = 0x20;
const IRQ: u32 = 9;
/// Where the kernel was: nowhere in particular.
const ADDRESS: u64 = 0xFFFF_FFFF_8100_0000;

/// A record with its place: perf keeps one stream a CPU.
struct Placed {
    ns: i64,
    cpu: u16,
    bytes: Vec<u8>,
}

/// Writes one file; it is put together in memory.
pub struct Writer {
    machine: Machine,
    options: PerfOptions,
    roster: Roster,
    /// Names of the counters, once known.
    counters: Vec<String>,
    switches: BTreeMap<u16, u64>,
    early: Vec<Vec<u8>>,
    placed: Vec<Placed>,
    lost: BTreeMap<u16, (i64, u64)>,
}

impl Writer {
    /// Begins a file.
    #[must_use]
    pub fn new(machine: Machine, options: PerfOptions) -> Self {
        Self {
            machine,
            options,
            roster: Roster::default(),
            counters: Vec::new(),
            switches: BTreeMap::new(),
            early: Vec::new(),
            placed: Vec::new(),
            lost: BTreeMap::new(),
        }
    }

    fn id(&self, event: usize, cpu: u16) -> u64 {
        event as u64 * u64::from(self.machine.size()) + u64::from(cpu) + 1
    }

    fn time(&self, ns: i64) -> Result<u64, WriteError> {
        self.options
            .start_ns
            .checked_add_signed(ns)
            .filter(|time| *time > 0)
            .ok_or_else(|| WriteError::Value(format!("{ns} ns is before the clock's start")))
    }

    /// Fields of a record's context: the thread that runs there.
    fn stamp(&self, (ns, cpu): (i64, u16), event: usize) -> Result<Stamp, WriteError> {
        let tid = self.roster.on(cpu);
        let id = self.id(event, cpu);
        Ok(Stamp { pid: self.roster.pid(tid), tid, time: self.time(ns)?, cpu, id })
    }

    fn put(&mut self, (ns, cpu): (i64, u16), bytes: Vec<u8>) -> Result<(), WriteError> {
        if let Some((until, count)) = self.lost.get_mut(&cpu) {
            if ns < *until {
                *count += 1;
                return Ok(());
            }
            // perf reports a loss before the next record that fits.
            let count = *count;
            self.lost.remove(&cpu);
            let stamp = self.stamp((ns, cpu), 0)?;
            self.placed.push(Placed { ns, cpu, bytes: records::lost(count, stamp) });
        }
        self.placed.push(Placed { ns, cpu, bytes });
        Ok(())
    }

    fn sample(
        &mut self,
        at: (i64, u16),
        point: Tracepoint,
        read: &[u8],
        raw: &Bytes,
    ) -> Result<(), WriteError> {
        let rank = Tracepoint::ALL.iter().position(|other| *other == point).unwrap_or_default();
        let stamp = self.stamp(at, rank)?;
        let mut out = Bytes::new();
        out.u64(stamp.id).u64(ADDRESS).u32(stamp.pid).u32(stamp.tid).u64(stamp.time);
        out.u32(u32::from(stamp.cpu)).u32(0).u64(1).raw(read);
        let size = (4 + raw.0.len()).next_multiple_of(8) - 4;
        out.u32(size as u32).raw(&raw.0).zeros(size - raw.0.len());
        self.put(at, records::record(records::SAMPLE, 1, &out.0))
    }

    fn name(&self, cpu: u16, tid: u32) -> String {
        if tid == 0 { format!("swapper/{cpu}") } else { self.roster.known(tid).name }
    }

    fn priority(&self, tid: u32) -> u32 {
        if tid == 0 { 120 } else { i32::from(self.roster.known(tid).priority).cast_unsigned() }
    }

    /// Writes the event of a line; events that perf does not record are ignored.
    ///
    /// # Errors
    /// A time before the clock's begin.
    pub fn line(&mut self, line: &Line) -> Result<(), WriteError> {
        let at = (line.ts, line.cpu);
        let current = self.roster.on(line.cpu);
        match &line.event {
            Event::Process { pid, name, .. } => {
                self.roster.process(*pid, name);
                Ok(())
            }
            Event::Thread { phase, pid, tid, name, base_priority, .. } => {
                self.thread(at, *phase, (*pid, *tid), name.as_deref(), *base_priority)
            }
            Event::ThreadName { pid, tid, name } => {
                self.roster.thread(*tid, *pid, Some(name));
                let stamp = self.stamp(at, 0)?;
                self.put(at, records::comm(*pid, *tid, name, stamp))
            }
            Event::Switch(switch) => self.switch(at, switch),
            Event::Ready(ready) => self.ready(at, ready),
            Event::Migrate { tid, from, to } => {
                let mut raw = formats::common(Tracepoint::Migrate, false, current);
                let known = self.roster.known(*tid);
                raw.text_field(&known.name, 16).u32(*tid).u32(self.priority(*tid));
                raw.u32(u32::from(*from)).u32(u32::from(*to));
                self.sample(at, Tracepoint::Migrate, &[], &raw)
            }
            Event::Yield {} if self.options.yields => {
                let mut raw = formats::common(Tracepoint::Yield, false, current);
                raw.u32(24);
                self.sample(at, Tracepoint::Yield, &[], &raw)
            }
            Event::Interrupt { start, kind, .. } => {
                let (entry, exit) = match kind {
                    Interrupt::Isr => (Tracepoint::IrqEntry, Tracepoint::IrqExit),
                    _ => (Tracepoint::SoftirqEntry, Tracepoint::SoftirqExit),
                };
                let mut raw = formats::common(entry, false, current);
                match kind {
                    Interrupt::Isr => raw.u32(IRQ).text_field("drawn", 16),
                    _ => raw.u32(SOFTIRQ_TIMER),
                };
                self.sample((*start, line.cpu), entry, &[], &raw)?;
                let mut raw = formats::common(exit, false, current);
                match kind {
                    Interrupt::Isr => raw.u32(IRQ).u32(1),
                    _ => raw.u32(SOFTIRQ_TIMER),
                };
                self.sample(at, exit, &[], &raw)
            }
            Event::Idle { state } => {
                let mut raw = formats::common(Tracepoint::Idle, false, current);
                raw.u32(state.unwrap_or(IDLE_EXIT)).u32(u32::from(line.cpu));
                self.sample(at, Tracepoint::Idle, &[], &raw)
            }
            Event::Frequency { about, mhz, .. } => {
                let mut raw = formats::common(Tracepoint::Frequency, false, current);
                raw.u32(mhz * 1000).u32(u32::from(*about));
                self.sample(at, Tracepoint::Frequency, &[], &raw)
            }
            Event::Running { tid } => {
                self.roster.enter(line.cpu, *tid);
                Ok(())
            }
            Event::Counters { names } => {
                self.counters.clone_from(names);
                Ok(())
            }
            Event::Lost { until, .. } => {
                self.lost.insert(line.cpu, (*until, 0));
                Ok(())
            }
            _ => Ok(()),
        }
    }

    fn thread(
        &mut self,
        at: (i64, u16),
        phase: Phase,
        (pid, tid): (u32, u32),
        name: Option<&str>,
        priority: i8,
    ) -> Result<(), WriteError> {
        match phase {
            Phase::RundownStart => {
                self.roster.thread(tid, pid, name);
                self.roster.priority(tid, priority);
                let known = self.roster.known(tid).name;
                self.early.push(records::comm(pid, tid, &known, Stamp::default()));
                Ok(())
            }
            Phase::Start => {
                self.roster.thread(tid, pid, name);
                self.roster.priority(tid, priority);
                let parent = self.roster.on(at.1);
                let (parent_name, child_name) = (self.name(at.1, parent), self.name(at.1, tid));
                let mut raw = formats::common(Tracepoint::Fork, false, parent);
                raw.text_field(&parent_name, 16).u32(parent);
                raw.text_field(&parent_name, 16).u32(tid);
                self.sample(at, Tracepoint::Fork, &[], &raw)?;
                let stamp = self.stamp(at, 0)?;
                let of = (self.roster.pid(parent), parent);
                self.put(at, records::task(true, (pid, tid), of, stamp))?;
                self.put(at, records::comm(pid, tid, &child_name, stamp))
            }
            Phase::End => {
                let mut raw = formats::common(Tracepoint::Exit, false, tid);
                raw.text_field(&self.name(at.1, tid), 16).u32(tid).u32(self.priority(tid));
                self.sample(at, Tracepoint::Exit, &[], &raw)?;
                let stamp = self.stamp(at, 0)?;
                self.put(at, records::task(false, (pid, tid), (pid, pid), stamp))
            }
            Phase::RundownEnd | Phase::Defunct => Ok(()),
        }
    }

    fn switch(&mut self, at: (i64, u16), switch: &Switch) -> Result<(), WriteError> {
        let cpu = at.1;
        self.roster.enter(cpu, switch.old);
        for (tid, priority) in
            [(switch.old, switch.old_priority), (switch.new, switch.new_priority)]
        {
            if tid != 0 {
                self.roster.priority(tid, priority);
            }
        }
        let state = match switch.leaves {
            _ if switch.old == 0 => 0,
            Leaves::Blocked => INTERRUPTIBLE,
            Leaves::Exit => ZOMBIE,
            Leaves::Preempted => PREEMPTED,
            Leaves::QuantumEnd | Leaves::Yield | Leaves::RunnableOther => 0,
        };
        let mut raw = formats::common(Tracepoint::Switch, false, switch.old);
        raw.text_field(&self.name(cpu, switch.old), 16).u32(switch.old);
        raw.u32(self.priority(switch.old)).u64(state);
        raw.text_field(&self.name(cpu, switch.new), 16).u32(switch.new);
        raw.u32(self.priority(switch.new));
        let mut read = Bytes::new();
        if !self.counters.is_empty() {
            let count = self.switches.entry(cpu).or_default();
            *count += 1;
            let count = *count;
            let values = switch.counters.iter().copied();
            read.u64(self.counters.len() as u64 + 1).u64(count).u64(self.id(0, cpu));
            for (rank, value) in
                values.chain(std::iter::repeat(0)).take(self.counters.len()).enumerate()
            {
                read.u64(value).u64(self.id(Tracepoint::ALL.len() + rank, cpu));
            }
        }
        self.sample(at, Tracepoint::Switch, &read.0, &raw)?;
        self.roster.enter(cpu, switch.new);
        Ok(())
    }

    fn ready(&mut self, at: (i64, u16), ready: &Ready) -> Result<(), WriteError> {
        let point = if ready.new { Tracepoint::WakeupNew } else { Tracepoint::Waking };
        let mut raw = formats::common(point, ready.in_dpc, self.roster.on(at.1));
        raw.text_field(&self.name(at.1, ready.tid), 16).u32(ready.tid);
        raw.u32(self.priority(ready.tid)).u32(u32::from(ready.target));
        self.sample(at, point, &[], &raw)
    }

    /// All records in the order in which perf writes them: in rounds, one CPU after the other.
    fn data(&mut self) -> Vec<u8> {
        let mut out: Vec<u8> = self.early.concat();
        let mut random = Random::new(self.options.shuffle.unwrap_or_default());
        let round_ns = i64::try_from(self.options.round_ns.max(1)).unwrap_or(i64::MAX);
        // An interrupt's begin is written when its end is known.
        self.placed.sort_by_key(|placed| placed.ns);
        let mut rounds: BTreeMap<i64, BTreeMap<u16, Vec<&Placed>>> = BTreeMap::new();
        for placed in &self.placed {
            let round = rounds.entry(placed.ns.div_euclid(round_ns)).or_default();
            round.entry(placed.cpu).or_default().push(placed);
        }
        for round in rounds.into_values() {
            let mut cpus: Vec<_> = round.into_values().collect();
            while !cpus.is_empty() {
                let pick =
                    if self.options.shuffle.is_some() { random.below(cpus.len()) } else { 0 };
                for placed in cpus.remove(pick) {
                    out.extend(&placed.bytes);
                }
            }
            out.extend(records::finished_round());
        }
        out
    }

    /// Writes the file.
    ///
    /// # Errors
    /// The disk.
    pub fn finish<W: Write>(mut self, mut out: W) -> Result<W, WriteError> {
        let points = Tracepoint::ALL.into_iter().map(Attr::Tracepoint);
        let counters = self.counters.iter().map(|name| Attr::counter(name));
        let all: Vec<Attr> = points.chain(counters).collect();
        // A recording without sched_yield has no event for it.
        let written =
            |event: &Attr| self.options.yields || *event != Attr::Tracepoint(Tracepoint::Yield);
        let events: Vec<(Attr, Vec<u64>)> = all
            .into_iter()
            .enumerate()
            .filter(|(_, event)| written(event))
            .map(|(rank, event)| {
                (event, self.machine.cpus.iter().map(|cpu| self.id(rank, cpu.cpu)).collect())
            })
            .collect();
        let grouped = !self.counters.is_empty();
        let data = self.data();
        let ids_at = FILE_HEADER as u64;
        let attrs_at = ids_at + events.iter().map(|(_, ids)| 8 * ids.len() as u64).sum::<u64>();
        let attrs_size = (events.len() * (SIZE + 16)) as u64;
        let data_at = attrs_at + attrs_size;
        let features = features::all(&self.machine, &events, (grouped, self.options.start_ns));
        let mut file = Bytes::new();
        file.raw(b"PERFILE2").u64(FILE_HEADER as u64).u64(SIZE as u64 + 16);
        file.u64(attrs_at).u64(attrs_size).u64(data_at).u64(data.len() as u64).u64(0).u64(0);
        file.u64(features.iter().fold(0, |bits, (number, _)| bits | 1 << number)).zeros(24);
        for (_, ids) in &events {
            for id in ids {
                file.u64(*id);
            }
        }
        let mut own_ids = ids_at;
        for (rank, (event, ids)) in events.iter().enumerate() {
            let size = 8 * ids.len() as u64;
            file.raw(&event.attr(grouped, rank == 0)).u64(own_ids).u64(size);
            own_ids += size;
        }
        file.raw(&data);
        let mut at = data_at + data.len() as u64 + 16 * features.len() as u64;
        for (_, bytes) in &features {
            file.u64(at).u64(bytes.len() as u64);
            at += bytes.len() as u64;
        }
        for (_, bytes) in &features {
            file.raw(bytes);
        }
        out.write_all(&file.0)?;
        out.flush()?;
        Ok(out)
    }
}
