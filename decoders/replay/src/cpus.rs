//! Which CPU or which queue a ready thread gets; the rules of `simulate/cpu_choice.py`.

use crate::plan::{Cpu, Plan};
use crate::queues::Queues;
use crate::thread::{FOREVER, Thread};

/// A logical CPU with its running thread and its queues.
#[derive(Debug)]
pub struct Core {
    pub described: Cpu,
    pub siblings: Vec<usize>,
    pub running: Option<u32>,
    pub since: i64,
    pub slice_start: i64,
    pub version: u64,
    pub quantum_end: i64,
    pub is_parked: bool,
    pub queues: Queues,
}

/// The CPUs of the machine.
#[derive(Debug)]
pub struct Cpus {
    pub cores: Vec<Core>,
    /// Ready threads in all queues.
    queued: usize,
    shared_speed: f64,
    moves_running: bool,
}

/// Whole P cores, then E cores, then second siblings.
fn kind(cpu: &Cpu) -> i32 {
    match (cpu.is_second, cpu.is_efficient) {
        (true, _) => 2,
        (false, true) => 1,
        (false, false) => 0,
    }
}

/// CPUs in the order in which threads without an ideal CPU get theirs.
pub fn fill_order(cpus: &[Cpu]) -> Vec<usize> {
    let mut order: Vec<usize> = (0..cpus.len()).collect();
    order.sort_by_key(|&index| (kind(&cpus[index]), index));
    order
}

impl Cpus {
    pub fn new(plan: &Plan) -> Self {
        let cores = plan.cpus.iter().enumerate().map(|(index, &described)| Core {
            described,
            siblings: (0..plan.cpus.len())
                .filter(|&other| other != index && plan.cpus[other].core == described.core)
                .collect(),
            running: None,
            since: 0,
            slice_start: 0,
            version: 0,
            quantum_end: FOREVER,
            is_parked: false,
            queues: Queues::new(),
        });
        Self {
            cores: cores.collect(),
            queued: 0,
            shared_speed: plan.shared_speed,
            moves_running: plan.moves_running,
        }
    }

    /// Work per tick that a CPU does now.
    pub fn speed(&self, cpu: usize) -> f64 {
        let shared = if self.sibling_busy(cpu) { self.shared_speed } else { 1.0 };
        self.cores[cpu].described.speed * shared
    }

    pub fn sibling_busy(&self, cpu: usize) -> bool {
        self.cores[cpu].siblings.iter().any(|&other| self.cores[other].running.is_some())
    }

    /// The CPU whose queue a ready thread joins.
    pub fn home(&self, thread: &Thread) -> usize {
        let unparked = |cpu: usize| !self.cores[cpu].is_parked;
        let any = thread.affinity.iter().any(|&cpu| unparked(cpu));
        let usable = |cpu: usize| thread.may_use[cpu] && (!any || unparked(cpu));
        if usable(thread.ideal) {
            return thread.ideal;
        }
        if let Some(last) = thread.last_cpu.filter(|&cpu| usable(cpu)) {
            return last;
        }
        thread.affinity.iter().copied().find(|&cpu| usable(cpu)).unwrap_or(thread.ideal)
    }

    fn is_free_for(&self, cpu: usize, thread: &Thread) -> bool {
        let core = &self.cores[cpu];
        core.running.is_none() && !core.is_parked && thread.may_use[cpu]
    }

    fn rank(&self, cpu: usize, thread: &Thread) -> i32 {
        let described = &self.cores[cpu].described;
        if thread.is_eco && described.is_efficient {
            return -1;
        }
        if self.sibling_busy(cpu) { 2 } else { kind(described) }
    }

    /// The idle CPU that a ready thread takes; None if there is none that it may use.
    pub fn idle_cpu(&self, thread: &Thread) -> Option<usize> {
        let ideal = thread.ideal;
        if self.is_free_for(ideal, thread) && !thread.is_eco && !self.sibling_busy(ideal) {
            return Some(ideal);
        }
        let best = thread
            .affinity
            .iter()
            .copied()
            .filter(|&cpu| self.is_free_for(cpu, thread))
            .min_by_key(|&cpu| (self.rank(cpu, thread), Some(cpu) != thread.last_cpu, cpu));
        best.or_else(|| {
            // The mask may allow only parked CPUs; then one of them must run the thread.
            let home = self.home(thread);
            self.cores[home].running.is_none().then_some(home)
        })
    }

    /// Whether a thread moves when its quantum ends: off a parked CPU if it may use another, or to
    /// an idle CPU of a better kind.
    pub fn moves_off(&self, cpu: usize, thread: &Thread) -> bool {
        if self.cores[cpu].is_parked
            && thread.affinity.iter().any(|&other| !self.cores[other].is_parked)
        {
            return true;
        }
        if !self.moves_running {
            return false;
        }
        let here = self.rank(cpu, thread);
        thread
            .affinity
            .iter()
            .any(|&other| self.is_free_for(other, thread) && self.rank(other, thread) < here)
    }

    /// The CPU whose thread a ready one may preempt: the one with the lowest lower priority.
    pub fn lower_cpu(&self, thread: &Thread, priorities: &[Thread]) -> Option<usize> {
        let lower = thread.affinity.iter().filter_map(|&cpu| {
            let core = &self.cores[cpu];
            let running = priorities[core.running? as usize].priority;
            (running < thread.priority && !core.is_parked).then_some((
                running,
                cpu != thread.ideal,
                Some(cpu) != thread.last_cpu,
                cpu,
            ))
        });
        lower.min().map(|(.., cpu)| cpu)
    }

    pub fn enqueue(&mut self, cpu: usize, level: usize, thread: u32, at_head: bool) {
        self.cores[cpu].queues.add(level, thread, at_head);
        self.queued += 1;
    }

    /// Removes a thread from its queue.
    pub fn unqueue(&mut self, level: usize, thread: u32) {
        if self.cores.iter_mut().any(|core| core.queues.remove(level, thread)) {
            self.queued -= 1;
        }
    }

    /// The thread that a free CPU runs next: from its own queue, else from another CPU's.
    pub fn take_for(&mut self, cpu: usize, threads: &[Thread]) -> Option<u32> {
        if self.queued == 0 {
            return None;
        }
        if let Some(own) = self.cores[cpu].queues.take() {
            self.queued -= 1;
            return Some(own);
        }
        if self.cores[cpu].is_parked {
            return None;
        }
        let mut used = self.cores.iter().fold(0, |bits, core| bits | core.queues.used());
        while used != 0 {
            let level = 31 - used.leading_zeros() as usize;
            used &= !(1 << level);
            let best = self
                .cores
                .iter()
                .flat_map(|core| core.queues.level(level))
                .filter(|&&thread| threads[thread as usize].may_use[cpu])
                .min_by_key(|&&thread| threads[thread as usize].ready_since);
            if let Some(&best) = best {
                self.unqueue(level, best);
                return Some(best);
            }
        }
        None
    }
}
