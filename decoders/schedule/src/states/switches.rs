//! Switches: who leaves, who is switched in, and the records that show it.

use super::cpu::{Cpu, Occupant, Orphan};
use super::leaving::{Ended, Left, NextReady};
use super::problem::ProblemKind;
use super::rows::{BEGIN, Slice};
use super::thread::{OpenSlice, Phase, Thread};
use super::words::EndReason;
use super::{Source, StateMachine};

/// A row of `context_switch` as the rules need it.
#[derive(Clone, Copy, Debug)]
pub(super) struct Switch {
    pub(super) ts: i64,
    pub(super) cpu: i32,
    pub(super) seq: i64,
    pub(super) row: usize,
    pub(super) prev: Option<u32>,
    pub(super) next: Option<u32>,
    pub(super) state: Option<i32>,
    pub(super) wait_reason: Option<i32>,
    pub(super) preempted: Option<bool>,
    pub(super) prev_priority: Option<i32>,
    pub(super) next_priority: Option<i32>,
}

impl Switch {
    /// A switch-in that an earlier record planned.
    pub(super) fn planned(cpu: i32, ts: i64, thread: u32, priority: Option<i32>) -> Self {
        Self {
            ts,
            cpu,
            seq: 0,
            row: 0,
            prev: None,
            next: Some(thread),
            state: None,
            wait_reason: None,
            preempted: None,
            prev_priority: None,
            next_priority: priority,
        }
    }
}

/// Maximum threads of one recording; readers number them from 0, in the order of the rows.
const MAX_THREADS: i64 = 1 << 22;

/// Highest CPU number plus 1.
const MAX_CPUS: i32 = 1 << 16;

impl StateMachine {
    /// The place of a thread: its number, unless a damaged table names it before those in front of it.
    pub(super) fn thread_number(&mut self, utid: Option<i64>) -> Option<u32> {
        let utid = utid?;
        let number = utid.wrapping_sub(self.base);
        if !(0..MAX_THREADS).contains(&number) {
            self.problems.add(ProblemKind::BadThread);
            return None;
        }
        match self.known_thread(utid) {
            None => Some(self.add_thread(number as u32, utid)),
            known => known,
        }
    }

    /// The place of a thread that has been mentioned.
    #[inline]
    pub(super) fn known_thread(&self, utid: i64) -> Option<u32> {
        let number = u32::try_from(utid.wrapping_sub(self.base)).ok()?;
        if self.threads.get(number as usize).is_some_and(|thread| thread.utid == utid) {
            return Some(number);
        }
        self.out_of_order.get(&number).copied()
    }

    /// A large number alone must not take memory.
    #[cold]
    fn add_thread(&mut self, number: u32, utid: i64) -> u32 {
        let place = self.threads.len() as u32;
        if place != number {
            self.out_of_order.insert(number, place);
        }
        self.threads.push(Thread::new(utid));
        place
    }

    /// Whether a CPU number is accepted; makes room for it.
    pub(super) fn has_cpu(&mut self, cpu: i32) -> bool {
        if !(0..MAX_CPUS).contains(&cpu) {
            self.problems.add(ProblemKind::BadCpu);
            return false;
        }
        let place = cpu as usize;
        if self.cpus.len() <= place {
            self.cpus.resize_with(place + 1, || None);
        }
        self.cpus[place].get_or_insert_with(|| Box::new(Cpu::new(cpu)));
        true
    }

    /// A CPU that [`Self::has_cpu`] has accepted.
    #[inline]
    pub(super) fn cpu(&mut self, cpu: i32) -> &mut Cpu {
        self.cpus[cpu as usize].get_or_insert_with(|| Box::new(Cpu::new(cpu)))
    }

    /// Ends the slice of the occupant, which leaves by this record.
    pub(super) fn leave(&mut self, switch: &Switch) -> Option<Ended> {
        let Occupant::Thread(number) = self.cpu(switch.cpu).occupant else {
            self.cpu(switch.cpu).unknown(switch.ts);
            return None;
        };
        let left_censored = self.cpu(switch.cpu).left_censored;
        // Windows lowers a raised priority while the thread runs: in a gap it may have been another.
        let begun_in_gap = self.settings.source == Source::Etw && self.cpu(switch.cpu).from > BEGIN;
        if left_censored && !begun_in_gap && self.cpu(switch.cpu).priority.is_none() {
            self.cpu(switch.cpu).priority = switch.prev_priority;
        }
        let left = Left::of(
            self.settings.source,
            switch.state,
            switch.wait_reason,
            switch.preempted,
            &mut self.rows.reasons,
        );
        let mut ended = self.end_slice(switch.cpu, number, switch.ts, false);
        let thread = &mut self.threads[number as usize];
        thread.has_left = true;
        if thread.is_idle {
            return Some(ended);
        }
        let from = ended.slice.ts;
        thread.since = switch.ts;
        thread.left_censored = false;
        thread.last_record = Some(switch.ts);
        thread.reason = None;
        match left {
            Left::Exit(reason) => {
                thread.phase = Phase::Exited;
                thread.reason = reason;
                ended.slice.end_reason = Some(EndReason::Exit);
            }
            Left::Blocked(reason) => {
                thread.phase = Phase::Blocked;
                thread.reason = reason;
                ended.slice.end_reason = Some(EndReason::Blocked);
            }
            Left::Runnable(reason) => {
                thread.phase = Phase::Runnable;
                ended.slice.end_reason = reason;
                ended.runnable = reason.is_none();
                // A thread that yields leaves as `R`. `R+` means that it was preempted in the kernel,
                // perhaps on its way to yield.
                let is_preempted = switch.state.is_some_and(|state| state != 0);
                ended.yielded_at = thread.last_yield.filter(|_| !is_preempted);
                ended.next_idle =
                    switch.next.is_some_and(|next| self.threads[next as usize].is_idle);
            }
            Left::Unknown => {
                thread.phase = Phase::Unknown { out_seen: true };
                ended.slice.end_reason = Some(EndReason::Unknown);
            }
        }
        let empty = from == switch.ts;
        let entered = self.cpu(switch.cpu).last_seq;
        let thread = &mut self.threads[number as usize];
        thread.drop_wakings(
            |w| {
                let follows = w.cpu == switch.cpu && w.seq > entered;
                w.ts > from || (w.ts == from && (empty || follows))
            },
            &mut self.wakeups,
        );
        thread.leave_wakings_behind();
        Some(ended)
    }

    /// Ends a slice at a time: its rows, but not yet its reason or what the thread does next.
    pub(super) fn end_slice(&mut self, cpu: i32, number: u32, at: i64, cut: bool) -> Ended {
        let thread = &mut self.threads[number as usize];
        let place = self.cpus[cpu as usize].get_or_insert_with(|| Box::new(Cpu::new(cpu)));
        let mut slice = Slice {
            utid: thread.utid,
            cpu,
            ts: place.from,
            end: at,
            is_idle: thread.is_idle,
            priority: place.priority,
            end_reason: None,
            ready_ns: None,
            wait_ns: None,
            waker: None,
            prev_cpu: None,
            left_censored: place.left_censored,
            right_censored: cut,
        };
        if thread.is_idle {
            place.idle(at, &mut self.rows);
        } else {
            place.thread(at, &mut self.rows);
            if let Some(open) = thread.open_slice.take() {
                thread.write_before(&open, at, &mut self.rows);
                slice.prev_cpu = open.prev_cpu;
                if let Some(entry) = open.entry {
                    slice.ready_ns = entry.ready_from.map(|ready| open.from.saturating_sub(ready));
                    slice.wait_ns = entry.wait_ns;
                    slice.waker = entry.waker;
                }
            }
            thread.cpu = Some(cpu);
        }
        Ended::settled(slice)
    }

    /// Emits a slice once its end reason is decided.
    pub(super) fn ended(&mut self, mut ended: Ended) {
        if ended.slice.ts == BEGIN {
            self.early_slices.push(ended);
            return;
        }
        if ended.decide(&self.settings) {
            self.problems.add(ProblemKind::TickUnknown);
        }
        self.rows.slices.push(&ended.slice);
    }

    /// Starts the slice of the thread that is switched in by this record.
    pub(super) fn enter(&mut self, switch: &Switch) -> NextReady {
        let cpu = self.cpu(switch.cpu);
        cpu.from = switch.ts;
        cpu.left_censored = false;
        cpu.priority = switch.next_priority;
        let Some(number) = switch.next else {
            cpu.occupant = Occupant::Unnamed;
            return NextReady::default();
        };
        cpu.occupant = Occupant::Thread(number);
        if self.threads[number as usize].is_idle {
            self.cpu(switch.cpu).went_idle = switch.ts;
            return NextReady::default();
        }
        if self.threads[number as usize].phase == Phase::Running {
            match self.settings.source {
                Source::Etw => {
                    if !self.leave_other(number, switch.cpu) {
                        return NextReady::default();
                    }
                }
                Source::Perf | Source::Perfetto => self.set_aside(number, switch.ts),
            }
        }
        let thread = &mut self.threads[number as usize];
        thread.last_record = Some(switch.ts);
        let entry = if thread.phase == Phase::Running {
            None
        } else {
            if thread.phase == Phase::New && thread.since > switch.ts {
                self.problems.add(ProblemKind::BeforeLife);
                thread.since = switch.ts;
            }
            let entry = thread.settle(switch.ts, &mut self.wakeups);
            if matches!(entry.was, Phase::Blocked | Phase::Exited) && entry.ready_from.is_none() {
                self.problems.add(ProblemKind::NoWaking);
            }
            if let (Source::Perf, Some(woken), true) =
                (self.settings.source, entry.ready_from, entry.by_waking)
            {
                self.missed(number, woken, switch);
            }
            Some(entry)
        };
        let thread = &mut self.threads[number as usize];
        thread.phase = Phase::Running;
        thread.since = switch.ts;
        thread.also_planned = None;
        thread.open_slice = Some(OpenSlice {
            cpu: switch.cpu,
            from: switch.ts,
            left_censored: false,
            prev_cpu: thread.cpu,
            entry,
        });
        entry.map_or_else(NextReady::default, |entry| NextReady {
            from: entry.ready_from,
            by_waking: entry.by_waking,
        })
    }

    /// Windows: a switch-in is recorded for a thread that seems to run elsewhere. If it was made
    /// ready since, it has left its CPU without a record. If not, the next records of both CPUs
    /// decide where it is; until then it remains where it was (false).
    fn leave_other(&mut self, number: u32, cpu: i32) -> bool {
        let thread = &mut self.threads[number as usize];
        let Some(open) = thread.open_slice else { return true };
        let woken = thread.wakings.iter().map(|w| w.ts).find(|&ts| ts > open.from);
        if let Some(woken) = woken {
            self.set_aside(number, woken);
            self.threads[number as usize].set_unknown(woken);
        } else if open.cpu != cpu {
            thread.also_planned = Some(cpu);
            return false;
        } else {
            self.undo_plan(number);
        }
        true
    }

    /// Removes a thread from its CPU: a record shows it elsewhere from `until` on.
    pub(super) fn set_aside(&mut self, number: u32, until: i64) {
        let thread = &mut self.threads[number as usize];
        thread.drop_wakings(|waking| waking.ts >= until, &mut self.wakeups);
        let Some(open) = thread.open_slice.take() else { return };
        thread.cpu = Some(open.cpu);
        let cpu = self.cpu(open.cpu);
        let priority = cpu.priority;
        cpu.orphan =
            Some(Orphan { thread: number, slice: open, priority, until: until.max(open.from) });
    }
}
