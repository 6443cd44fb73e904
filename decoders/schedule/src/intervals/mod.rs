//! What several CPUs or threads do at the same moment, computed in one pass over time.
//!
//! The inputs are streams of derived and base rows in time order; the outputs are the tables of
//! `queries/schema/sweeps.sql`. At each moment with a change, the pass applies all changes first.
//! Then every table looks at what changed and ends the rows that no longer apply. Memory is bounded
//! by the number of CPUs, threads, affinity and parking records and chains, not by the length of
//! the recording.

mod affinity;
mod chain;
mod concurrency;
mod continuations;
mod critical_path;
mod fair_share;
mod input;
mod machine;
mod mask;
mod matching;
mod obstacle;
mod overlap;
mod process_concurrency;
mod ready;
mod runnable;
mod sections;
mod serialized;
mod shared_cpus;
mod sharing;
mod tables;
mod threads;
mod time_columns;

use std::cmp::Reverse;
use std::collections::{BinaryHeap, VecDeque};

use crate::chunk::Output;
use affinity::{Affinity, AffinityChange};
use chain::{ChainRules, Chains};
use concurrency::Concurrency;
use continuations::Continuations;
use input::{
    AffinityRow, CpuKind, CpuRow, Cursor, ParkingRow, ReadyRow, Row, SeenRow, ShortIdle, SliceRow,
    StateRow, ThrottledRow, read_all,
};
use machine::Machine;
use obstacle::Judge;
use overlap::Overlap;
use ready::{Begun, Ready};
use serialized::Serialized;
use sharing::Sharing;
use threads::ByThread;

pub use critical_path::critical_path;
pub use input::{Batches, IntervalError, Window};
pub use runnable::{RunnableInputs, summarize};
pub use shared_cpus::Group;
pub use time_columns::TimeColumns;

/// Idle lengths for which the machine-wide matchings are computed.
const THRESHOLDS_NS: [i64; 2] = [0, 100_000];
/// Moments after which the tables are asked for full batches, which takes as long as a moment does.
const MOMENTS: usize = 256;
/// How long before a switch-in an idle CPU counts as leaving its idle state.
const IDLE_EXIT_NS: i64 = 1_000_000;

/// What must be known about a recording besides its rows.
#[derive(Clone, Copy, Debug)]
pub struct Facts {
    /// Recording.
    pub trace_id: i64,
    /// Start of the analyzed window.
    pub first_ns: i64,
    /// End of the analyzed window.
    pub end_ns: i64,
    /// Parking exists on this system, so a CPU of unknown parking is not usable.
    pub parking_needed: bool,
    /// The quantum ends at ticks, as on Linux.
    pub by_tick: bool,
    /// Length of the tick.
    pub tick_ns: i64,
    /// The recording contains `sched_yield`.
    pub yields_recorded: bool,
    /// Some CPU lost records.
    pub lossy: bool,
}

/// The streams, by the names of their row types in this module.
pub struct Inputs {
    /// Topology: cpu, core, type_id, band, online, valid_from_ns.
    pub cpu: Batches,
    /// Allowed CPUs, one per row: utid, valid_from_ns, cpu.
    pub affinity: Batches,
    /// CPUs on which each thread was seen: utid, cpu.
    pub seen: Batches,
    /// Parking in time order: ts, cpu, parked, soft_parked.
    pub parking: Batches,
    /// Threads whose cgroup was throttled in the step: utid, unread.
    pub throttled: Batches,
    /// Idle intervals too short to count that lost records cut off, in time order: ts, dur.
    pub short_idle: Batches,
    /// Idle, unknown and offline states in time order, with the columns of `cpu_state`.
    pub not_running: Batches,
    /// Slices of threads in time order: ts, dur, cpu, utid, ready_from_ns, ended.
    pub slices: Batches,
    /// CPU states in time order: ts, dur, cpu, state, utid.
    pub cpu_state: Batches,
    /// Ready periods in time order: ts, dur, utid, entered_cpu, left_cpu, cut,
    /// left_censored, rate_controlled, unseen.
    pub ready: Batches,
}

/// An event scheduled at a time known in advance.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Timer {
    CpuEnds(usize),
    ReadyEnds(i64),
    ExitBegins(i64, i64),
}

/// A change known before the pass over time.
#[derive(Clone, Copy, Debug)]
enum Change {
    Topology(CpuRow),
    Parking(ParkingRow),
    Affinity(AffinityChange),
}

/// The pass over one recording; iterates over finished batches.
pub struct Intervals {
    facts: Facts,
    machine: Machine,
    affinity: Affinity,
    continuations: Continuations,
    /// Threads of throttled cgroups, and whether that was not read at the end.
    throttled: ByThread<bool>,
    changes: VecDeque<(i64, Change)>,
    timers: BinaryHeap<Reverse<(i64, Timer)>>,
    cpu_state: Cursor<StateRow>,
    cpu_state_ns: i64,
    ready_rows: Cursor<ReadyRow>,
    ready_rows_ns: i64,
    overlap: Overlap,
    sharing: Sharing,
    ready: Ready,
    serialized: Serialized,
    concurrency: Concurrency,
    finished: VecDeque<Output>,
    done: bool,
}

impl Intervals {
    /// Reads the small inputs and the chains. Iterating reads the rest.
    ///
    /// # Errors
    /// A stream fails, lacks a column or is out of order.
    pub fn new(facts: Facts, inputs: Inputs) -> Result<Self, IntervalError> {
        let Facts { trace_id, first_ns, .. } = facts;
        let mut cpus: Vec<CpuRow> = read_all(inputs.cpu)?;
        cpus.sort_by_key(|row| (row.valid_from_ns, row.cpu));
        let mut machine = Machine::new(&cpus, facts.parking_needed);
        let mut changes = Vec::new();
        for row in &cpus {
            match row.valid_from_ns {
                Some(from) if from > first_ns => changes.push((from, Change::Topology(*row))),
                _ => machine.arrange(row),
            }
        }
        machine.rebuild();
        let mut parking: Vec<ParkingRow> = read_all(inputs.parking)?;
        parking.sort_by_key(|row| row.ts);
        for row in &parking {
            match row.ts {
                Some(ts) if ts > first_ns => changes.push((ts, Change::Parking(*row))),
                _ => machine.park(row),
            }
        }
        let affinity_rows: Vec<AffinityRow> = read_all(inputs.affinity)?;
        let seen: Vec<SeenRow> = read_all(inputs.seen)?;
        let place = |cpu| machine.place(cpu);
        let (affinity, later) =
            Affinity::new(affinity_rows, &seen, first_ns, machine.cpus.len(), place);
        changes.extend(later.into_iter().map(|change| (change.ts, Change::Affinity(change))));
        changes.sort_by_key(|(ts, _)| *ts);
        let throttled: Vec<ThrottledRow> = read_all(inputs.throttled)?;
        let short_idle: Vec<ShortIdle> = read_all(inputs.short_idle)?;
        let judge = Judge::new(facts.lossy, &short_idle);
        let continuations = Continuations::read(inputs.not_running)?;
        let rules = ChainRules {
            tick_ns: facts.tick_ns,
            by_tick: facts.by_tick,
            yields_recorded: facts.yields_recorded,
        };
        let mut chains = Chains::new(rules);
        let mut slices = Cursor::<SliceRow>::new(inputs.slices);
        let mut before = i64::MIN;
        while let Some(row) = slices.peek()?.copied() {
            slices.skip();
            in_order::<SliceRow>(row.ts, &mut before)?;
            chains.push(&row);
        }
        let mut intervals = Self {
            overlap: Overlap::new(trace_id, &machine, first_ns)?,
            sharing: Sharing::new(trace_id, machine.cpus.len())?,
            ready: Ready::new(trace_id, affinity.sets.len(), judge)?,
            serialized: Serialized::new(trace_id, chains.finish())?,
            concurrency: Concurrency::new(trace_id, machine.totals, first_ns)?,
            facts,
            machine,
            affinity,
            continuations,
            throttled: throttled.into_iter().map(|row| (row.utid, row.unread)).collect(),
            changes: changes.into(),
            timers: BinaryHeap::new(),
            cpu_state: Cursor::new(inputs.cpu_state),
            cpu_state_ns: i64::MIN,
            ready_rows: Cursor::new(inputs.ready),
            ready_rows_ns: i64::MIN,
            finished: VecDeque::new(),
            done: false,
        };
        intervals.moment(first_ns)?;
        Ok(intervals)
    }

    fn next_batch(&mut self) -> Result<Option<Output>, IntervalError> {
        while self.finished.is_empty() && !self.done {
            for _ in 0..MOMENTS {
                match self.next_ns()? {
                    Some(now_ns) if now_ns < self.facts.end_ns => self.moment(now_ns)?,
                    _ => {
                        self.end();
                        break;
                    }
                }
            }
            self.take()?;
        }
        Ok(self.finished.pop_front())
    }

    /// The next moment at which anything changes.
    fn next_ns(&mut self) -> Result<Option<i64>, IntervalError> {
        let times = [
            self.cpu_state.peek()?.map(|row| row.ts),
            self.ready_rows.peek()?.map(|row| row.ts),
            self.changes.front().map(|(ts, _)| *ts),
            self.timers.peek().map(|Reverse((ts, _))| *ts),
            self.serialized.next_ns(),
        ];
        Ok(times.into_iter().flatten().min())
    }

    /// Applies all changes up to a moment, then updates every table.
    fn moment(&mut self, now_ns: i64) -> Result<(), IntervalError> {
        let allowed_changed = self.apply_known(now_ns);
        self.apply_states(now_ns)?;
        self.apply_timers(now_ns);
        self.apply_ready(now_ns)?;
        self.machine.settle(now_ns, &self.continuations);
        self.overlap.look(&self.machine, now_ns);
        self.sharing.look(&self.machine, &self.affinity, allowed_changed, now_ns);
        self.ready.look(&self.machine, &self.affinity, now_ns);
        self.serialized.look(&self.machine, &self.affinity, &self.ready, now_ns);
        self.concurrency.look(self.machine.totals, self.ready.len(), now_ns);
        self.machine.forget_changes();
        self.ready.forget_changes();
        Ok(())
    }

    /// True if the topology or some thread's allowed CPUs changed.
    fn apply_known(&mut self, now_ns: i64) -> bool {
        let mut changed = false;
        let mut arranged = false;
        while let Some((_, change)) = self.changes.front().filter(|(ts, _)| *ts <= now_ns) {
            let change = *change;
            self.changes.pop_front();
            match change {
                Change::Parking(row) => self.machine.park(&row),
                Change::Affinity(change) => {
                    self.affinity.apply(change);
                    self.ready.change_set(change.utid, change.set);
                    changed = true;
                }
                Change::Topology(row) => {
                    if !arranged {
                        self.overlap.end(&self.machine, now_ns);
                        self.sharing.end(&self.machine, now_ns);
                    }
                    self.machine.arrange(&row);
                    arranged = true;
                }
            }
        }
        if arranged {
            self.machine.rebuild();
            self.overlap.watch(&self.machine, now_ns);
        }
        changed || arranged
    }

    fn apply_states(&mut self, now_ns: i64) -> Result<(), IntervalError> {
        while let Some(row) = self.cpu_state.peek()?.filter(|row| row.ts <= now_ns).copied() {
            self.cpu_state.skip();
            in_order::<StateRow>(row.ts, &mut self.cpu_state_ns)?;
            let end_ns = row.ts.saturating_add(row.dur);
            let Some(at) = self.machine.place(row.cpu) else { continue };
            if row.dur <= 0 || end_ns <= now_ns {
                continue;
            }
            let utid = row.utid.filter(|_| row.state == CpuKind::Thread);
            self.machine.enter(at, now_ns, row.state, utid, end_ns, &self.continuations);
            self.timers.push(Reverse((end_ns, Timer::CpuEnds(at))));
        }
        Ok(())
    }

    fn apply_timers(&mut self, now_ns: i64) {
        while let Some(Reverse((ts, timer))) = self.timers.peek().copied() {
            if ts > now_ns {
                return;
            }
            self.timers.pop();
            match timer {
                // Nothing follows, so this CPU's states have a gap.
                Timer::CpuEnds(at) if self.machine.cpus[at].end_ns <= now_ns => {
                    let kind = CpuKind::Unknown;
                    self.machine.enter(at, now_ns, kind, None, i64::MAX, &self.continuations);
                }
                Timer::CpuEnds(_) => {}
                Timer::ReadyEnds(utid) => self.ready.finish(utid, now_ns),
                Timer::ExitBegins(utid, end_ns) => self.ready.begin_exit(utid, end_ns),
            }
        }
    }

    fn apply_ready(&mut self, now_ns: i64) -> Result<(), IntervalError> {
        while let Some(row) = self.ready_rows.peek()?.filter(|row| row.ts <= now_ns).copied() {
            self.ready_rows.skip();
            in_order::<ReadyRow>(row.ts, &mut self.ready_rows_ns)?;
            let end_ns = row.ts.saturating_add(row.dur);
            if row.dur <= 0 || end_ns <= now_ns {
                continue;
            }
            // Interrupt work at the same moment also runs in the idle thread.
            let to_idle = |at: &usize| {
                matches!(self.machine.cpus[*at].kind, CpuKind::Idle | CpuKind::Interrupt)
            };
            let left = row.left_cpu.and_then(|cpu| self.machine.place(cpu));
            let begun = Begun {
                utid: row.utid,
                ready_ns: row.ts,
                end_ns,
                enters: row.entered_cpu.and_then(|cpu| self.machine.place(cpu)),
                entered_cpu: row.entered_cpu,
                left: left.filter(to_idle),
                cut: row.cut,
                left_censored: row.left_censored,
                rate_controlled: row.rate_controlled,
                cgroup_throttled: self.throttled.contains_key(&row.utid),
                unread: self.throttled.get(&row.utid).copied().unwrap_or(false),
                unseen: row.unseen,
            };
            if !self.ready.begin(begun, &self.affinity, now_ns) {
                continue;
            }
            self.timers.push(Reverse((end_ns, Timer::ReadyEnds(row.utid))));
            if begun.enters.is_some() || begun.cut {
                let exit_ns = end_ns.saturating_sub(IDLE_EXIT_NS);
                if exit_ns <= now_ns {
                    self.ready.begin_exit(row.utid, end_ns);
                } else {
                    self.timers.push(Reverse((exit_ns, Timer::ExitBegins(row.utid, end_ns))));
                }
            }
        }
        Ok(())
    }

    fn end(&mut self) {
        let end_ns = self.facts.end_ns;
        self.overlap.end(&self.machine, end_ns);
        self.sharing.end(&self.machine, end_ns);
        self.ready.end(end_ns);
        self.serialized.end(end_ns);
        self.concurrency.end(end_ns);
        self.done = true;
    }

    fn take(&mut self) -> Result<(), IntervalError> {
        let mut found = Vec::new();
        self.overlap.take(self.done, &mut found)?;
        self.sharing.take(self.done, &mut found)?;
        self.ready.take(self.done, &mut found)?;
        self.serialized.take(self.done, &mut found)?;
        self.concurrency.take(self.done, &mut found)?;
        self.finished.extend(found);
        Ok(())
    }
}

impl Iterator for Intervals {
    type Item = Result<Output, IntervalError>;

    fn next(&mut self) -> Option<Self::Item> {
        let next = self.next_batch();
        if next.is_err() {
            self.done = true;
        }
        next.transpose()
    }
}

fn in_order<R: Row>(ts: i64, before: &mut i64) -> Result<(), IntervalError> {
    if ts < *before {
        return Err(IntervalError::Order { input: R::INPUT, ts, before: *before });
    }
    *before = ts;
    Ok(())
}
