//! From events to the records of an .etl.

use std::collections::{BTreeMap, BTreeSet};
use std::io::{Seek, Write};

use super::buffer::Buffers;
use super::file_header::{self, START_TIME, Totals};
use super::metadata::{self, Schema};
use super::power::{self, About};
use super::record::{self, Descriptor, Kernel, Stamp};
use super::{config, kernel, present};
use crate::bytes::{self, Bytes};
use crate::error::WriteError;
use crate::event::{Event, Header, Interrupt, Lost, Switch};
use crate::layout::EtlOptions;
use crate::machine::Machine;
use crate::roster::Roster;
use crate::script::Line;

/// FILETIME that a merge writes into each buffer instead of the clock.
pub(super) const MERGE_TIME: i64 = START_TIME + 36_000_000_000;

/// `PERF_*` bits of what was recorded: process, thread and image; switches, DPCs, interrupts,
/// ReadyThread; idle states and CPU configuration; power.
const GROUP_MASKS: [u32; 8] =
    [0x7, 0x4 | 0x80 | 0x200 | 0x4000, 0x8000 | 0x1_0000, 0, 0x8000, 0, 0, 0];
/// `KernelEventVersion` of the records.
const KERNEL_EVENT_VERSION: u32 = 60;

/// Writes one file.
pub struct Writer<W> {
    options: EtlOptions,
    machine: Machine,
    buffers: Buffers<W>,
    roster: Roster,
    schemas: Vec<&'static Schema>,
    schema_keys: BTreeSet<(&'static str, u16, u8)>,
    /// CPUs whose records are lost, with the end of it.
    lost: BTreeMap<u16, i64>,
    totals: Totals,
    last_ticks: i64,
    record: Bytes,
    payload: Bytes,
}

impl<W: Write + Seek> Writer<W> {
    /// Begins a file.
    ///
    /// # Errors
    /// Options that contradict each other; the disk.
    pub fn new(out: W, machine: Machine, options: EtlOptions) -> Result<Self, WriteError> {
        check(&options)?;
        let buffers = Buffers::new(out, options.clone())?;
        let mut writer = Self {
            last_ticks: options.start_ticks,
            options,
            machine,
            buffers,
            roster: Roster::default(),
            schemas: Vec::new(),
            schema_keys: BTreeSet::new(),
            lost: BTreeMap::new(),
            totals: Totals::default(),
            record: Bytes::new(),
            payload: Bytes::new(),
        };
        writer.group_masks(0x0005)?;
        if writer.options.topology {
            for (hook, version, payload) in config::records(&writer.machine, writer.pointer()) {
                writer.payload.raw(&payload);
                writer.kernel((0, 0), hook, version, Header::Perfinfo)?;
            }
        }
        Ok(writer)
    }

    fn pointer(&self) -> usize {
        usize::from(self.options.pointer)
    }

    fn ticks(&self, ns: i64) -> Result<i64, WriteError> {
        file_header::ticks(&self.options, self.machine.mhz, ns).ok_or_else(|| {
            WriteError::Value(format!("{ns} ns is not a whole number of ticks of this clock"))
        })
    }

    /// Extended group masks, as a session writes them at its begin and end.
    fn group_masks(&mut self, hook: u16) -> Result<(), WriteError> {
        for mask in GROUP_MASKS {
            self.payload.u32(mask);
        }
        self.payload.u32(KERNEL_EVENT_VERSION);
        self.kernel((self.totals.last_ns, 0), hook, 2, Header::System)
    }

    /// Writes `payload` as a kernel record without a thread.
    fn kernel(
        &mut self,
        at: (i64, u16),
        hook: u16,
        version: u8,
        header: Header,
    ) -> Result<(), WriteError> {
        self.kernel_of(at, (0, 0), Kernel { header, hook, version, counters: &[] })
    }

    /// Writes `payload` as a kernel record of a process and thread.
    fn kernel_of(
        &mut self,
        (ns, cpu): (i64, u16),
        (pid, tid): (u32, u32),
        kind: Kernel<'_>,
    ) -> Result<(), WriteError> {
        let stamp = Stamp { ticks: self.ticks(ns)?, pid, tid };
        self.record.0.clear();
        let pointer = self.pointer();
        record::kernel(&mut self.record, pointer, kind, stamp, &self.payload.0)?;
        self.put(cpu, ns, stamp.ticks)
    }

    /// Writes `payload` as an event of a schema.
    fn manifest(
        &mut self,
        (ns, cpu): (i64, u16),
        (pid, tid): (u32, u32),
        schema: &'static Schema,
    ) -> Result<(), WriteError> {
        if self.schema_keys.insert(schema.key()) {
            self.schemas.push(schema);
        }
        let stamp = Stamp { ticks: self.ticks(ns)?, pid, tid };
        let what = (&schema.provider()?, schema.descriptor);
        self.record.0.clear();
        let pointer = self.pointer();
        record::event(&mut self.record, pointer, what, stamp, &self.payload.0)?;
        self.put(cpu, ns, stamp.ticks)
    }

    /// Takes the record under construction into its buffer, unless it is lost.
    fn put(&mut self, cpu: u16, ns: i64, ticks: i64) -> Result<(), WriteError> {
        self.payload.0.clear();
        if self.lost.get(&cpu).is_some_and(|until| ns < *until) {
            self.totals.events_lost += 1;
            return Ok(());
        }
        self.lost.remove(&cpu);
        self.totals.last_ns = self.totals.last_ns.max(ns);
        self.last_ticks = self.last_ticks.max(ticks);
        self.buffers.put(cpu, ticks, &self.record.0)
    }

    fn about(&self, cpu: u16, ns: i64) -> Result<About, WriteError> {
        let (group, number) = self.machine.place(cpu);
        Ok(About { group, number, ticks: self.ticks(ns)? })
    }

    /// Writes the event of a line.
    ///
    /// # Errors
    /// A time between two ticks, a record that is too long, the disk.
    pub fn line(&mut self, line: &Line) -> Result<(), WriteError> {
        let at = (line.ts, line.cpu);
        self.payload.0.clear();
        match &line.event {
            Event::Switch(switch) => self.switch(at, switch),
            Event::Ready(ready) => {
                let tid = self.roster.on(line.cpu);
                let ids = (self.roster.pid(tid), tid);
                kernel::ready(&mut self.payload, ready);
                let header = ready.header.unwrap_or(Header::Perfinfo);
                let hook = kernel::READY_THREAD;
                self.kernel_of(at, ids, Kernel { header, hook, version: 2, counters: &[] })?;
                self.stack(at, ids, &ready.stack)
            }
            Event::Process { phase, pid, parent, name, command_line } => {
                self.roster.process(*pid, name);
                let pointer = self.pointer();
                kernel::process(&mut self.payload, pointer, (*pid, *parent), name, command_line);
                let hook = 0x0300 | kernel::opcode(*phase);
                let kind = Kernel { header: Header::System, hook, version: 4, counters: &[] };
                self.kernel_of(at, (*pid, u32::MAX), kind)
            }
            Event::Thread { phase, pid, tid, name, base_priority, affinity, version } => {
                self.roster.thread(*tid, *pid, name.as_deref());
                let thread = kernel::Thread {
                    pid: *pid,
                    tid: *tid,
                    name: name.as_deref(),
                    base_priority: *base_priority,
                    affinity: *affinity,
                    version: *version,
                };
                let pointer = self.pointer();
                kernel::thread(&mut self.payload, pointer, thread);
                let hook = 0x0500 | kernel::opcode(*phase);
                // The one that creates a thread writes the record of its start.
                let by = if *phase == crate::event::Phase::Start {
                    let creator = self.roster.on(line.cpu);
                    (self.roster.pid(creator), creator)
                } else {
                    (*pid, *tid)
                };
                let kind =
                    Kernel { header: Header::System, hook, version: *version, counters: &[] };
                self.kernel_of(at, by, kind)
            }
            Event::ThreadName { pid, tid, name } => {
                self.roster.thread(*tid, *pid, Some(name));
                self.payload.u32(*pid).u32(*tid).utf16z(name);
                self.kernel(at, kernel::SET_NAME, 2, Header::Perfinfo)
            }
            Event::Interrupt { start, kind, routine } => {
                let (start, pointer) = (self.ticks(*start)?, self.pointer());
                let (hook, isr) = match kind {
                    Interrupt::Dpc => (kernel::DPC, false),
                    Interrupt::TimerDpc => (kernel::TIMER_DPC, false),
                    Interrupt::ThreadedDpc => (kernel::THREADED_DPC, false),
                    Interrupt::Isr => (kernel::ISR, true),
                };
                let write = if isr { kernel::isr } else { kernel::dpc };
                write(&mut self.payload, pointer, start, *routine);
                self.kernel(at, hook, 2, Header::Perfinfo)
            }
            Event::Idle { state } => {
                let hook = match state {
                    Some(state) => {
                        kernel::idle_enter(&mut self.payload, *state);
                        kernel::IDLE_ENTER
                    }
                    None => {
                        kernel::idle_exit(&mut self.payload, 0);
                        kernel::IDLE_EXIT
                    }
                };
                self.kernel(at, hook, 2, Header::Perfinfo)
            }
            Event::Counters { names } => {
                kernel::counters(&mut self.payload, names);
                self.kernel(at, kernel::COUNTER_CONFIG, 2, Header::Perfinfo)
            }
            Event::Priority { tid, old, new } => {
                self.payload.u32(*tid).u8(old.cast_unsigned()).u8(new.cast_unsigned()).u16(0);
                self.kernel(at, kernel::SET_PRIORITY, 3, Header::Perfinfo)
            }
            Event::Affinity { tid, mask, group } => {
                let pointer = self.pointer();
                self.payload.pointer(pointer, *mask).u32(*tid).u16(*group).u16(0);
                self.kernel(at, kernel::SET_AFFINITY, 2, Header::Perfinfo)
            }
            Event::Present { pid, tid, swap_chain, flags, stop, d3d9 } => {
                let pointer = self.pointer();
                let schema = present::present(
                    &mut self.payload,
                    pointer,
                    (*d3d9, *stop),
                    *swap_chain,
                    *flags,
                );
                self.manifest(at, (*pid, *tid), schema)
            }
            Event::Lost { until, kind } => {
                match kind {
                    Lost::Buffer => {
                        self.totals.buffers_lost += 1;
                        self.buffers.lose_buffer(line.cpu)?;
                    }
                    Lost::Events => self.buffers.lose_events(line.cpu)?,
                }
                self.lost.insert(line.cpu, *until);
                Ok(())
            }
            Event::Raw { hook, version, header, pid, tid, payload } => {
                let digits = bytes::hex(payload);
                let bytes = digits.ok_or_else(|| WriteError::Value("payload is no hex".into()))?;
                self.payload.raw(&bytes);
                let kind =
                    Kernel { header: *header, hook: *hook, version: *version, counters: &[] };
                self.kernel_of(at, (*pid, *tid), kind)
            }
            Event::Manifest { provider, id, version, pid, tid, payload } => {
                let bytes = bytes::hex(payload)
                    .ok_or_else(|| WriteError::Value("payload is no hex".into()))?;
                let provider = metadata::known(provider)?;
                let descriptor = Descriptor { id: *id, version: *version, ..Descriptor::default() };
                let stamp = Stamp { ticks: self.ticks(line.ts)?, pid: *pid, tid: *tid };
                let pointer = self.pointer();
                self.record.0.clear();
                record::event(&mut self.record, pointer, (&provider, descriptor), stamp, &bytes)?;
                self.put(line.cpu, line.ts, stamp.ticks)
            }
            Event::Running { tid } => {
                self.roster.enter(line.cpu, *tid);
                Ok(())
            }
            // Linux alone.
            Event::Migrate { .. } | Event::Yield {} => Ok(()),
            power => self.power(at, power),
        }
    }

    /// A context switch, and the stack of the incoming thread.
    ///
    /// # Errors
    /// As [`Self::line`].
    pub fn switch(&mut self, at: (i64, u16), switch: &Switch) -> Result<(), WriteError> {
        self.payload.0.clear();
        let version = switch.version.unwrap_or(self.options.switch_version);
        kernel::switch(&mut self.payload, version, switch);
        let hook = kernel::CSWITCH;
        let counters = &switch.counters;
        self.kernel_of(at, (0, 0), Kernel { header: Header::Perfinfo, hook, version, counters })?;
        self.roster.enter(at.1, switch.new);
        let planned = switch.planned.unwrap_or(switch.new);
        self.stack(at, (self.roster.pid(planned), planned), &switch.stack)
    }

    fn stack(
        &mut self,
        at: (i64, u16),
        (pid, tid): (u32, u32),
        frames: &[u64],
    ) -> Result<(), WriteError> {
        if frames.is_empty() {
            return Ok(());
        }
        let (ticks, pointer) = (self.ticks(at.0)?, self.pointer());
        kernel::stack(&mut self.payload, pointer, (ticks, pid, tid), frames);
        self.kernel(at, kernel::STACK_WALK, 2, Header::Perfinfo)
    }

    fn power(&mut self, at: (i64, u16), event: &Event) -> Result<(), WriteError> {
        let (ns, pointer) = (at.0, self.pointer());
        let about = |cpu: u16| self.about(cpu, ns);
        let mut payload = Bytes::new();
        let out = &mut payload;
        let schema = match event {
            Event::Park { about: cpu, soft } => power::park(out, about(*cpu)?, *soft),
            Event::Unpark { about: cpu } => power::unpark(out, about(*cpu)?),
            Event::SoftPark { about: cpu, soft } => power::soft_park(out, about(*cpu)?, *soft),
            Event::ParkSelection { group, old, new, reason } => {
                let cpus = self.machine.cpus.iter().map(|cpu| self.machine.place(cpu.cpu));
                let of_group = cpus.filter(|(other, _)| other == group);
                let all = of_group.fold(0, |mask, (_, number)| mask | 1 << number);
                power::selection(out, pointer, *group, (all, *old, *new), *reason)
            }
            Event::PowerRundown { about: cpu, parked, soft, efficiency_class, caps, mhz } => {
                let rundown = power::Rundown {
                    parked: *parked,
                    soft: *soft,
                    class: *efficiency_class,
                    caps: *caps,
                    mhz: *mhz,
                };
                power::rundown(out, about(*cpu)?, rundown)
            }
            Event::ProcessorId { about: cpu, apic } => {
                power::processor_id(out, about(*cpu)?, *apic, u32::from(*cpu))
            }
            Event::ClassUpdate { about: cpu, efficiency_class } => {
                power::class_update(out, about(*cpu)?, *efficiency_class)
            }
            Event::Frequency { about: cpu, mhz, reported_by } => {
                power::frequency(out, about(*cpu)?, *mhz, *reported_by)
            }
            _ => return Err(WriteError::Value("this event has no record here".to_owned())),
        };
        self.payload = payload;
        self.manifest(at, (4, 8), schema)
    }

    /// Writes what a merge injects: WinSAT's XML and the schemas.
    fn inject(&mut self) -> Result<(), WriteError> {
        let at = self.totals.last_ns;
        let stamp = Stamp { ticks: self.ticks(at)?, pid: 0, tid: 0 };
        let mut injected: Vec<(&str, u8, Vec<u8>)> = Vec::new();
        if self.options.topology {
            injected.push((config::WINSAT, config::WINSAT_CONFIG, config::winsat(&self.machine)));
        }
        if self.options.metadata {
            for schema in &self.schemas {
                let info = metadata::event_info(schema)?;
                injected.push((metadata::CLASS, metadata::EVENT_INFO, info));
            }
        }
        for (class, opcode, payload) in injected {
            let class = metadata::known(class)?;
            self.record.0.clear();
            record::classic(&mut self.record, 8, (&class, opcode, 0), stamp, &payload)?;
            self.put(0, at, stamp.ticks)?;
        }
        Ok(())
    }

    /// Ends the file and gives it back.
    ///
    /// # Errors
    /// The disk.
    pub fn finish(mut self) -> Result<W, WriteError> {
        self.lost.clear();
        self.payload.0.clear();
        self.group_masks(0x0020)?;
        self.kernel((self.totals.last_ns, 0), 0x0008, 2, Header::Perfinfo)?;
        if self.options.merged {
            self.inject()?;
        }
        self.totals.buffers = self.buffers.flush_all()?;
        let (cpus, mhz) = (self.machine.cpus.len() as u32, self.machine.mhz);
        let payload = file_header::payload(&self.options, cpus, mhz, self.totals);
        let mut records = Bytes::new();
        let stamp = Stamp { ticks: self.options.start_ticks, pid: 0, tid: 0 };
        let header = Header::System;
        let kind = Kernel { header, hook: 0, version: 2, counters: &[] };
        record::kernel(&mut records, self.pointer(), kind, stamp, &payload)?;
        records.align(8);
        if self.options.merged {
            // PartitionInfoExtension: a reader that trusts SavedOffset does not see it.
            let kind = Kernel { header, hook: 0x0050, version: 2, counters: &[] };
            record::kernel(&mut records, self.pointer(), kind, stamp, &[0; 48])?;
        }
        self.buffers.finish(&records.0, self.last_ticks + 20)
    }
}

fn check(options: &EtlOptions) -> Result<(), WriteError> {
    let wrong = |what: &str| Err(WriteError::Value(what.to_owned()));
    let packed = options.compression != crate::layout::Compression::None;
    match options {
        EtlOptions { pointer, .. } if !matches!(pointer, 4 | 8) => wrong("pointer is 4 or 8"),
        EtlOptions { switch_version, .. } if !(1..=5).contains(switch_version) => {
            wrong("switch_version is 1 to 5")
        }
        EtlOptions { buffer_size, .. } if !(4096..=16 << 20).contains(buffer_size) => {
            wrong("buffer_size is 4 KB to 16 MB")
        }
        EtlOptions { circular: Some(_), .. } if packed => {
            wrong("a circular file has buffers of one size and cannot be compressed")
        }
        _ => Ok(()),
    }
}
