//! What each logical CPU and each core does at one moment.

use std::collections::BTreeSet;

use super::continuations::{Continuations, Part};
use super::input::{CpuKind, CpuRow, ParkingRow};
use super::mask::Mask;

/// One logical CPU.
#[derive(Debug)]
pub struct Cpu {
    /// Its number in the recording.
    pub number: i32,
    /// Index of its core.
    pub core: usize,
    /// What it does.
    pub kind: CpuKind,
    /// Its thread, if kind is thread.
    pub utid: Option<i64>,
    /// Start of its state.
    pub start_ns: i64,
    /// End of its state.
    pub end_ns: i64,
    /// Known length of its current idle interval.
    pub idle_ns: i64,
    /// Unknown time adjoins the idle interval, so it may be longer.
    idle_open: bool,
    type_id: Option<i32>,
    band: i8,
}

/// Busy CPUs of a core and similar counts, as in `core_state`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct CoreCounts {
    /// CPUs online.
    pub online: i32,
    /// CPUs in state unknown.
    pub unknown: i32,
    /// Busy CPUs.
    pub busy: i32,
    /// CPUs that run a thread.
    pub threads: i32,
}

/// One core. A CPU of unknown core is a core by itself, without a number.
#[derive(Debug)]
pub struct Core {
    /// Its number in the recording.
    pub number: Option<i32>,
    /// Indexes of its CPUs, by rising CPU number.
    pub members: Vec<usize>,
    /// The same as a set.
    pub mask: Mask,
    /// Its core type, if known.
    pub type_id: Option<i32>,
    /// What its CPUs do.
    pub counts: CoreCounts,
    /// Length of the idle interval of the whole core, if it is idle as a whole.
    pub idle_ns: Option<i64>,
    band: i8,
    dirty: bool,
}

/// Busy CPUs of the whole machine and similar counts, as in `concurrency_slice`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Totals {
    /// Busy CPUs.
    pub busy: i32,
    /// CPUs in state unknown.
    pub unknown: i32,
    /// CPUs that are not offline.
    pub online: i32,
    /// Busy cores by band: P or U, E or LP-E, other.
    pub bands: [i32; 3],
    /// Busy CPUs beyond the first of their core.
    pub smt: i32,
}

/// All CPUs and cores at one moment.
#[derive(Debug)]
pub struct Machine {
    /// By rising number.
    pub cpus: Vec<Cpu>,
    /// By rising number, then those without one.
    pub cores: Vec<Core>,
    /// Sums over the machine.
    pub totals: Totals,
    /// Idle CPUs.
    pub idle: Mask,
    /// CPUs in state unknown.
    pub unknown: Mask,
    /// Idle CPUs that are neither parked nor soft-parked.
    pub usable: Mask,
    /// Idle CPUs that are soft-parked and not parked.
    pub idle_soft: Mask,
    /// Idle CPUs that are parked or soft-parked.
    pub idle_parked: Mask,
    /// CPUs in state unknown, and idle ones with unknown parking or unknown length of idle time.
    pub uncertain: Mask,
    /// Cores that are idle as a whole.
    pub idle_cores: Mask,
    /// Cores with more than one busy CPU, one of which runs a thread.
    pub shared_cores: Mask,
    /// Cores that had a CPU change at this moment.
    pub dirty: Vec<usize>,
    /// An idle core, or a CPU of one, changed at this moment.
    pub idle_cores_changed: bool,
    /// An idle or unknown CPU changed at this moment.
    pub idle_changed: bool,
    parked: Mask,
    soft_parked: Mask,
    parking_unknown: Mask,
    parking_needed: bool,
    core_numbers: Vec<i32>,
    places: Vec<usize>,
}

const NO_PLACE: usize = usize::MAX;
/// CPU numbers up to this are looked up in a table; larger ones are searched.
const TABLE: usize = 1 << 16;

impl Machine {
    /// All CPUs of the rows, each in state unknown. With `parking_needed`, a CPU of unknown parking
    /// is not usable.
    pub fn new(rows: &[CpuRow], parking_needed: bool) -> Self {
        let numbers: BTreeSet<i32> = rows.iter().map(|row| row.cpu).collect();
        let core_numbers: BTreeSet<i32> = rows.iter().filter_map(|row| row.core).collect();
        let len = numbers.len();
        let cores_len = core_numbers.len() + len;
        let mut places = Vec::new();
        let mut cpus = Vec::new();
        for (at, number) in numbers.iter().copied().enumerate() {
            if let Ok(slot) = usize::try_from(number)
                && slot < TABLE
            {
                places.resize(places.len().max(slot + 1), NO_PLACE);
                places[slot] = at;
            }
            cpus.push(Cpu {
                number,
                core: core_numbers.len() + at,
                kind: CpuKind::Unknown,
                utid: None,
                start_ns: i64::MIN,
                end_ns: i64::MAX,
                idle_ns: 0,
                idle_open: false,
                type_id: None,
                band: 2,
            });
        }
        let core = |number| Core {
            number,
            members: Vec::new(),
            mask: Mask::new(len),
            type_id: None,
            counts: CoreCounts::default(),
            idle_ns: None,
            band: 2,
            dirty: false,
        };
        let numbered = core_numbers.iter().map(|number| core(Some(*number)));
        let cores = numbered.chain(numbers.iter().map(|_| core(None))).collect();
        let mut parking_unknown = Mask::new(len);
        for at in 0..len {
            parking_unknown.set(at, parking_needed);
        }
        let mut machine = Self {
            cpus,
            cores,
            totals: Totals::default(),
            idle: Mask::new(len),
            unknown: Mask::new(len),
            usable: Mask::new(len),
            idle_soft: Mask::new(len),
            idle_parked: Mask::new(len),
            uncertain: Mask::new(len),
            idle_cores: Mask::new(cores_len),
            shared_cores: Mask::new(cores_len),
            dirty: Vec::new(),
            idle_cores_changed: false,
            idle_changed: true,
            parked: Mask::new(len),
            soft_parked: Mask::new(len),
            parking_unknown,
            parking_needed,
            core_numbers: core_numbers.into_iter().collect(),
            places,
        };
        machine.rebuild();
        machine
    }

    /// Index of a CPU number.
    pub fn place(&self, number: i32) -> Option<usize> {
        match usize::try_from(number) {
            Ok(slot) if slot < TABLE => {
                self.places.get(slot).copied().filter(|place| *place != NO_PLACE)
            }
            _ => self.cpus.binary_search_by_key(&number, |cpu| cpu.number).ok(),
        }
    }

    /// Assigns CPUs to their cores; call [`Machine::rebuild`] afterwards.
    pub fn arrange(&mut self, row: &CpuRow) {
        let Some(at) = self.place(row.cpu) else { return };
        let core = row.core.and_then(|number| self.core_numbers.binary_search(&number).ok());
        let alone = self.core_numbers.len() + at;
        let cpu = &mut self.cpus[at];
        cpu.core = core.unwrap_or(alone);
        cpu.type_id = row.type_id;
        cpu.band = row.band;
        // Only a CPU without any state so far takes its state from the topology.
        if cpu.start_ns == i64::MIN {
            let offline = row.online == Some(false);
            cpu.kind = if offline { CpuKind::Offline } else { CpuKind::Unknown };
        }
    }

    /// Recounts everything after CPUs changed their cores.
    pub fn rebuild(&mut self) {
        for core in &mut self.cores {
            core.members.clear();
            core.mask.clear();
            core.counts = CoreCounts::default();
            core.idle_ns = None;
        }
        self.totals = Totals::default();
        self.idle_cores.clear();
        self.idle_cores_changed = true;
        self.shared_cores.clear();
        self.idle.clear();
        self.unknown.clear();
        for at in 0..self.cpus.len() {
            let cpu = &self.cpus[at];
            let core = &mut self.cores[cpu.core];
            if core.members.is_empty() {
                core.type_id = cpu.type_id;
                core.band = cpu.band;
            }
            core.members.push(at);
            core.mask.set(at, true);
            let (core, kind) = (cpu.core, cpu.kind);
            self.count(core, kind, 1);
            self.idle.set(at, kind == CpuKind::Idle);
            self.unknown.set(at, kind == CpuKind::Unknown);
        }
        for core in 0..self.cores.len() {
            self.mark(core);
        }
        self.idle_changed = true;
    }

    /// Applies a parking record.
    pub fn park(&mut self, row: &ParkingRow) {
        let Some(at) = self.place(row.cpu) else { return };
        let unknown = match (row.parked, row.soft_parked) {
            (None, Some(true)) | (Some(_), _) => false,
            (None, _) => self.parking_needed,
        };
        self.parked.set(at, row.parked == Some(true));
        self.soft_parked.set(at, row.soft_parked == Some(true));
        self.parking_unknown.set(at, unknown);
        let core = self.cpus[at].core;
        self.mark(core);
        self.idle_changed = true;
    }

    /// A CPU enters a state at `now_ns`.
    pub fn enter(
        &mut self,
        at: usize,
        now_ns: i64,
        kind: CpuKind,
        utid: Option<i64>,
        end_ns: i64,
        continuations: &Continuations,
    ) {
        let cpu = &mut self.cpus[at];
        let (old, core) = (cpu.kind, cpu.core);
        cpu.end_ns = end_ns;
        let first = cpu.start_ns == i64::MIN;
        cpu.start_ns = now_ns;
        if !first && old == kind && cpu.utid == utid {
            return;
        }
        cpu.utid = utid;
        if kind == CpuKind::Idle && old != CpuKind::Idle {
            let idle_end_ns = continuations.idle_end(cpu.number, end_ns);
            cpu.idle_ns = idle_end_ns.saturating_sub(now_ns);
            cpu.idle_open = !first && old == CpuKind::Unknown
                || continuations.is_unknown_from(cpu.number, idle_end_ns);
        }
        if old != kind {
            cpu.kind = kind;
            self.count(core, old, -1);
            self.count(core, kind, 1);
            self.idle.set(at, kind == CpuKind::Idle);
            self.unknown.set(at, kind == CpuKind::Unknown);
            let affects = |kind| matches!(kind, CpuKind::Idle | CpuKind::Unknown);
            self.idle_changed |= affects(old) || affects(kind);
        }
        self.mark(core);
    }

    /// Updates the derived sets after all changes of a moment.
    pub fn settle(&mut self, now_ns: i64, continuations: &Continuations) {
        if self.idle_changed {
            for at in 0..self.cpus.len() {
                let idle = self.idle.has(at);
                let (parked, soft) = (self.parked.has(at), self.soft_parked.has(at));
                let parking_unknown = self.parking_unknown.has(at);
                let open = self.cpus[at].idle_open;
                self.usable.set(at, idle && !parked && !soft && !parking_unknown);
                self.idle_soft.set(at, idle && soft && !parked);
                self.idle_parked.set(at, idle && (parked || soft));
                self.uncertain.set(at, self.unknown.has(at) || idle && (parking_unknown || open));
            }
        }
        for place in 0..self.dirty.len() {
            let at = self.dirty[place];
            let core = &mut self.cores[at];
            core.dirty = false;
            let counts = core.counts;
            let before = core.idle_ns.is_some();
            let idle = core.number.is_some()
                && counts.online > 0
                && counts.busy == 0
                && counts.unknown == 0;
            if idle && !before {
                let parts = core.members.iter().map(|member| {
                    let cpu = &self.cpus[*member];
                    let offline = cpu.kind == CpuKind::Offline;
                    (cpu.number, Part { start_ns: cpu.start_ns, end_ns: cpu.end_ns, offline })
                });
                core.idle_ns = Some(continuations.core_end(parts).saturating_sub(now_ns));
            } else if !idle {
                core.idle_ns = None;
            }
            self.idle_cores_changed |= before || idle;
            self.idle_cores.set(at, idle);
            let shared = core.number.is_some() && counts.busy >= 2 && counts.threads >= 1;
            self.shared_cores.set(at, shared);
        }
    }

    /// Starts the next moment.
    pub fn forget_changes(&mut self) {
        self.dirty.clear();
        self.idle_cores_changed = false;
        self.idle_changed = false;
    }

    fn mark(&mut self, core: usize) {
        if !self.cores[core].dirty && !self.cores[core].members.is_empty() {
            self.cores[core].dirty = true;
            self.dirty.push(core);
        }
    }

    /// Adds or removes one CPU of a kind.
    fn count(&mut self, at: usize, kind: CpuKind, by: i32) {
        let core = &mut self.cores[at];
        let busy_before = core.counts.busy;
        core.counts.online += if kind == CpuKind::Offline { 0 } else { by };
        core.counts.unknown += if kind == CpuKind::Unknown { by } else { 0 };
        core.counts.busy += if kind.is_busy() { by } else { 0 };
        core.counts.threads += if kind == CpuKind::Thread { by } else { 0 };
        let busy = core.counts.busy;
        let band = usize::try_from(core.band).unwrap_or(2).min(2);
        self.totals.unknown += if kind == CpuKind::Unknown { by } else { 0 };
        self.totals.online += if kind == CpuKind::Offline { 0 } else { by };
        self.totals.busy += busy - busy_before;
        self.totals.bands[band] += i32::from(busy > 0) - i32::from(busy_before > 0);
        self.totals.smt += (busy - 1).max(0) - (busy_before - 1).max(0);
    }
}
