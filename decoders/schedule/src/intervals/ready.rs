//! Ready threads and why they did not run: `ready_slice` and `ready_match`.

use arrow_schema::ArrowError;

use super::THRESHOLDS_NS;
use super::affinity::{Affinity, Allowed};
use super::input::CpuKind;
use super::machine::Machine;
use super::mask::Mask;
use super::matching::{self, Item};
use super::obstacle::{Judge, Part};
use super::tables::{Table, Value};
use super::threads::ByThread;
use crate::chunk::Output;

/// What a set of allowed CPUs offers at this moment.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Offer {
    idle_ns: Option<i64>,
    parked_ns: Option<i64>,
    uncertain: bool,
    /// Longest idle interval of a usable CPU outside the set.
    outside_ns: Option<i64>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Obstacle {
    throttled: bool,
    idle_exit: bool,
    offer: Offer,
    known: bool,
}

/// A ready period that has begun.
#[derive(Clone, Copy, Debug)]
pub struct Begun {
    /// Thread.
    pub utid: i64,
    /// Its recorded start, which may be before the window.
    pub ready_ns: i64,
    /// Its end.
    pub end_ns: i64,
    /// Index of the CPU on which it will be switched in.
    pub enters: Option<usize>,
    /// Recorded number of that CPU.
    pub entered_cpu: Option<i32>,
    /// Index of the CPU that it left runnable to the idle thread.
    pub left: Option<usize>,
    /// Lost events hide its end: the switch-in may follow at once, on any CPU.
    pub cut: bool,
    /// Its start was not seen: it may have left any CPU runnable to the idle thread.
    pub left_censored: bool,
    /// It waits because of CPU rate control.
    pub rate_controlled: bool,
    /// Its cgroup's throttled time grew in the step.
    pub cgroup_throttled: bool,
    /// Its cgroup's throttled time was not read at the end.
    pub unread: bool,
    /// Its switch-in was not seen, and its state is unknown afterwards.
    pub unseen: bool,
}

struct Slot {
    begun: Begun,
    set: usize,
    exiting: bool,
    since_ns: i64,
    obstacle: Option<Obstacle>,
    /// It counts among the threads that an idle CPU would help.
    eligible: bool,
}

#[derive(Clone, Default)]
struct Class {
    open: u32,
    eligible: u32,
    offer: Offer,
    changed: bool,
}

/// The open rows of both tables.
pub struct Ready {
    trace_id: i64,
    judge: Judge,
    slots: ByThread<Slot>,
    /// Threads whose obstacle depends on one specific CPU.
    special: Vec<i64>,
    fresh: Vec<i64>,
    classes: Vec<Class>,
    active: Vec<usize>,
    matched: [(i64, u32); 2],
    changed: bool,
    ready_slice: Table,
    ready_match: Table,
}

impl Ready {
    /// Starts without ready threads; `sets` is the number of distinct sets of allowed CPUs.
    pub fn new(trace_id: i64, sets: usize, judge: Judge) -> Result<Self, ArrowError> {
        Ok(Self {
            trace_id,
            judge,
            slots: ByThread::default(),
            special: Vec::new(),
            fresh: Vec::new(),
            classes: vec![Class::default(); sets],
            active: Vec::new(),
            matched: [(0, 0); 2],
            changed: false,
            ready_slice: Table::new("ready_slice")?,
            ready_match: Table::new("ready_match")?,
        })
    }

    /// Number of ready threads.
    pub fn len(&self) -> usize {
        self.slots.len()
    }

    /// The set of allowed CPUs of a thread, if it is ready and not throttled.
    pub fn set_of(&self, utid: i64) -> Option<usize> {
        let slot = self.slots.get(&utid)?;
        let throttled = slot.begun.cgroup_throttled || slot.obstacle?.throttled;
        (!throttled).then_some(slot.set)
    }

    /// Whether some thread became ready or stopped being ready at this moment.
    pub fn has_changed(&self) -> bool {
        self.changed
    }

    /// A thread becomes ready; a thread that is already ready is left unchanged.
    pub fn begin(&mut self, begun: Begun, affinity: &Affinity, now_ns: i64) -> bool {
        if self.slots.contains_key(&begun.utid) {
            return false;
        }
        let set = affinity.set_of(begun.utid);
        if begun.left.is_some() {
            self.special.push(begun.utid);
        }
        self.enlist(set);
        self.fresh.push(begun.utid);
        let slot =
            Slot { begun, set, exiting: false, since_ns: now_ns, obstacle: None, eligible: false };
        self.slots.insert(begun.utid, slot);
        self.changed = true;
        true
    }

    /// The last millisecond before a thread's switch-in begins.
    pub fn begin_exit(&mut self, utid: i64, end_ns: i64) {
        if let Some(slot) = self.slots.get_mut(&utid)
            && slot.begun.end_ns == end_ns
            && !slot.exiting
        {
            slot.exiting = true;
            if slot.begun.left.is_none() {
                self.special.push(utid);
            }
            self.fresh.push(utid);
        }
    }

    /// A thread stops being ready, if this is the end of its period.
    pub fn finish(&mut self, utid: i64, now_ns: i64) {
        if self.slots.get(&utid).is_some_and(|slot| slot.begun.end_ns <= now_ns) {
            self.close(utid, now_ns);
        }
    }

    /// The allowed CPUs of a thread changed.
    pub fn change_set(&mut self, utid: i64, set: usize) {
        let Some(slot) = self.slots.get_mut(&utid).filter(|slot| slot.set != set) else { return };
        let before = slot.set;
        slot.set = set;
        let eligible = std::mem::take(&mut slot.eligible);
        self.delist(before, eligible);
        self.enlist(set);
        self.fresh.push(utid);
        self.changed = true;
    }

    /// Updates the rows after a change.
    pub fn look(&mut self, machine: &Machine, affinity: &Affinity, now_ns: i64) {
        let mut any = false;
        if machine.idle_changed {
            for set in self.active.iter().copied() {
                let offer = offer(machine, &affinity.sets[set]);
                let class = &mut self.classes[set];
                class.changed = offer != class.offer;
                class.offer = offer;
                any |= class.changed;
            }
        } else {
            for utid in &self.fresh {
                let Some(slot) = self.slots.get(utid) else { continue };
                self.classes[slot.set].offer = offer(machine, &affinity.sets[slot.set]);
            }
        }
        let mut view = View {
            machine,
            affinity,
            classes: &mut self.classes,
            judge: &self.judge,
            table: &mut self.ready_slice,
        };
        let mut changed = self.changed;
        if any {
            for slot in self.slots.values_mut() {
                if view.classes[slot.set].changed || slot.obstacle.is_none() {
                    changed |= view.look_at(self.trace_id, slot, now_ns);
                }
            }
        }
        if machine.idle_changed {
            for utid in &self.special {
                if let Some(slot) = self.slots.get_mut(utid) {
                    changed |= view.look_at(self.trace_id, slot, now_ns);
                }
            }
        }
        for utid in self.fresh.drain(..) {
            if let Some(slot) = self.slots.get_mut(&utid) {
                changed |= view.look_at(self.trace_id, slot, now_ns);
            }
        }
        if any {
            for set in self.active.iter().copied() {
                self.classes[set].changed = false;
            }
        }
        if changed || machine.idle_changed {
            self.match_again(machine, affinity, now_ns);
        }
    }

    /// Starts the next moment.
    pub fn forget_changes(&mut self) {
        self.changed = false;
    }

    /// Ends all rows.
    pub fn end(&mut self, now_ns: i64) {
        let mut open: Vec<i64> = self.slots.keys().copied().collect();
        open.sort_unstable();
        for utid in open {
            self.close(utid, now_ns);
        }
        for at in 0..THRESHOLDS_NS.len() {
            self.write_matched(at, now_ns);
            self.matched[at] = (now_ns, 0);
        }
    }

    /// Finished batches; with `all`, also a partly filled one.
    pub fn take(&mut self, all: bool, into: &mut Vec<Output>) -> Result<(), ArrowError> {
        for table in [&mut self.ready_slice, &mut self.ready_match] {
            table.take(all, into)?;
        }
        Ok(())
    }

    fn close(&mut self, utid: i64, now_ns: i64) {
        let Some(slot) = self.slots.remove(&utid) else { return };
        write_slot(&mut self.ready_slice, &self.judge, self.trace_id, &slot, now_ns);
        self.delist(slot.set, slot.eligible);
        if slot.begun.left.is_some() || slot.exiting {
            self.special.retain(|other| *other != utid);
        }
        self.changed = true;
    }

    fn enlist(&mut self, set: usize) {
        if self.classes[set].open == 0 {
            self.active.push(set);
        }
        self.classes[set].open += 1;
    }

    fn delist(&mut self, set: usize, eligible: bool) {
        let class = &mut self.classes[set];
        class.open -= 1;
        class.eligible -= u32::from(eligible);
        if class.open == 0 {
            self.active.retain(|other| *other != set);
        }
    }

    fn match_again(&mut self, machine: &Machine, affinity: &Affinity, now_ns: i64) {
        for (at, min_idle_ns) in THRESHOLDS_NS.into_iter().enumerate() {
            let found = self.match_all(machine, affinity, min_idle_ns);
            if found != self.matched[at].1 {
                self.write_matched(at, now_ns);
                self.matched[at] = (now_ns, found);
            }
        }
    }

    fn match_all(&self, machine: &Machine, affinity: &Affinity, min_idle_ns: i64) -> u32 {
        let helped = |class: &Class| {
            class.eligible > 0 && class.offer.idle_ns.is_some_and(|idle| idle >= min_idle_ns)
        };
        let mut sets: Vec<usize> = Vec::new();
        sets.extend(self.active.iter().copied().filter(|set| helped(&self.classes[*set])));
        if sets.is_empty() {
            return 0;
        }
        let mut idle = machine.usable.clone();
        for cpu in machine.usable.iter() {
            idle.set(cpu, machine.cpus[cpu].idle_ns >= min_idle_ns);
        }
        let mut items = Vec::with_capacity(sets.len());
        let mut limits = Vec::with_capacity(sets.len());
        let mut places = Mask::new(machine.cpus.len());
        for set in sets {
            let mut own = idle.clone();
            own.assign_and(&idle, &affinity.sets[set].cpus);
            for cpu in own.iter() {
                places.set(cpu, true);
            }
            let limit = self.classes[set].eligible;
            items.push(Item { group: limits.len(), limit, places: own });
            limits.push(limit);
        }
        matching::largest(&limits, &items, &places)
    }

    fn write_matched(&mut self, at: usize, now_ns: i64) {
        let (since_ns, threads) = self.matched[at];
        if since_ns < now_ns && threads > 0 {
            self.ready_match.push(&[
                Value::Long(self.trace_id),
                Value::Long(since_ns),
                Value::Long(now_ns - since_ns),
                Value::Long(THRESHOLDS_NS[at]),
                Value::Int(i32::try_from(threads).unwrap_or(i32::MAX)),
            ]);
        }
    }
}

/// The data used to classify one ready thread.
struct View<'a> {
    machine: &'a Machine,
    affinity: &'a Affinity,
    classes: &'a mut [Class],
    judge: &'a Judge,
    table: &'a mut Table,
}

impl View<'_> {
    fn look_at(&mut self, trace_id: i64, slot: &mut Slot, now_ns: i64) -> bool {
        let idle = |cpu: usize| self.machine.cpus[cpu].kind == CpuKind::Idle;
        // A thread also leaves a parked CPU to the idle thread; that is not throttling.
        let unparked = |cpu: usize| self.machine.usable.has(cpu);
        let begun = &slot.begun;
        let mut offer = self.classes[slot.set].offer;
        // The thread may have been switched in on the idle CPU in the lost time, which makes this
        // idle_exit.
        let hidden_exit = slot.exiting
            && begun.enters.is_none()
            && (offer.idle_ns.is_some() || offer.parked_ns.is_some());
        let throttled = begun.rate_controlled || begun.left.is_some_and(unparked);
        // It may be unknown whether the CPU that it left to the idle thread is parked.
        let to_idle = slot.exiting && begun.enters.is_some_and(idle);
        let is_one_idle = to_idle || offer.idle_ns.is_some() || offer.parked_ns.is_some();
        // So it may be whether it left a CPU at all, and which.
        let hidden_quota = !throttled
            && (begun.left.is_some_and(|cpu| self.machine.uncertain.has(cpu))
                || begun.left_censored && is_one_idle);
        let hidden = hidden_exit || hidden_quota;
        if hidden {
            offer = Offer { uncertain: true, idle_ns: None, parked_ns: None, ..offer };
        }
        let obstacle = Obstacle {
            throttled,
            idle_exit: !hidden_quota && to_idle,
            offer,
            known: self.affinity.sets[slot.set].known,
        };
        let eligible =
            !obstacle.throttled && !obstacle.idle_exit && !hidden && !begun.cgroup_throttled;
        let changed = eligible != slot.eligible;
        if changed {
            slot.eligible = eligible;
            let count = &mut self.classes[slot.set].eligible;
            *count = if eligible { *count + 1 } else { *count - 1 };
        }
        if slot.obstacle != Some(obstacle) {
            write_slot(self.table, self.judge, trace_id, slot, now_ns);
            slot.obstacle = Some(obstacle);
            slot.since_ns = now_ns;
        }
        changed
    }
}

fn write_slot(table: &mut Table, judge: &Judge, trace_id: i64, slot: &Slot, now_ns: i64) {
    let Some(obstacle) = slot.obstacle.filter(|_| slot.since_ns < now_ns) else { return };
    let begun = &slot.begun;
    let mut from_ns = slot.since_ns;
    let mut unseen = false;
    if begun.unseen {
        let unseen_ns = Judge::unseen_from(begun.end_ns);
        if from_ns < unseen_ns && unseen_ns < now_ns {
            write_part(table, judge, trace_id, begun, obstacle, (from_ns, unseen_ns), false);
            from_ns = unseen_ns;
        }
        unseen = from_ns >= unseen_ns;
    }
    write_part(table, judge, trace_id, begun, obstacle, (from_ns, now_ns), unseen);
}

fn write_part(
    table: &mut Table,
    judge: &Judge,
    trace_id: i64,
    begun: &Begun,
    obstacle: Obstacle,
    (from_ns, to_ns): (i64, i64),
    unseen: bool,
) {
    let part = Part {
        from_ns,
        to_ns,
        throttled: obstacle.throttled,
        cgroup_throttled: begun.cgroup_throttled,
        unread: begun.unread,
        idle_exit: obstacle.idle_exit,
        idle_ns: obstacle.offer.idle_ns,
        parked_ns: obstacle.offer.parked_ns,
        uncertain: obstacle.offer.uncertain,
        known: obstacle.known,
        outside_ns: obstacle.offer.outside_ns,
    };
    let verdict = judge.verdict(&part, unseen);
    table.push(&[
        Value::Long(trace_id),
        Value::Long(begun.utid),
        Value::Long(from_ns),
        Value::Long(to_ns - from_ns),
        Value::Long(begun.ready_ns),
        Value::OptInt(begun.entered_cpu),
        Value::Flag(part.throttled),
        Value::Flag(part.cgroup_throttled),
        Value::Flag(part.idle_exit),
        Value::OptLong(part.idle_ns),
        Value::OptLong(part.parked_ns),
        Value::Flag(part.uncertain),
        Value::Flag(part.known),
        Value::OptLong(part.outside_ns),
        Value::Text(verdict.obstacle),
        Value::Flag(verdict.in_doubt),
        Value::Flag(verdict.may_be_idle),
    ]);
}

fn offer(machine: &Machine, allowed: &Allowed) -> Offer {
    // A thread of unknown affinity may also be allowed on CPUs outside its set.
    let uncertain = allowed.cpus.meets(&machine.uncertain)
        || (!allowed.known && machine.uncertain.iter().next().is_some());
    let mut offer = Offer { uncertain, ..Offer::default() };
    for at in machine.idle.iter() {
        let idle_ns = Some(machine.cpus[at].idle_ns);
        if !allowed.cpus.has(at) {
            if machine.usable.has(at) {
                offer.outside_ns = offer.outside_ns.max(idle_ns);
            } else if machine.idle_parked.has(at) {
                offer.uncertain |= !allowed.known;
            }
        } else if machine.usable.has(at) {
            offer.idle_ns = offer.idle_ns.max(idle_ns);
        } else if machine.idle_parked.has(at) {
            offer.parked_ns = offer.parked_ns.max(idle_ns);
        }
    }
    offer
}
