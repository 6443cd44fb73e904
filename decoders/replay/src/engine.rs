//! The simulated scheduler; the rules of `simulate/scheduler.py`.

mod held;
mod linux;
mod program;
mod windows;

use std::cmp::Reverse;
use std::collections::{BinaryHeap, VecDeque};

use crate::cpus::{Core, Cpus, fill_order};
use crate::limits::Used;
use crate::linux::{Linux, Task};
use crate::plan::{BadPlan, Outcome, Plan};
use crate::thread::{FOREVER, State, TICK_NS, Thread};

/// A replay that takes longer than this many times the recording has not made the frames.
const LONGEST: i64 = 3;

#[derive(Debug, Default)]
struct Gate {
    count: i64,
    waiting: VecDeque<u32>,
    spinning: VecDeque<u32>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Event {
    Begin(u32),
    Alarm(u32),
    Starved(u32),
    /// CPU, thread, and the version of the CPU's schedule that this is about.
    Finished(usize, u32, u64),
    Quantum(usize, u32, u64),
    Park(usize, bool),
    Tick(usize),
    /// Group, and the length of its period.
    Refill(usize, i64),
    /// Quota, and the version of its state that this is about.
    Spent(usize, u64),
    Renew(usize),
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Why {
    Ended,
    Blocked,
    Quantum,
}

/// The run queues under the rules of Linux, if the plan has them.
fn linux(plan: &Plan) -> Option<Box<Linux>> {
    let tasks = plan.programs.iter().map(|program| {
        let mut may_use = vec![false; plan.cpus.len()];
        for &cpu in &program.affinity {
            may_use[cpu] = true;
        }
        Task {
            priority: program.priority,
            group: program.group,
            is_background: program.is_background,
            affinity: (0..may_use.len()).filter(|&cpu| may_use[cpu]).collect(),
            may_use,
            cpu: None,
            last_cpu: program.ideal,
            ran_until: 0,
            is_new: true,
        }
    });
    let rules = plan.linux.clone()?;
    Some(Box::new(Linux::new(rules, &plan.cpus, tasks.collect())))
}

/// A replay in progress.
#[derive(Debug)]
pub struct Replay {
    plan: Plan,
    now: i64,
    cpus: Cpus,
    threads: Vec<Thread>,
    gates: Vec<Gate>,
    left: Vec<i32>,
    jobs: Vec<Vec<f64>>,
    undone: Vec<usize>,
    heap: BinaryHeap<Reverse<(i64, u64, Event)>>,
    order: u64,
    gpu_free: i64,
    in_flight: Vec<VecDeque<i64>>,
    linux: Option<Box<Linux>>,
    limits: Vec<Used>,
    /// By CPU: whether its next tick is an event already.
    ticking: Vec<bool>,
    /// The CPU whose thread wakes others just now.
    waker: Option<usize>,
    /// Work that watched threads have done, in ticks.
    done: f64,
    outcome: Outcome,
}

impl Replay {
    /// Prepares a replay.
    ///
    /// # Errors
    /// If something in the plan is out of range.
    pub fn new(plan: Plan) -> Result<Self, BadPlan> {
        plan.check()?;
        let order = fill_order(&plan.cpus);
        let count = plan.programs.len();
        let threads = plan.programs.iter().enumerate().map(|(index, program)| {
            let mut may_use = vec![false; plan.cpus.len()];
            for &cpu in &program.affinity {
                may_use[cpu] = true;
            }
            Thread {
                affinity: (0..may_use.len()).filter(|&cpu| may_use[cpu]).collect(),
                may_use,
                ideal: program.ideal.unwrap_or(order[index % order.len()]),
                is_eco: program.is_eco,
                priority: program.priority,
                last_cpu: None,
                ready_since: 0,
                base_priority: program.priority,
                state: State::New,
                quantum_left: 0,
                work: 0.0,
                frame_start: 0,
                woken_at: 0,
                is_watched: program.is_watched,
                spins: false,
                next_op: 0,
                in_job: false,
                stranding: 0.5,
            }
        });
        let mut jobs = vec![Vec::new(); plan.needed.len()];
        let mut undone = vec![0; plan.needed.len()];
        for section in &plan.sections {
            undone[section.gate as usize] = section.jobs.len();
            jobs[section.gate as usize].clone_from(&section.jobs);
        }
        let mut made = Self {
            now: 0,
            cpus: Cpus::new(&plan),
            threads: threads.collect(),
            gates: plan.needed.iter().map(|_| Gate::default()).collect(),
            left: plan.needed.clone(),
            jobs,
            undone,
            heap: BinaryHeap::new(),
            order: 0,
            gpu_free: 0,
            in_flight: vec![VecDeque::new(); count],
            outcome: Outcome {
                frames: vec![Vec::new(); count],
                marks: vec![Vec::new(); count],
                running_ns: vec![vec![0; plan.cpus.len()]; count],
                ready_ns: vec![0; count],
                responses: vec![Vec::new(); count],
                begun_ns: None,
                goal_ns: None,
                switches: 0,
            },
            linux: linux(&plan),
            limits: plan.limits.iter().copied().map(Used::new).collect(),
            ticking: vec![false; plan.cpus.len()],
            waker: None,
            done: 0.0,
            plan,
        };
        for thread in 0..count {
            made.at(0, Event::Begin(thread as u32));
        }
        let periods: Vec<_> = made.linux.iter().flat_map(|linux| linux.periods()).collect();
        for (group, period_ns) in periods {
            made.at(period_ns, Event::Refill(group, period_ns));
        }
        for index in 0..made.limits.len() {
            made.at(made.plan.limits[index].begin_ns, Event::Renew(index));
        }
        for index in 0..made.plan.parking.len() {
            let change = made.plan.parking[index];
            made.at(change.at_ns, Event::Park(change.cpu, change.is_parked));
        }
        Ok(made)
    }

    /// The time at which a replay is given up.
    pub fn longest_ns(&self) -> i64 {
        self.plan.until_ns.saturating_mul(LONGEST)
    }

    /// Runs up to a time.
    pub fn run_to(&mut self, until: i64) {
        while let Some(&Reverse((when, _, event))) = self.heap.peek() {
            if when > until {
                break;
            }
            self.heap.pop();
            self.now = when;
            match event {
                Event::Begin(thread) => self.begin(thread),
                Event::Alarm(thread) => self.wake(thread, self.plan.wake_boost),
                Event::Starved(thread) => self.starved(thread),
                Event::Finished(cpu, thread, version) => self.finished(cpu, thread, version),
                Event::Quantum(cpu, thread, version) => self.quantum(cpu, thread, version),
                Event::Park(cpu, is_parked) => self.park(cpu, is_parked),
                Event::Tick(cpu) => self.tick(cpu),
                Event::Refill(group, period_ns) => self.refill(group, period_ns),
                Event::Spent(limit, version) => self.spent(limit, version),
                Event::Renew(limit) => self.renew(limit),
            }
        }
    }

    /// Ends the replay.
    pub fn outcome(mut self) -> Outcome {
        self.now = self.longest_ns();
        for cpu in 0..self.cpus.cores.len() {
            if let Some(thread) = self.cpus.cores[cpu].running {
                self.advance(cpu);
                self.end_slice(cpu, thread);
            }
        }
        for thread in 0..self.threads.len() {
            if self.threads[thread].state == State::Ready {
                self.end_ready(thread as u32);
            }
        }
        self.outcome
    }

    /// Adds an event; those at one time happen in the order in which they were added.
    fn at(&mut self, when: i64, event: Event) {
        self.order += 1;
        let ticks = when.saturating_add(TICK_NS - 1).div_euclid(TICK_NS);
        let when = ticks.saturating_mul(TICK_NS).max(self.now);
        self.heap.push(Reverse((when, self.order, event)));
    }

    fn wake(&mut self, thread: u32, boost: i32) {
        self.threads[thread as usize].woken_at = self.now;
        match self.linux.take() {
            Some(linux) => self.linux_wake(linux, thread),
            None => self.windows_wake(thread, boost),
        }
    }

    // CPUs.

    /// Accounts for the work done since the last update.
    fn advance(&mut self, cpu: usize) {
        self.reach_goal(cpu);
        let speed = self.cpus.speed(cpu);
        let core = &mut self.cpus.cores[cpu];
        if let Some(thread) = core.running {
            let spent = (self.now - core.since) as f64 / TICK_NS as f64;
            let known = &mut self.threads[thread as usize];
            let done = (spent * speed).min(known.work);
            known.work -= done;
            if known.is_watched {
                self.done += done;
                if done > 0.0 {
                    let begun = self.outcome.begun_ns.get_or_insert(core.since);
                    *begun = core.since.min(*begun);
                }
            }
        }
        core.since = self.now;
    }

    /// Notes when the watched threads had done the work of the goal, if that was since the last
    /// update of one of them; `cpu` is updated next. Work that is not accounted for counts, too:
    /// slices on other CPUs may have begun long ago.
    fn reach_goal(&mut self, cpu: usize) {
        let wanted = self.plan.goal.work_ns / TICK_NS as f64 - self.done;
        let is_watched = |thread: u32| self.threads[thread as usize].is_watched;
        if self.plan.goal.work_ns <= 0.0
            || self.outcome.goal_ns.is_some()
            || !self.cpus.cores[cpu].running.is_some_and(is_watched)
        {
            return;
        }
        let done_at = |time: i64| {
            let of_cpu = |(cpu, core): (usize, &Core)| {
                let thread = core.running.filter(|&thread| is_watched(thread))?;
                let spent = (time - core.since).max(0) as f64 / TICK_NS as f64;
                Some((spent * self.cpus.speed(cpu)).min(self.threads[thread as usize].work))
            };
            self.cpus.cores.iter().enumerate().filter_map(of_cpu).sum::<f64>()
        };
        if done_at(self.now) < wanted {
            return;
        }
        let (mut before, mut after) = (0, self.now);
        while after - before > 1 {
            let middle = before + (after - before) / 2;
            if done_at(middle) < wanted { before = middle } else { after = middle }
        }
        self.outcome.goal_ns = Some(after);
    }

    fn reschedule(&mut self, cpu: usize) {
        let speed = self.cpus.speed(cpu);
        let core = &mut self.cpus.cores[cpu];
        core.version += 1;
        let (version, quantum_end) = (core.version, core.quantum_end);
        let Some(thread) = core.running else { return };
        let known = &self.threads[thread as usize];
        if !known.spins {
            let ticks = (known.work / speed - 1e-9).ceil() as i64;
            let end = self.now.saturating_add(ticks.max(0).saturating_mul(TICK_NS));
            self.at(end, Event::Finished(cpu, thread, version));
        }
        if quantum_end < FOREVER {
            self.at(quantum_end, Event::Quantum(cpu, thread, version));
        }
    }

    fn is_current(&self, cpu: usize, thread: u32, version: u64) -> bool {
        let core = &self.cpus.cores[cpu];
        core.version == version && core.running == Some(thread)
    }

    fn finished(&mut self, cpu: usize, thread: u32, version: u64) {
        if self.is_current(cpu, thread, version) {
            self.advance(cpu);
            self.threads[thread as usize].work = 0.0;
            self.step(cpu, thread);
        }
    }

    /// A thread leaves its CPU to the next one in line, or to the idle thread.
    fn leave(&mut self, cpu: usize, thread: u32, why: Why) {
        let known = &self.threads[thread as usize];
        if known.is_watched && why != Why::Quantum {
            self.outcome.responses[thread as usize].push(self.now - known.woken_at);
        }
        if let Some(linux) = self.linux.take() {
            self.linux_leave(linux, cpu, thread, why);
            return;
        }
        self.advance(cpu);
        self.end_slice(cpu, thread);
        let following = self.cpus.take_for(cpu, &self.threads);
        self.switch(cpu, Some(thread), following);
        match why {
            Why::Quantum => self.place(thread, false),
            Why::Blocked => self.threads[thread as usize].state = State::Waiting,
            Why::Ended => self.threads[thread as usize].state = State::Ended,
        }
        if let Some(following) = following {
            self.after_entry(cpu, following);
        }
    }

    fn after_entry(&mut self, cpu: usize, thread: u32) {
        if self.cpus.cores[cpu].running != Some(thread) {
            return;
        }
        let known = &self.threads[thread as usize];
        if known.work > 0.0 || known.spins {
            self.reschedule(cpu);
        } else {
            // Its program continues after everything at this time has happened.
            self.cpus.cores[cpu].version += 1;
            let version = self.cpus.cores[cpu].version;
            self.at(self.now, Event::Finished(cpu, thread, version));
        }
    }

    fn switch(&mut self, cpu: usize, leaver: Option<u32>, entered: Option<u32>) {
        for place in 0..self.cpus.cores[cpu].siblings.len() {
            self.advance(self.cpus.cores[cpu].siblings[place]);
        }
        if let Some(leaver) = leaver {
            self.threads[leaver as usize].last_cpu = Some(cpu);
        }
        self.outcome.switches += u64::from(self.now < self.plan.until_ns);
        self.count(leaver, false);
        self.count(entered, true);
        let mut quantum_end = FOREVER;
        if let Some(entered) = entered {
            self.end_ready(entered);
            let known = &mut self.threads[entered as usize];
            known.state = State::Running;
            if self.plan.linux.is_none() {
                quantum_end = self.now + known.quantum_left;
            }
        }
        let core = &mut self.cpus.cores[cpu];
        core.running = entered;
        (core.since, core.slice_start) = (self.now, self.now);
        core.version += 1;
        core.quantum_end = quantum_end;
        for place in 0..self.cpus.cores[cpu].siblings.len() {
            let other = self.cpus.cores[cpu].siblings[place];
            if self.cpus.cores[other].running.is_some() {
                self.reschedule(other);
            }
        }
    }

    fn end_slice(&mut self, cpu: usize, thread: u32) {
        let spent = self.counted(self.cpus.cores[cpu].slice_start);
        self.outcome.running_ns[thread as usize][cpu] += spent;
    }

    fn end_ready(&mut self, thread: u32) {
        let spent = self.counted(self.threads[thread as usize].ready_since);
        self.outcome.ready_ns[thread as usize] += spent;
    }

    /// Time since `start`, up to the end of the recording.
    fn counted(&self, start: i64) -> i64 {
        (self.now.min(self.plan.until_ns) - start).max(0)
    }

    fn park(&mut self, cpu: usize, is_parked: bool) {
        let core = &mut self.cpus.cores[cpu];
        core.is_parked = is_parked;
        if is_parked || core.running.is_some() {
            return;
        }
        if let Some(thread) = self.cpus.take_for(cpu, &self.threads) {
            self.switch(cpu, None, Some(thread));
            self.after_entry(cpu, thread);
        }
    }
}
