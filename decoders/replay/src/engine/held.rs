//! Threads whose quota of CPU time is spent, under the rules of Windows.

use super::{Event, Replay, Why};
use crate::thread::State;

impl Replay {
    /// Holds a thread that has become ready if its quota is spent.
    pub(super) fn is_held(&mut self, thread: u32) -> bool {
        let Some(limit) = self.plan.programs[thread as usize].limit else { return false };
        let is_spent = self.limits[limit].is_spent();
        if is_spent {
            self.threads[thread as usize].state = State::Waiting;
            self.limits[limit].hold(thread);
        }
        is_spent
    }

    /// A thread begins to run, or stops.
    pub(super) fn count(&mut self, thread: Option<u32>, begins: bool) {
        let Some(limit) = thread.and_then(|known| self.plan.programs[known as usize].limit) else {
            return;
        };
        let running = self.limits[limit].running();
        let running = if begins { running + 1 } else { running.saturating_sub(1) };
        if let Some((when, version)) = self.limits[limit].run(running, self.now) {
            self.at(when, Event::Spent(limit, version));
        }
    }

    /// A quota is spent: its threads leave their CPUs and queues.
    pub(super) fn spent(&mut self, limit: usize, version: u64) {
        if !self.limits[limit].spend(version, self.now) {
            return;
        }
        let members = (0..self.threads.len() as u32)
            .filter(|&thread| self.plan.programs[thread as usize].limit == Some(limit));
        let ready: Vec<_> =
            members.filter(|&thread| self.threads[thread as usize].state == State::Ready).collect();
        for thread in ready {
            self.cpus.unqueue(self.threads[thread as usize].priority as usize, thread);
            self.end_ready(thread);
            self.is_held(thread);
        }
        for cpu in 0..self.cpus.cores.len() {
            let Some(thread) = self.cpus.cores[cpu].running else { continue };
            if self.plan.programs[thread as usize].limit == Some(limit) {
                self.leave(cpu, thread, Why::Blocked);
                self.is_held(thread);
            }
        }
    }

    /// A period of a quota begins: its threads go on.
    pub(super) fn renew(&mut self, limit: usize) {
        let period_ns = self.limits[limit].period_ns();
        self.at(self.now + period_ns, Event::Renew(limit));
        let (next, held) = self.limits[limit].renew(self.now);
        if let Some((when, version)) = next {
            self.at(when, Event::Spent(limit, version));
        }
        for thread in held {
            self.wake(thread, self.plan.wake_boost);
        }
    }
}
