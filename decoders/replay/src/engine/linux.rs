//! What happens at wakeups, at ticks, and when a CPU is free, under the rules of Linux.

use super::{Event, Replay, Why};
use crate::linux::Linux;
use crate::thread::State;

/// How long a `SCHED_RR` thread runs before the next one of its priority.
const ROUND_ROBIN_NS: i64 = 100_000_000;

impl Replay {
    /// Finds a CPU for a thread that has become ready.
    pub(super) fn linux_wake(&mut self, mut linux: Box<Linux>, thread: u32) {
        let known = &mut self.threads[thread as usize];
        known.state = State::Ready;
        known.ready_since = self.now;
        let cpu = linux.choose(thread, self.waker);
        let is_over = linux.charge(cpu, self.now);
        linux.add(thread, cpu, self.now);
        let goes = is_over || linux.preempts(thread, cpu);
        if goes {
            self.choose_again(&mut linux, cpu, false);
        }
        self.linux = Some(linux);
    }

    /// A CPU chooses what it runs.
    fn choose_again(&mut self, linux: &mut Linux, cpu: usize, quantum_over: bool) {
        let victim = self.cpus.cores[cpu].running;
        if victim.is_some() {
            self.advance(cpu);
        }
        linux.put(cpu, self.now, true, quantum_over);
        let next = self.next_on(linux, cpu);
        if next == victim {
            return;
        }
        if let Some(victim) = victim {
            self.end_slice(cpu, victim);
        }
        self.switch(cpu, victim, next);
        if let Some(victim) = victim {
            self.threads[victim as usize].state = State::Ready;
            self.threads[victim as usize].ready_since = self.now;
        }
        self.enter(cpu, next);
    }

    fn next_on(&mut self, linux: &mut Linux, cpu: usize) -> Option<u32> {
        linux
            .pick(cpu, self.now)
            .or_else(|| if linux.pull(cpu, self.now) { linux.pick(cpu, self.now) } else { None })
    }

    fn enter(&mut self, cpu: usize, next: Option<u32>) {
        if let Some(next) = next {
            self.arm_tick(cpu);
            self.after_entry(cpu, next);
        }
    }

    /// The running thread of a CPU sleeps or ends.
    pub(super) fn linux_leave(&mut self, mut linux: Box<Linux>, cpu: usize, thread: u32, why: Why) {
        self.advance(cpu);
        self.end_slice(cpu, thread);
        linux.put(cpu, self.now, false, false);
        let next = self.next_on(&mut linux, cpu);
        self.switch(cpu, Some(thread), next);
        let is_end = why == Why::Ended;
        self.threads[thread as usize].state = if is_end { State::Ended } else { State::Waiting };
        self.enter(cpu, next);
        self.linux = Some(linux);
    }

    fn arm_tick(&mut self, cpu: usize) {
        if !std::mem::replace(&mut self.ticking[cpu], true) {
            let tick = self.tick_ns();
            self.at((self.now / tick + 1) * tick, Event::Tick(cpu));
        }
    }

    fn tick_ns(&self) -> i64 {
        self.plan.linux.as_ref().map_or(1, |rules| rules.tick_ns)
    }

    /// The clock interrupts a CPU.
    pub(super) fn tick(&mut self, cpu: usize) {
        self.ticking[cpu] = false;
        let Some(running) = self.cpus.cores[cpu].running else { return };
        let Some(mut linux) = self.linux.take() else { return };
        let ran = self.now - self.cpus.cores[cpu].slice_start;
        let is_turn = self.plan.programs[running as usize].is_round_robin
            && ran >= ROUND_ROBIN_NS
            && linux.has_equal(cpu);
        if linux.charge(cpu, self.now) || is_turn {
            self.choose_again(&mut linux, cpu, is_turn);
        }
        for found in linux.balance(cpu, self.now) {
            self.choose_again(&mut linux, found, false);
        }
        self.linux = Some(linux);
        if self.cpus.cores[cpu].running.is_some() {
            self.arm_tick(cpu);
        }
    }

    /// A quota's period begins.
    pub(super) fn refill(&mut self, group: usize, period_ns: i64) {
        self.at(self.now + period_ns, Event::Refill(group, period_ns));
        let Some(mut linux) = self.linux.take() else { return };
        for cpu in linux.refill(group) {
            if self.cpus.cores[cpu].running.is_none() {
                self.choose_again(&mut linux, cpu, false);
            }
        }
        self.linux = Some(linux);
    }
}
