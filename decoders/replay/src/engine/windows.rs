//! What happens at wakeups, and when a thread waits too long or a quantum ends, under the rules of
//! Windows.

use super::{Event, Replay, Why};
use crate::thread::{State, TICK_NS};

/// Priorities from here on are never boosted.
const REAL_TIME: i32 = 15;

impl Replay {
    /// Finds a CPU or a queue for a thread that has become ready, unless its quota is spent.
    pub(super) fn windows_wake(&mut self, thread: u32, boost: i32) {
        if self.is_held(thread) {
            return;
        }
        let quantum_ns = self.quantum_ns();
        let known = &mut self.threads[thread as usize];
        if boost > 0 && known.priority < REAL_TIME && known.priority == known.base_priority {
            known.priority = (known.base_priority + boost).min(REAL_TIME);
        }
        known.quantum_left = quantum_ns;
        if self.strands(thread) {
            self.threads[thread as usize].state = State::Ready;
            self.threads[thread as usize].ready_since = self.now;
            self.queue(thread, false);
        } else {
            self.place(thread, false);
        }
    }

    fn quantum_ns(&self) -> i64 {
        self.plan.quantum_ns / TICK_NS * TICK_NS
    }

    /// Finds a CPU or a queue for a thread that has become ready.
    pub(super) fn place(&mut self, thread: u32, at_head: bool) {
        let index = thread as usize;
        self.threads[index].state = State::Ready;
        self.threads[index].ready_since = self.now;
        if let Some(idle) = self.cpus.idle_cpu(&self.threads[index]) {
            self.switch(idle, None, Some(thread));
            self.after_entry(idle, thread);
            return;
        }
        self.queue(thread, at_head);
    }

    /// Whether a woken thread remains on its busy CPU though another is idle: each so many times.
    fn strands(&mut self, thread: u32) -> bool {
        let share = self.plan.stranded_share;
        let known = &self.threads[thread as usize];
        let is_possible = share > 0.0
            && self.cpus.cores[self.cpus.home(known)].running.is_some()
            && self.cpus.idle_cpu(known).is_some();
        let known = &mut self.threads[thread as usize];
        if is_possible {
            known.stranding += share;
        }
        let is_stranded = is_possible && known.stranding >= 1.0;
        if is_stranded {
            known.stranding -= 1.0;
        }
        is_stranded
    }

    /// Finds a CPU with a thread of lower priority or a queue for a ready thread.
    fn queue(&mut self, thread: u32, at_head: bool) {
        let index = thread as usize;
        if let Some(lower) = self.cpus.lower_cpu(&self.threads[index], &self.threads) {
            self.preempt(lower, thread);
            return;
        }
        let home = self.cpus.home(&self.threads[index]);
        let level = self.threads[index].priority;
        self.cpus.enqueue(home, level as usize, thread, at_head);
        if level < REAL_TIME {
            self.at(self.now + self.plan.starved_ns, Event::Starved(thread));
        }
    }

    pub(super) fn starved(&mut self, thread: u32) {
        let known = &mut self.threads[thread as usize];
        let since = known.ready_since;
        if known.state != State::Ready || self.now - since < self.plan.starved_ns {
            return;
        }
        self.cpus.unqueue(known.priority as usize, thread);
        known.priority = REAL_TIME;
        self.place(thread, false);
        let known = &mut self.threads[thread as usize];
        if known.state == State::Ready {
            known.ready_since = since;
        }
    }

    pub(super) fn quantum(&mut self, cpu: usize, thread: u32, version: u64) {
        if !self.is_current(cpu, thread, version) || self.now < self.cpus.cores[cpu].quantum_end {
            return;
        }
        self.advance(cpu);
        let quantum_ns = self.quantum_ns();
        let known = &mut self.threads[thread as usize];
        if known.priority > known.base_priority {
            known.priority -= 1;
        }
        let priority = known.priority;
        let taker = self.cpus.cores[cpu].queues.first();
        let goes = taker.is_some_and(|other| self.threads[other as usize].priority >= priority);
        if goes || self.cpus.moves_off(cpu, &self.threads[thread as usize]) {
            self.threads[thread as usize].quantum_left = quantum_ns;
            self.leave(cpu, thread, Why::Quantum);
        } else {
            self.cpus.cores[cpu].quantum_end = self.now + quantum_ns;
            self.reschedule(cpu);
        }
    }

    fn preempt(&mut self, cpu: usize, thread: u32) {
        let Some(victim) = self.cpus.cores[cpu].running else { return };
        self.advance(cpu);
        let left = self.cpus.cores[cpu].quantum_end - self.now;
        self.threads[victim as usize].quantum_left = left.max(TICK_NS);
        self.end_slice(cpu, victim);
        self.switch(cpu, Some(victim), Some(thread));
        self.place(victim, true);
        self.after_entry(cpu, thread);
    }
}
