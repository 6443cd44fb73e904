//! Turns tracepoints into rows.

use schedlens_input::bytes::CPU_LIMIT;
use schedlens_schedule::tables::{DiskRequest, Moment};
use schedlens_tracepoints::events::{
    DiskFields, Event, Family, SwitchFields, WAKING, WakeupFields,
};

use super::interrupts::Which;
use super::rows::Rows;
use super::switches::Switch;
use super::threads::Birth;
use super::wakeups::Wakeup;

/// The CPU of whatever happens on none.
const NO_CPU: i32 = -1;
/// What the kernel counts disks in, whatever their own sectors are.
const SECTOR_BYTES: i64 = 512;
/// `CLONE_THREAD`: the new thread belongs to the process of its creator.
const CLONE_THREAD: i64 = 0x1_0000;

/// Where and in which thread a tracepoint fired.
#[derive(Clone, Copy)]
pub(crate) struct Around<'a> {
    /// The data of the tracepoint.
    pub(crate) raw: &'a [u8],
    /// Process and thread, if the record states them besides the tracepoint.
    pub(crate) ids: Option<(i32, i32)>,
    /// Time, CPU and position.
    pub(crate) moment: Moment,
}

impl Around<'_> {
    /// See [`Moment::apart`].
    #[inline(always)]
    fn apart(self) -> Self {
        Self { moment: self.moment.apart(), ..self }
    }
}

/// What a tracepoint was.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Done {
    /// A switch, from this thread.
    Switch {
        /// Id of the outgoing thread in the tracepoint.
        prev_tid: i32,
        /// Its number in the database.
        prev: Option<i64>,
    },
    /// A wakeup.
    Wakeup,
    /// Something else.
    Other,
}

impl Rows {
    /// Processes a tracepoint; `None` if its raw data is too short.
    #[inline(always)]
    pub(crate) fn tracepoint(&mut self, event: &Event, around: Around<'_>) -> Option<Done> {
        match &event.family {
            Family::Switch { fields, plus_mask, usual } => {
                // Fields at known offsets are read without a lookup.
                match around.raw.first_chunk().filter(|_| *usual) {
                    Some(raw) => self.usual_switch(raw, *plus_mask, around),
                    None => self.unusual_switch(fields, *plus_mask, around.apart()),
                }
            }
            Family::Wakeup { kind, fields, usual } => {
                let row = match around.raw.first_chunk().filter(|_| *usual) {
                    Some(raw) => self.usual_wakeup(raw, *kind, around),
                    None => self.wakeup(fields, around.raw, *kind, around),
                };
                row.map(|()| Done::Wakeup)
            }
            family => self.rare(family, event, around.apart()).map(|()| Done::Other),
        }
    }

    #[inline(always)]
    fn usual_switch(
        &mut self,
        raw: &[u8; SwitchFields::USUAL_SIZE],
        plus_mask: Option<i64>,
        around: Around<'_>,
    ) -> Option<Done> {
        self.switch(&SwitchFields::USUAL, raw, plus_mask, around)
    }

    #[inline(never)]
    fn unusual_switch(
        &mut self,
        fields: &SwitchFields,
        plus_mask: Option<i64>,
        around: Around<'_>,
    ) -> Option<Done> {
        self.switch(fields, around.raw, plus_mask, around)
    }

    #[inline(always)]
    fn switch(
        &mut self,
        fields: &SwitchFields,
        raw: &[u8],
        plus_mask: Option<i64>,
        around: Around<'_>,
    ) -> Option<Done> {
        let moment = around.moment;
        self.interrupts.switched(moment.cpu, moment.ts);
        let ids = around.ids.unwrap_or((-1, -1));
        let prev_tid = fields.prev_pid.id(raw)?;
        let next_tid = fields.next_pid.id(raw)?;
        let state = fields.prev_state.read(raw)?;
        let (prev_comm, next_comm) = (fields.prev_comm.bytes(raw)?, fields.next_comm.bytes(raw)?);
        let prev_priority = i32::try_from(fields.prev_prio.read(raw)?).ok();
        let next_priority = i32::try_from(fields.next_prio.read(raw)?).ok();
        let prev = self.threads.now(prev_tid, moment.cpu);
        if let Some(prev) = prev {
            self.threads.named(prev, moment.ts, prev_comm);
            if ids.1 == prev_tid {
                self.threads.belongs(prev, ids.0);
            } else if ids.1 > 0 {
                self.odd.namespace_switches += 1;
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
            prev_preempted: plus_mask.map(|mask| state & mask != 0),
            source: Switch::TRACEPOINT,
        };
        self.current.switches.put(moment, row);
        Some(Done::Switch { prev_tid, prev })
    }

    #[inline(always)]
    fn usual_wakeup(
        &mut self,
        raw: &[u8; WakeupFields::USUAL_SIZE],
        kind: u8,
        around: Around<'_>,
    ) -> Option<()> {
        self.wakeup(&WakeupFields::USUAL, raw, kind, around)
    }

    #[inline(always)]
    fn wakeup(
        &mut self,
        fields: &WakeupFields,
        raw: &[u8],
        kind: u8,
        around: Around<'_>,
    ) -> Option<()> {
        let moment = around.moment;
        let woken = fields.pid.id(raw)?;
        let cpu = fields.target_cpu.id(raw).filter(|cpu| *cpu >= 0);
        let current_tid = fields.common.current(raw).or(around.ids.map(|(_, tid)| tid));
        let waker = current_tid.and_then(|tid| self.threads.now(tid, moment.cpu));
        if let (Some(waker), Some((pid, tid))) = (waker, around.ids)
            && Some(tid) == current_tid
        {
            self.threads.belongs(waker, pid);
        }
        let woken = self.threads.now(woken, NO_CPU);
        if let Some(woken) = woken
            && let Some(comm) = fields.comm.as_ref().and_then(|comm| comm.bytes(raw))
        {
            self.threads.named_if_unnamed(woken, moment.ts, comm);
        }
        let utid = woken.map(|life| self.threads.utid(life));
        let row = Wakeup {
            utid,
            waker: waker.map(|life| self.threads.utid(life)),
            prev_cpu: cpu.filter(|_| kind == WAKING),
            target_cpu: cpu,
            kind,
            in_interrupt: fields.common.in_interrupt(raw),
        };
        self.current.wakeups.put(moment, row);
        Some(())
    }

    /// The thread in which a tracepoint fired, unique in the database.
    fn current_utid(&mut self, event: &Event, around: Around<'_>) -> Option<i64> {
        let tid = event.common.current(around.raw).or(around.ids.map(|(_, tid)| tid))?;
        let current = self.threads.now(tid, around.moment.cpu)?;
        Some(self.threads.utid(current))
    }

    #[inline(never)]
    fn rare(&mut self, family: &Family, event: &Event, around: Around<'_>) -> Option<()> {
        let (raw, moment) = (around.raw, around.moment);
        let ts = moment.ts;
        // perf itself also reports forks and names, with the process.
        let is_alone = around.ids.is_none();
        match family {
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
                let leader = pid.id(raw)?;
                self.threads.exec(leader, old_pid.id(raw)?, ts);
                // A thread that has executed a program is the only one of its process.
                if is_alone
                    && let Some(life) = self.threads.now(leader, NO_CPU) {
                    self.threads.belongs(life, leader);
                }
            }
            Family::NewTask { pid, clone_flags } if is_alone => {
                let (tid, flags) = (pid.id(raw)?, clone_flags.read(raw)?);
                let parent = event.common.current(raw).unwrap_or(-1);
                // Without the flag it is the first thread of a process.
                let pid = if flags & CLONE_THREAD == 0 {
                    Some(tid)
                } else {
                    self.threads.pid_of(parent)
                };
                self.threads.fork(Birth::NewTask, tid, pid, Some(ts), parent);
            }
            Family::Rename { pid, newcomm } if is_alone => {
                self.threads.comm((-1, pid.id(raw)?), Some(ts), newcomm.text(raw)?);
            }
            Family::CgroupAttach { hierarchy, pid, path } => {
                let (hierarchy, tid) = (hierarchy.read(raw)?, pid.id(raw)?);
                self.threads.attached(hierarchy, tid, ts, path.text(raw)?);
            }
            Family::Yield => {
                let utid = self.current_utid(event, around);
                self.current.sched_yield(moment, utid);
            }
            Family::SetAffinity { pid } => {
                if let Some(caller) = self.current_utid(event, around) {
                    let target = match pid.id(raw)? {
                        0 => Some(caller),
                        tid => self.threads.now(tid, NO_CPU).map(|life| self.threads.utid(life)),
                    };
                    self.setting.remove(&caller);
                    self.setting.extend(target.map(|target| (caller, target)));
                }
            }
            Family::SetAffinityDone { ret } => {
                let caller = self.current_utid(event, around);
                let target = caller.and_then(|caller| self.setting.remove(&caller));
                // A call that failed has set nothing.
                if ret.read(raw)? == 0
                    && let Some(target) = target
                {
                    self.current.affinity_set(moment, target, caller);
                }
            }
            Family::PageFault => {
                let utid = self.current_utid(event, around);
                self.current.wait_event("page_fault", moment, utid, None);
            }
            Family::DiskIssue(fields) => {
                let utid = self.current_utid(event, around);
                self.current.wait_event("disk_issue", moment, utid, Some(request(fields, raw)?));
            }
            Family::DiskDone(fields) => {
                // The thread that the interrupt of the disk happened to stop has nothing to do
                // with it.
                self.current.wait_event("disk_done", moment, None, Some(request(fields, raw)?));
            }
            Family::Priority { pid, old, new } => {
                let changed = self.threads.now(pid.id(raw)?, NO_CPU);
                let utid = changed.map(|life| self.threads.utid(life));
                let number = |value: Option<i64>| value.and_then(|v| i32::try_from(v).ok());
                let change = (number(old.read(raw)), number(new.read(raw)));
                self.current.priority("dynamic", moment, utid, change);
            }
            Family::SoftirqEntry { vec, names } => {
                let vec = vec.read(raw)?;
                let name = names.iter().find(|(number, _)| *number == vec).map(|(_, name)| &**name);
                let row = self.current.interrupt(moment, "softirq", name);
                self.interrupts.begin(moment.cpu, true, vec, ts, (self.chunk, row));
            }
            Family::IrqEntry { irq, name } => {
                let irq = irq.read(raw)?;
                let row = self.current.interrupt(moment, "irq", name.text(raw).as_deref());
                self.interrupts.begin(moment.cpu, false, irq, ts, (self.chunk, row));
            }
            Family::SoftirqExit { vec, names } => {
                let number = vec.read(raw)?;
                let name = names.iter().find(|(vec, _)| *vec == number).map(|(_, name)| &**name);
                self.interrupt_end(Which { softirq: true, number, name }, moment);
            }
            Family::IrqExit { irq } => {
                let number = irq.read(raw)?;
                self.interrupt_end(Which { softirq: false, number, name: None }, moment);
            }
            Family::VectorEntry { vector, name } => {
                let number = vector_number(vector.read(raw)?);
                let row = self.current.interrupt(moment, "irq", Some(name));
                self.interrupts.begin(moment.cpu, false, number, ts, (self.chunk, row));
            }
            Family::VectorExit { vector, name } => {
                let number = vector_number(vector.read(raw)?);
                self.interrupt_end(Which { softirq: false, number, name: Some(name) }, moment);
            }
            Family::Idle { state, cpu } => {
                let (state, cpu) = (state.read(raw)?, cpu.id(raw)?);
                self.interrupts.is_outside(moment.cpu);
                if (0..CPU_LIMIT).contains(&cpu) {
                    self.idle(state, cpu, ts);
                }
            }
            Family::Frequency { khz, cpu } => {
                let (khz, cpu) = (khz.read(raw)?, cpu.id(raw)?);
                self.current.frequency(ts, cpu, khz);
            }
            Family::NewTask { .. }
            | Family::Rename { .. }
            // Read before all others, since they show what is missing.
            | Family::Hotplug { .. }
            | Family::Switch { .. }
            | Family::Wakeup { .. }
            | Family::Other => {}
        }
        Some(())
    }
}

/// The request in a tracepoint of `block`; `None` if its raw data is too short.
fn request(fields: &DiskFields, raw: &[u8]) -> Option<DiskRequest> {
    Some(DiskRequest {
        device: fields.device.read(raw)?,
        sector: fields.sector.read(raw)?,
        bytes: fields.sectors.read(raw)?.saturating_mul(SECTOR_BYTES),
    })
}

/// Vectors are numbered below 0, so that none looks like the interrupt of a device.
fn vector_number(vector: i64) -> i64 {
    -1 - vector
}
