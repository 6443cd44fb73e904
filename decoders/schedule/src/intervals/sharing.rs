//! Threads that run with their SMT sibling busy while a whole core is idle: `sharing_slice` and
//! `avoidable_match`.

use arrow_schema::ArrowError;

use super::THRESHOLDS_NS;
use super::affinity::Affinity;
use super::input::CpuKind;
use super::machine::Machine;
use super::mask::Mask;
use super::matching::{self, Item};
use super::tables::{Table, Value};
use crate::chunk::Output;

/// The idle cores a thread could use: the longest idle interval of each kind of core.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Choice {
    same_type_ns: Option<i64>,
    any_type_ns: Option<i64>,
    soft_parked_ns: Option<i64>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Share {
    utid: i64,
    set: usize,
    known: bool,
    choice: Choice,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Matched {
    same_type: u32,
    any_type: u32,
}

/// The open rows of both tables.
pub struct Sharing {
    trace_id: i64,
    shares: Vec<Option<(i64, Share)>>,
    matched: [(i64, Matched); 2],
    sharing_slice: Table,
    avoidable_match: Table,
}

impl Sharing {
    /// Starts without sharing threads.
    pub fn new(trace_id: i64, cpus: usize) -> Result<Self, ArrowError> {
        Ok(Self {
            trace_id,
            shares: vec![None; cpus],
            matched: [(0, Matched::default()); 2],
            sharing_slice: Table::new("sharing_slice")?,
            avoidable_match: Table::new("avoidable_match")?,
        })
    }

    /// Updates what changed, or everything if some thread's allowed CPUs changed.
    pub fn look(&mut self, machine: &Machine, affinity: &Affinity, all: bool, now_ns: i64) {
        let mut changed = false;
        for core in machine.dirty.iter().copied() {
            changed |= self.look_at(machine, affinity, core, now_ns);
        }
        if machine.idle_cores_changed || all {
            for core in machine.shared_cores.iter() {
                self.look_at(machine, affinity, core, now_ns);
            }
            changed = true;
        }
        if changed {
            for (at, min_idle_ns) in THRESHOLDS_NS.into_iter().enumerate() {
                let found = self.match_all(machine, affinity, min_idle_ns);
                if found != self.matched[at].1 {
                    self.write_matched(at, now_ns);
                    self.matched[at] = (now_ns, found);
                }
            }
        }
    }

    /// Ends all rows.
    pub fn end(&mut self, machine: &Machine, now_ns: i64) {
        for at in 0..self.shares.len() {
            self.write_share(machine, at, now_ns);
            self.shares[at] = None;
        }
        for at in 0..THRESHOLDS_NS.len() {
            self.write_matched(at, now_ns);
            self.matched[at] = (now_ns, Matched::default());
        }
    }

    /// Finished batches; with `all`, also a partly filled one.
    pub fn take(&mut self, all: bool, into: &mut Vec<Output>) -> Result<(), ArrowError> {
        for table in [&mut self.sharing_slice, &mut self.avoidable_match] {
            table.take(all, into)?;
        }
        Ok(())
    }

    /// True if the threads that share, or their choice, changed.
    fn look_at(
        &mut self,
        machine: &Machine,
        affinity: &Affinity,
        core: usize,
        now_ns: i64,
    ) -> bool {
        let shared = machine.shared_cores.has(core);
        let mut changed = false;
        for at in machine.cores[core].members.iter().copied() {
            let cpu = &machine.cpus[at];
            let utid = cpu.utid.filter(|_| shared && cpu.kind == CpuKind::Thread);
            let share = utid.map(|utid| {
                let set = affinity.set_of(utid);
                let allowed = &affinity.sets[set];
                let choice = choice(machine, &allowed.cpus, machine.cores[core].type_id);
                Share { utid, set, known: allowed.known, choice }
            });
            if share != self.shares[at].map(|(_, share)| share) {
                self.write_share(machine, at, now_ns);
                self.shares[at] = share.map(|share| (now_ns, share));
                changed = true;
            }
        }
        changed
    }

    fn match_all(&self, machine: &Machine, affinity: &Affinity, min_idle_ns: i64) -> Matched {
        if machine.shared_cores.is_empty() {
            return Matched::default();
        }
        let mut idle = Mask::new(machine.cores.len());
        for core in machine.idle_cores.iter() {
            let long = machine.cores[core].idle_ns.is_some_and(|length| length >= min_idle_ns);
            idle.set(core, long);
        }
        if idle.is_empty() {
            return Matched::default();
        }
        let find = |same_type: bool| {
            let mut limits = Vec::new();
            let mut items = Vec::new();
            let mut places = Mask::new(machine.cores.len());
            for shared in machine.shared_cores.iter() {
                let core = &machine.cores[shared];
                for at in core.members.iter().copied() {
                    let Some((_, share)) = &self.shares[at] else { continue };
                    let allowed = &affinity.sets[share.set].cpus;
                    let mut own = Mask::new(machine.cores.len());
                    for to in idle.iter() {
                        let target = &machine.cores[to];
                        let fits = !same_type || same(core.type_id, target.type_id);
                        if fits && target.mask.meets_both(allowed, &machine.usable) {
                            own.set(to, true);
                            places.set(to, true);
                        }
                    }
                    if !own.is_empty() {
                        items.push(Item { group: limits.len(), limit: 1, places: own });
                    }
                }
                limits.push(u32::try_from(core.counts.busy - 1).unwrap_or(0));
            }
            matching::largest(&limits, &items, &places)
        };
        Matched { same_type: find(true), any_type: find(false) }
    }

    fn write_share(&mut self, machine: &Machine, at: usize, now_ns: i64) {
        let Some((since_ns, share)) = self.shares[at].filter(|(since, _)| *since < now_ns) else {
            return;
        };
        self.sharing_slice.push(&[
            Value::Long(self.trace_id),
            Value::Long(share.utid),
            Value::Int(machine.cpus[at].number),
            Value::Long(since_ns),
            Value::Long(now_ns - since_ns),
            Value::OptLong(share.choice.same_type_ns),
            Value::OptLong(share.choice.any_type_ns),
            Value::OptLong(share.choice.soft_parked_ns),
            Value::Flag(share.known),
        ]);
    }

    fn write_matched(&mut self, at: usize, now_ns: i64) {
        let (since_ns, matched) = self.matched[at];
        if since_ns < now_ns && matched != Matched::default() {
            self.avoidable_match.push(&[
                Value::Long(self.trace_id),
                Value::Long(since_ns),
                Value::Long(now_ns - since_ns),
                Value::Long(THRESHOLDS_NS[at]),
                Value::Int(i32::try_from(matched.same_type).unwrap_or(i32::MAX)),
                Value::Int(i32::try_from(matched.any_type).unwrap_or(i32::MAX)),
            ]);
        }
    }
}

/// Unknown core types never compare equal.
fn same(a: Option<i32>, b: Option<i32>) -> bool {
    a.is_some() && a == b
}

fn choice(machine: &Machine, allowed: &Mask, type_id: Option<i32>) -> Choice {
    let mut choice = Choice::default();
    for at in machine.idle_cores.iter() {
        let core = &machine.cores[at];
        if core.mask.meets_both(allowed, &machine.usable) {
            choice.any_type_ns = choice.any_type_ns.max(core.idle_ns);
            if same(type_id, core.type_id) {
                choice.same_type_ns = choice.same_type_ns.max(core.idle_ns);
            }
        } else if core.mask.meets_both(allowed, &machine.idle_soft) {
            choice.soft_parked_ns = choice.soft_parked_ns.max(core.idle_ns);
        }
    }
    choice
}
