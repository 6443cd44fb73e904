//! The CPU that a thread is sent to when it becomes runnable.

use super::Linux;

impl Linux {
    fn is_idle(&self, cpu: usize) -> bool {
        self.queues[cpu].tasks.is_empty()
    }

    /// Where a thread becomes runnable; `waker`: the CPU on which another thread wakes it.
    pub fn choose(&self, thread: u32, waker: Option<usize>) -> usize {
        let task = &self.tasks[thread as usize];
        if let Some(cpu) = task.cpu {
            // It sleeps, but is in a queue still.
            return cpu;
        }
        let may_use = |cpu: usize| task.may_use[cpu];
        if !task.is_fair() {
            return self.choose_real_time(thread);
        }
        let Some(last) = task.last_cpu.filter(|&cpu| may_use(cpu)) else {
            return self.emptiest(thread);
        };
        let mut target = last;
        if let Some(waker) = waker.filter(|&cpu| may_use(cpu))
            && waker != last
            && !self.is_idle(last)
            && self.load(waker) < self.load(last)
        {
            target = waker;
        }
        if self.is_idle(target) {
            return target;
        }
        if self.is_idle(last) {
            return last;
        }
        let free = || task.affinity.iter().copied().filter(|&cpu| self.is_idle(cpu));
        let whole = |cpu: &usize| self.siblings[*cpu].iter().all(|&other| self.is_idle(other));
        free().find(whole).or_else(|| free().next()).unwrap_or(target)
    }

    /// A new thread starts on the CPU with the least load.
    fn emptiest(&self, thread: u32) -> usize {
        let busy_siblings =
            |cpu: usize| self.siblings[cpu].iter().filter(|&&other| !self.is_idle(other)).count();
        let key = |cpu: usize| (self.load(cpu), busy_siblings(cpu), -self.kinds[cpu].speed);
        let affinity = &self.tasks[thread as usize].affinity;
        let found = affinity.iter().copied().min_by(|&one, &other| {
            let (one, other) = (key(one), key(other));
            one.0.total_cmp(&other.0).then(one.1.cmp(&other.1)).then(one.2.total_cmp(&other.2))
        });
        found.unwrap_or(0)
    }

    /// The last CPU if the thread runs there at once, else the one with the least urgent thread.
    fn choose_real_time(&self, thread: u32) -> usize {
        let task = &self.tasks[thread as usize];
        let urgency = |cpu: usize| {
            self.queues[cpu]
                .running
                .map_or(i32::MAX, |running| self.tasks[running as usize].priority)
        };
        if let Some(last) =
            task.last_cpu.filter(|&cpu| task.may_use[cpu] && urgency(cpu) > task.priority)
            && (urgency(last) >= super::FAIR)
        {
            return last;
        }
        let found =
            task.affinity.iter().copied().max_by_key(|&cpu| (urgency(cpu), std::cmp::Reverse(cpu)));
        found.unwrap_or(0)
    }
}
