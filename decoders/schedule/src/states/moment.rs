//! All records of one time, handled together: per thread switch-out, ready, switch-in.

use std::collections::HashMap;

use super::cpu::Occupant;
use super::leaving::Ended;
use super::switches::Switch;
use super::wakeups::Waking;
use super::{Source, StateMachine};

/// So many switches at one time are compared one by one, which is faster than an index. A coarse
/// clock or damage may give very many one time.
const FEW: usize = if cfg!(feature = "fuzzing") { 2 } else { 8 };

/// Rows of one moment, in the order (cpu, seq); reused for the next moment.
#[derive(Default)]
pub(super) struct Scratch {
    pub(super) switches: Vec<Switch>,
    pub(super) wakings: Vec<(u32, Waking)>,
    /// Wakeups that precede the switch-out of their thread in the records of its CPU.
    before_leaving: Vec<(u32, Waking)>,
    /// Wakeups that follow the switch-in of their thread in the records of its CPU.
    after_entering: Vec<(u32, Waking)>,
    /// Migrated threads and their destination.
    pub(super) moves: Vec<(u32, i32)>,
    pub(super) yields: Vec<u32>,
    ended: Vec<Option<Ended>>,
}

impl Scratch {
    /// Separates the wakeups that a CPU recorded during the slice of the woken thread.
    fn set_wakings_apart(&mut self) {
        let Self { switches, wakings, before_leaving, after_entering, .. } = self;
        // First switch-in and last switch-out by CPU and thread.
        let (mut first_in, mut last_out) = (HashMap::new(), HashMap::new());
        let is_few = switches.len() <= FEW;
        for switch in switches.iter().filter(|_| !is_few) {
            if let Some(next) = switch.next {
                let first = first_in.entry((switch.cpu, next)).or_insert(switch.seq);
                *first = switch.seq.min(*first);
            }
            if let Some(prev) = switch.prev {
                let last = last_out.entry((switch.cpu, prev)).or_insert(switch.seq);
                *last = switch.seq.max(*last);
            }
        }
        wakings.retain(|&(thread, waking)| {
            let (enters, leaves) = if is_few {
                let mut here = switches.iter().filter(|switch| switch.cpu == waking.cpu);
                (
                    here.clone().any(|s| s.next == Some(thread) && s.seq < waking.seq),
                    here.any(|s| s.prev == Some(thread) && s.seq > waking.seq),
                )
            } else {
                let key = (waking.cpu, thread);
                (
                    first_in.get(&key).is_some_and(|first| *first < waking.seq),
                    last_out.get(&key).is_some_and(|last| *last > waking.seq),
                )
            };
            match (enters, leaves) {
                (true, false) => after_entering.push((thread, waking)),
                (false, true) => before_leaving.push((thread, waking)),
                // Neither, or an empty slice.
                (false, false) | (true, true) => return true,
            }
            false
        });
    }
}

impl StateMachine {
    /// Applies the switches, wakeups, migrations and yields collected for one time.
    pub(super) fn apply_moment(&mut self) {
        let mut moment = self.moment.take().unwrap_or_default();
        for &thread in &moment.yields {
            self.threads[thread as usize].last_yield = Some(self.now);
        }
        if !moment.switches.is_empty() && !moment.wakings.is_empty() {
            moment.set_wakings_apart();
            self.apply_wakings(&moment.before_leaving);
        }
        match moment.switches.as_slice() {
            [] => self.apply_off_cpu(&moment),
            [only] => {
                let only = *only;
                self.find_outgoing(&only);
                let ended = self.leave(&only);
                self.apply_off_cpu(&moment);
                self.take_over(&only, ended);
            }
            _ => self.apply_tied(&mut moment),
        }
        self.apply_wakings(&moment.after_entering);
        moment.switches.clear();
        moment.wakings.clear();
        moment.before_leaving.clear();
        moment.after_entering.clear();
        moment.moves.clear();
        moment.yields.clear();
        self.moment = Some(moment);
    }

    /// The rows of the moment so far. In a box, because moving it took as long as applying it.
    pub(super) fn gathered(&mut self) -> &mut Scratch {
        self.moment.get_or_insert_default()
    }

    /// Applies what happens to threads that are not on a CPU.
    fn apply_off_cpu(&mut self, moment: &Scratch) {
        self.apply_wakings(&moment.wakings);
        self.migrations_recorded |= !moment.moves.is_empty();
        for &(thread, cpu) in &moment.moves {
            self.threads[thread as usize].moved(cpu, self.now);
        }
    }

    fn apply_wakings(&mut self, wakings: &[(u32, Waking)]) {
        for (thread, waking) in wakings {
            if self.settings.source == Source::Etw {
                let (gap_end, rows) = (self.gap_end, &mut self.rows);
                self.threads[*thread as usize].doubt(waking, gap_end, &mut self.wakeups, rows);
            }
            self.threads[*thread as usize].wake(*waking, &mut self.wakeups);
        }
    }

    fn note(&mut self, switch: &Switch) {
        self.switches_recorded = true;
        self.counters.switched(switch);
        let row = self.records.number(switch.row);
        let place = self.cpu(switch.cpu);
        place.last_switch = Some(switch.ts);
        place.last_record = place.last_record.max(switch.ts);
        place.last_row = row;
        place.last_seq = switch.seq;
    }

    /// The next thread is switched in, which may explain why the previous one left.
    fn take_over(&mut self, switch: &Switch, ended: Option<Ended>) {
        let next = self.enter(switch);
        self.note(switch);
        if let Some(mut ended) = ended {
            ended.next = next;
            self.ended(ended);
        }
    }

    /// Several switches at one time. The order is: ends of earlier slices, wakeups, slices that
    /// start and end now, slices that continue.
    fn apply_tied(&mut self, moment: &mut Scratch) {
        if !moment.switches.is_sorted_by_key(|switch| switch.cpu) {
            moment.switches.sort_by_key(|switch| switch.cpu);
        }
        let switches = &moment.switches;
        let mut ended = std::mem::take(&mut moment.ended);
        ended.clear();
        ended.resize(switches.len(), None);
        let first_on_cpu =
            |place: usize| place == 0 || switches[place - 1].cpu != switches[place].cpu;
        let last_on_cpu = |place: usize| {
            place + 1 == switches.len() || switches[place + 1].cpu != switches[place].cpu
        };
        let mut late = Vec::new();
        for (place, switch) in switches.iter().enumerate() {
            if first_on_cpu(place) {
                if self.outgoing_is_here(switch) {
                    ended[place] = self.leave(switch);
                } else {
                    late.push(place);
                }
            }
        }
        for place in late {
            self.find_outgoing(&switches[place]);
            ended[place] = self.leave(&switches[place]);
        }
        // None of these CPUs is silent: a thread that enters one may have been sent to another.
        for switch in switches {
            let here = self.cpu(switch.cpu);
            here.last_record = here.last_record.max(switch.ts);
        }
        self.apply_off_cpu(moment);
        let switches = &moment.switches;
        for (place, switch) in switches.iter().enumerate() {
            if !last_on_cpu(place) {
                let reason = ended[place].take();
                self.take_over(switch, reason);
                let following = &switches[place + 1];
                self.find_outgoing(following);
                ended[place + 1] = self.leave(following);
            }
        }
        let mut next = Vec::new();
        for (place, switch) in switches.iter().enumerate() {
            if last_on_cpu(place) {
                next.push((place, self.enter(switch)));
                self.note(switch);
            }
        }
        for (place, next) in next {
            if let Some(mut reason) = ended[place].take() {
                reason.next = next;
                self.ended(reason);
            }
        }
        moment.ended = ended;
    }

    fn outgoing_is_here(&mut self, switch: &Switch) -> bool {
        let place = self.cpu(switch.cpu);
        let (occupant, joined) = (place.occupant, place.orphan.is_none());
        match (occupant, switch.prev) {
            (Occupant::Thread(thread), Some(prev)) => {
                thread == prev && joined && self.is_here(switch.cpu, prev)
            }
            (Occupant::Unnamed, None) => true,
            _ => false,
        }
    }
}
