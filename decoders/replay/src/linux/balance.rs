//! Threads that move to other CPUs: when a CPU becomes idle, and now and then.

use super::Linux;

/// A thread that ran this recently remains near its caches (`sched_migration_cost_ns`).
const HOT_NS: i64 = 500_000;
/// A CPU takes threads only from one with more load than its own by this factor.
const IMBALANCE: f64 = 1.17;
/// Attempts that find nothing before a CPU takes a thread whose caches are warm.
const PATIENCE: u32 = 1;
/// Busy CPUs look for threads to take every 16 ms times the number of CPUs.
const BUSY_NS: i64 = 16_000_000;

impl Linux {
    /// The load of a CPU: its fair threads by weight, each with the part that its groups have.
    pub fn load(&self, cpu: usize) -> f64 {
        let own = |&thread: &u32| self.load_of(thread, cpu);
        self.queues[cpu].tasks.iter().map(own).sum()
    }

    fn load_of(&self, thread: u32, cpu: usize) -> f64 {
        if !self.tasks[thread as usize].is_fair() {
            return 0.0;
        }
        let mut load = self.entities[thread as usize].weight;
        let mut group = self.tasks[thread as usize].group;
        while let Some(parent) = self.rules.groups[group].parent {
            let every = self.fair[self.queue_of(group, cpu)].weight(&self.entities);
            load *= self.entities[self.entity_of(group, cpu) as usize].weight / every.max(1.0);
            group = parent;
        }
        load
    }

    /// Fair threads that could run on a CPU.
    fn runnable(&self, cpu: usize) -> usize {
        let able = |&&thread: &&u32| !self.is_stopped(thread, cpu);
        self.queues[cpu].tasks.iter().filter(able).count()
    }

    /// Waiting threads of one CPU that another may take, if they have not run since `hot_ns`.
    fn takeable(&self, from: usize, to: usize, hot_ns: i64) -> impl Iterator<Item = u32> + '_ {
        let queue = &self.queues[from];
        queue.tasks.iter().copied().filter(move |&thread| {
            let task = &self.tasks[thread as usize];
            Some(thread) != queue.running
                && task.is_fair()
                && task.may_use[to]
                && !self.is_stopped(thread, from)
                && (task.ran_until <= hot_ns || task.last_cpu != Some(from))
        })
    }

    fn busiest(&self, cpu: usize) -> Option<usize> {
        (0..self.queues.len())
            .filter(|&other| other != cpu && self.queues[other].tasks.len() > 1)
            .max_by(|&one, &other| {
                self.load(one).total_cmp(&self.load(other)).then(other.cmp(&one))
            })
    }

    /// Moves a waiting thread to a CPU that has nothing to run.
    pub fn pull(&mut self, cpu: usize, now: i64) -> bool {
        if let Some((from, thread)) = self.urgent_elsewhere(cpu) {
            self.queues[from].real_time.retain(|&other| other != thread);
            self.queues[from].tasks.retain(|&other| other != thread);
            self.tasks[thread as usize].cpu = Some(cpu);
            self.queues[cpu].tasks.push(thread);
            self.line_up(thread, cpu, false);
            return true;
        }
        let Some(from) = self.busiest(cpu) else { return false };
        if self.runnable(from) < 2 {
            return false;
        }
        let Some(thread) = self.takeable(from, cpu, now - HOT_NS).next() else { return false };
        self.transfer(thread, from, cpu, now);
        true
    }

    /// A real-time thread that waits for another CPU and may use this one.
    fn urgent_elsewhere(&self, cpu: usize) -> Option<(usize, u32)> {
        let priority = |thread: u32| self.tasks[thread as usize].priority;
        (0..self.queues.len())
            .filter(|&from| from != cpu)
            .flat_map(|from| self.queues[from].real_time.iter().map(move |&thread| (from, thread)))
            .filter(|&(_, thread)| self.tasks[thread as usize].may_use[cpu])
            .min_by_key(|&(_, thread)| priority(thread))
    }

    fn transfer(&mut self, thread: u32, from: usize, to: usize, now: i64) {
        self.charge(from, now);
        self.charge(to, now);
        self.queues[from].tasks.retain(|&other| other != thread);
        self.remove(thread, from);
        self.tasks[thread as usize].cpu = Some(to);
        self.queues[to].tasks.push(thread);
        self.enter(thread, to, false);
    }

    /// At a tick of a busy CPU: idle CPUs take a waiting thread, and the CPU itself takes one from
    /// a CPU with more load. Returns the CPUs that have a new thread.
    pub fn balance(&mut self, cpu: usize, now: i64) -> Vec<usize> {
        let mut found = Vec::new();
        if self.runnable(cpu) > 1 {
            for idle in 0..self.queues.len() {
                if self.queues[idle].tasks.is_empty() && self.pull(idle, now) {
                    found.push(idle);
                }
            }
        }
        if now < self.queues[cpu].balance_at {
            return found;
        }
        self.queues[cpu].balance_at = now + BUSY_NS * self.queues.len() as i64;
        let Some(from) = self.busiest(cpu) else { return found };
        let (theirs, own) = (self.load(from), self.load(cpu));
        if theirs <= own * IMBALANCE {
            self.queues[cpu].failed = 0;
            return found;
        }
        let imbalance = (theirs - own) / 2.0;
        let shift = f64::from(1_u32 << self.queues[cpu].failed.min(16));
        let fits = |thread: &u32| self.load_of(*thread, from) / shift <= imbalance;
        // After some attempts it also takes one whose caches are warm.
        let hot_ns = if self.queues[cpu].failed > PATIENCE { now } else { now - HOT_NS };
        let chosen = self.takeable(from, cpu, hot_ns).find(fits);
        if let Some(thread) = chosen {
            self.queues[cpu].failed = 0;
            self.transfer(thread, from, cpu, now);
            found.push(cpu);
        } else {
            self.queues[cpu].failed += 1;
        }
        found
    }
}
