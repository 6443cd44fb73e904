//! The rules of Linux: fair, real-time and deadline threads, groups with shares and quotas.
//!
//! Written from the kernel's documentation (Documentation/scheduler): sched-eevdf, sched-bwc,
//! sched-rt-group, sched-domains. The recorder shows a thread's priority as the kernel counts it:
//! below 0 a deadline, 0 to 98 real time, 100 to 139 fair with nice -20 to 19.

mod balance;
mod fair;
mod placement;
mod quota;

use fair::{Entity, FairQueue};
pub use quota::Quota;

use crate::plan::{Cpu, LinuxRules};

/// Priorities below this are real time or deadlines.
const FAIR: i32 = 100;
const NICE_OF: i32 = 120;

/// A thread as the classes see it.
#[derive(Debug)]
pub struct Task {
    pub priority: i32,
    pub group: usize,
    /// SCHED_IDLE: its nice value does not count.
    pub is_background: bool,
    pub may_use: Vec<bool>,
    pub affinity: Vec<usize>,
    /// Where it waits or runs.
    pub cpu: Option<usize>,
    pub last_cpu: Option<usize>,
    pub ran_until: i64,
    /// It has not run yet.
    pub is_new: bool,
}

impl Task {
    pub fn is_fair(&self) -> bool {
        self.priority >= FAIR
    }
}

/// The run queue of a logical CPU.
#[derive(Debug, Default)]
pub struct RunQueue {
    pub running: Option<u32>,
    /// Runnable threads, with the running one.
    pub tasks: Vec<u32>,
    /// Real-time threads in the order in which they run, without the running one.
    real_time: Vec<u32>,
    /// The queues whose current member leads to the running thread.
    path: Vec<usize>,
    charged_until: i64,
    balance_at: i64,
    failed: u32,
}

/// All run queues.
#[derive(Debug)]
pub struct Linux {
    pub rules: LinuxRules,
    pub tasks: Vec<Task>,
    pub queues: Vec<RunQueue>,
    /// Threads, then each group on each CPU.
    entities: Vec<Entity>,
    /// By group, then by CPU.
    fair: Vec<FairQueue>,
    quotas: Vec<Option<Quota>>,
    /// By group: the CPUs on which its quota stops it.
    stopped: Vec<Vec<bool>>,
    siblings: Vec<Vec<usize>>,
    kinds: Vec<Cpu>,
}

impl Linux {
    pub fn new(rules: LinuxRules, cpus: &[Cpu], tasks: Vec<Task>) -> Self {
        let mut entities: Vec<Entity> = tasks
            .iter()
            .map(|task| {
                Entity::new(if task.is_background {
                    fair::BACKGROUND
                } else {
                    fair::weight_of((task.priority - NICE_OF).clamp(-20, 19))
                })
            })
            .collect();
        for group in &rules.groups {
            entities.extend(cpus.iter().map(|_| Entity::new(group.shares.max(2.0))));
        }
        let count = rules.groups.len();
        let siblings = (0..cpus.len()).map(|cpu| {
            (0..cpus.len()).filter(|&o| o != cpu && cpus[o].core == cpus[cpu].core).collect()
        });
        Self {
            tasks,
            queues: (0..cpus.len()).map(|_| RunQueue::default()).collect(),
            entities,
            fair: vec![FairQueue::default(); count * cpus.len()],
            quotas: rules
                .groups
                .iter()
                .map(|group| group.quota.map(|(ns, period)| Quota::new(ns, period, cpus.len())))
                .collect(),
            stopped: vec![vec![false; cpus.len()]; count],
            siblings: siblings.collect(),
            kinds: cpus.to_vec(),
            rules,
        }
    }

    /// Groups with a quota, and the length of its period.
    pub fn periods(&self) -> impl Iterator<Item = (usize, i64)> + '_ {
        self.quotas
            .iter()
            .enumerate()
            .filter_map(|(group, quota)| Some((group, quota.as_ref()?.period_ns)))
    }

    fn cpus(&self) -> usize {
        self.queues.len()
    }

    fn queue_of(&self, group: usize, cpu: usize) -> usize {
        group * self.cpus() + cpu
    }

    fn entity_of(&self, group: usize, cpu: usize) -> u32 {
        (self.tasks.len() + self.queue_of(group, cpu)) as u32
    }

    fn limit_ns(&self) -> f64 {
        (2.0 * self.rules.slice_ns).max(self.rules.tick_ns as f64)
    }

    /// A thread and the groups that contain it, without the root group, each with the group whose
    /// queue it is in.
    fn chain(&self, thread: u32, cpu: usize) -> Vec<(u32, usize)> {
        let mut group = self.tasks[thread as usize].group;
        let mut found = vec![(thread, group)];
        while let Some(parent) = self.rules.groups[group].parent {
            found.push((self.entity_of(group, cpu), parent));
            group = parent;
        }
        found
    }

    /// Whether the quota of a group keeps a thread from running on its CPU.
    pub fn is_stopped(&self, thread: u32, cpu: usize) -> bool {
        let mut group = Some(self.tasks[thread as usize].group);
        while let Some(known) = group {
            if self.stopped[known][cpu] {
                return true;
            }
            group = self.rules.groups[known].parent;
        }
        false
    }

    // Groups.

    /// The weight of a group on a CPU: its shares, divided by where its threads are.
    fn reweigh(&mut self, group: usize, cpu: usize) {
        let Some(parent) = self.rules.groups[group].parent else { return };
        let here = self.fair[self.queue_of(group, cpu)].weight(&self.entities);
        let every: f64 = (0..self.cpus())
            .map(|other| self.fair[self.queue_of(group, other)].weight(&self.entities))
            .sum();
        if every <= 0.0 {
            return;
        }
        let weight = (self.rules.groups[group].shares * here / every).max(2.0);
        let entity = self.entity_of(group, cpu);
        if (self.entities[entity as usize].weight - weight).abs() > 1e-6 {
            let queue = self.queue_of(parent, cpu);
            self.fair[queue].reweigh(entity, weight, &mut self.entities);
        }
    }

    fn enter(&mut self, thread: u32, cpu: usize, is_new: bool) {
        for (index, group) in self.chain(thread, cpu) {
            let queue = self.queue_of(group, cpu);
            if !self.entities[index as usize].is_queued {
                let is_new = is_new && index == thread;
                self.fair[queue].enter(index, &mut self.entities, self.rules.slice_ns, is_new);
            }
            self.reweigh(group, cpu);
            if self.stopped[group][cpu] {
                break;
            }
        }
    }

    fn remove(&mut self, thread: u32, cpu: usize) {
        let limit = self.limit_ns();
        for (index, group) in self.chain(thread, cpu) {
            let queue = self.queue_of(group, cpu);
            if self.entities[index as usize].is_queued {
                self.fair[queue].remove(index, &mut self.entities, limit);
            }
            if !self.fair[queue].members.is_empty() {
                self.reweigh(group, cpu);
                break;
            }
            if let Some(quota) = &mut self.quotas[group] {
                quota.give_back(cpu);
            }
        }
    }

    fn stop(&mut self, group: usize, cpu: usize) {
        self.stopped[group][cpu] = true;
        let limit = self.limit_ns();
        let mut inner = group;
        while let Some(parent) = self.rules.groups[inner].parent {
            let entity = self.entity_of(inner, cpu);
            let queue = self.queue_of(parent, cpu);
            if self.entities[entity as usize].is_queued {
                self.fair[queue].remove(entity, &mut self.entities, limit);
            }
            if !self.fair[queue].members.is_empty() {
                break;
            }
            inner = parent;
        }
    }

    fn resume(&mut self, group: usize, cpu: usize) {
        self.stopped[group][cpu] = false;
        let mut inner = group;
        while let Some(parent) = self.rules.groups[inner].parent {
            let is_empty = self.fair[self.queue_of(inner, cpu)].members.is_empty();
            let entity = self.entity_of(inner, cpu);
            if is_empty || self.stopped[inner][cpu] || self.entities[entity as usize].is_queued {
                break;
            }
            let queue = self.queue_of(parent, cpu);
            self.fair[queue].enter(entity, &mut self.entities, self.rules.slice_ns, false);
            self.reweigh(inner, cpu);
            inner = parent;
        }
    }

    /// Begins a period of a group. Returns the CPUs that choose again.
    pub fn refill(&mut self, group: usize) -> Vec<usize> {
        let Some(quota) = &mut self.quotas[group] else { return Vec::new() };
        let found = quota.refill(&self.stopped[group]);
        for &cpu in &found {
            self.resume(group, cpu);
        }
        found
    }

    // Threads.

    /// Accounts for what runs on a CPU. Returns whether the CPU must choose again.
    pub fn charge(&mut self, cpu: usize, now: i64) -> bool {
        let ns = (now - self.queues[cpu].charged_until) as f64;
        self.queues[cpu].charged_until = now;
        let Some(running) = self.queues[cpu].running else { return false };
        if !self.tasks[running as usize].is_fair() {
            return false;
        }
        let mut again = false;
        for (index, group) in self.chain(running, cpu) {
            let is_over = self.entities[index as usize].run(ns, self.rules.slice_ns);
            again |= is_over && self.fair[self.queue_of(group, cpu)].members.len() > 1;
        }
        let mut group = Some(self.tasks[running as usize].group);
        while let Some(known) = group {
            let is_spent = match &mut self.quotas[known] {
                Some(quota) => quota.spend(cpu, ns),
                None => false,
            };
            if is_spent && !self.stopped[known][cpu] {
                self.stop(known, cpu);
                again = true;
            }
            group = self.rules.groups[known].parent;
        }
        again
    }

    /// Makes a thread runnable on a CPU.
    pub fn add(&mut self, thread: u32, cpu: usize, now: i64) {
        let index = thread as usize;
        if let Some(old) = self.tasks[index].cpu
            && old != cpu
        {
            // It sleeps in the queue of another CPU until that has caught up.
            self.charge(old, now);
            self.remove(thread, old);
        }
        self.charge(cpu, now);
        self.tasks[index].cpu = Some(cpu);
        self.queues[cpu].tasks.push(thread);
        if !self.tasks[index].is_fair() {
            self.line_up(thread, cpu, false);
            return;
        }
        if self.entities[index].is_delayed {
            self.entities[index].is_delayed = false;
            // While it slept, it may have come to be owed something: that is not kept.
            let queue = self.queue_of(self.tasks[index].group, cpu);
            let average = self.fair[queue].average(&self.entities);
            let known = &mut self.entities[index];
            if known.virtual_ns < average {
                known.virtual_ns = average;
                known.deadline = average + known.virtual_of(self.rules.slice_ns);
            }
            return;
        }
        let is_new = std::mem::take(&mut self.tasks[index].is_new);
        for group in self.groups_of(thread) {
            let has_time = self.quotas[group].as_mut().is_none_or(|quota| quota.has(cpu));
            if !has_time && !self.stopped[group][cpu] {
                self.stopped[group][cpu] = true;
            }
        }
        self.enter(thread, cpu, is_new);
    }

    fn groups_of(&self, thread: u32) -> Vec<usize> {
        std::iter::successors(Some(self.tasks[thread as usize].group), |&group| {
            self.rules.groups[group].parent
        })
        .collect()
    }

    /// Puts a real-time thread in line behind, or before, those of its priority.
    fn line_up(&mut self, thread: u32, cpu: usize, at_head: bool) {
        let priority = self.tasks[thread as usize].priority;
        let tasks = &self.tasks;
        let line = &mut self.queues[cpu].real_time;
        let place = line.partition_point(|&other| {
            let other = tasks[other as usize].priority;
            other < priority || (other == priority && !at_head)
        });
        line.insert(place, thread);
    }

    /// The running thread of a CPU stops running: it sleeps, ends, or remains runnable.
    pub fn put(&mut self, cpu: usize, now: i64, remains: bool, quantum_over: bool) {
        self.charge(cpu, now);
        let Some(thread) = self.queues[cpu].running.take() else { return };
        let index = thread as usize;
        self.tasks[index].last_cpu = Some(cpu);
        self.tasks[index].ran_until = now;
        let is_fair = self.tasks[index].is_fair();
        if remains {
            if !is_fair {
                self.line_up(thread, cpu, !quantum_over);
            }
            return;
        }
        self.queues[cpu].tasks.retain(|&other| other != thread);
        if !is_fair {
            self.tasks[index].cpu = None;
            return;
        }
        let queue = self.queue_of(self.tasks[index].group, cpu);
        let owes = self.fair[queue].lag(thread, &self.entities, f64::MAX) < 0.0;
        if owes && self.fair[queue].members.len() > 1 {
            self.entities[index].is_delayed = true;
        } else {
            self.tasks[index].cpu = None;
            self.remove(thread, cpu);
        }
    }

    /// The thread that a CPU runs next. It counts as running from then on.
    pub fn pick(&mut self, cpu: usize, now: i64) -> Option<u32> {
        self.charge(cpu, now);
        if !self.queues[cpu].real_time.is_empty() {
            self.follow(cpu, &[]);
            let thread = self.queues[cpu].real_time.remove(0);
            self.queues[cpu].running = Some(thread);
            return Some(thread);
        }
        let threads = self.tasks.len() as u32;
        let mut group = 0;
        let mut path = Vec::new();
        loop {
            let queue = self.queue_of(group, cpu);
            let Some(best) = self.fair[queue].best(&self.entities) else {
                self.follow(cpu, &[]);
                return None;
            };
            if best < threads && self.entities[best as usize].is_delayed {
                // The others have caught up.
                self.tasks[best as usize].cpu = None;
                self.remove(best, cpu);
                group = 0;
                path.clear();
                continue;
            }
            path.push((queue, best));
            if best < threads {
                self.follow(cpu, &path);
                self.queues[cpu].running = Some(best);
                return Some(best);
            }
            group = (best - threads) as usize / self.cpus();
        }
    }

    /// Makes the members on the path to a thread the current ones of their queues.
    fn follow(&mut self, cpu: usize, path: &[(usize, u32)]) {
        let threads = self.tasks.len();
        let mut left = std::mem::take(&mut self.queues[cpu].path);
        for &queue in &left {
            if !path.iter().any(|&(kept, _)| kept == queue) {
                self.fair[queue].current = None;
            }
        }
        left.clear();
        for &(queue, best) in path {
            // A group's protection ends whenever its weight changes, which is all the time.
            if self.fair[queue].current.replace(best) != Some(best) && (best as usize) < threads {
                let known = &mut self.entities[best as usize];
                known.protected_until = known.deadline;
            }
            left.push(queue);
        }
        self.queues[cpu].path = left;
    }

    /// Whether a thread that has become runnable on a CPU preempts what runs there.
    pub fn preempts(&mut self, thread: u32, cpu: usize) -> bool {
        let Some(running) = self.queues[cpu].running else { return true };
        let (own, other) = (&self.tasks[thread as usize], &self.tasks[running as usize]);
        if !own.is_fair() || !other.is_fair() {
            return own.priority < other.priority;
        }
        if self.is_stopped(thread, cpu) {
            return false;
        }
        let ours = self.chain(thread, cpu);
        let theirs = self.chain(running, cpu);
        // The innermost queue that both are in.
        for &(index, group) in &ours {
            if let Some(&(rival, _)) = theirs.iter().find(|&&(_, of)| of == group) {
                return index != rival
                    && self.fair[self.queue_of(group, cpu)].best(&self.entities) == Some(index);
            }
        }
        false
    }

    /// Whether a real-time thread of the same priority waits for the CPU.
    pub fn has_equal(&self, cpu: usize) -> bool {
        let queue = &self.queues[cpu];
        let priority = |thread: u32| self.tasks[thread as usize].priority;
        queue
            .running
            .zip(queue.real_time.first())
            .is_some_and(|(one, &other)| priority(one) == priority(other))
    }
}
