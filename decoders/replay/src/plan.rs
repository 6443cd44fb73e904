//! What is replayed, and what comes of it.

use std::fmt;

use crate::limits::Limit;

/// A logical CPU.
#[derive(Debug, Clone, Copy)]
pub struct Cpu {
    /// Lowest index of the logical CPUs of its core.
    pub core: usize,
    /// Whether it is a second sibling.
    pub is_second: bool,
    /// Whether it is an E core.
    pub is_efficient: bool,
    /// Work per nanosecond; the fastest core alone does 1.
    pub speed: f64,
}

/// A step of a program.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Op {
    /// Computes; ns on the fastest core alone.
    Run(f64),
    /// Waits for a gate.
    Wait(u32),
    /// Computes for nothing until a gate is open.
    Spin(u32),
    /// Opens gates: first and one past the last in `Program::gates`.
    Open(u32, u32),
    /// Waits for a time, ns.
    Sleep(i64),
    /// Waits until a time of the recording, ns.
    Until(i64),
    /// Takes jobs of a section until none is left.
    Take(u32),
    /// Presents a frame that the GPU renders for that many ns.
    Present(i64),
    /// Ends a frame that no GPU time is known of.
    Mark,
}

/// A group of threads that share CPU time among themselves (Linux).
#[derive(Debug, Clone)]
pub struct Group {
    /// The group that contains it; None: the root group, which comes first.
    pub parent: Option<usize>,
    /// Its weight among the threads and groups of its parent; a thread of nice 0 has 1024.
    pub shares: f64,
    /// CPU time and the period in which it may use that, ns.
    pub quota: Option<(f64, i64)>,
}

/// What differs between Linux machines.
#[derive(Debug, Clone)]
pub struct LinuxRules {
    /// How long a fair thread runs before another that waits; at least until the next tick.
    pub slice_ns: f64,
    /// Time between two ticks of the clock.
    pub tick_ns: i64,
    /// Each after the group that contains it.
    pub groups: Vec<Group>,
}

/// Work of watched threads whose end is of interest.
#[derive(Debug, Clone, Copy, Default)]
pub struct Goal {
    /// ns on the fastest core alone; 0: none.
    pub work_ns: f64,
}

/// A thread: what the scheduler knows about it, and what it does.
#[derive(Debug, Clone, Default)]
pub struct Program {
    /// Threads with one process share the frames in flight.
    pub process: usize,
    /// Base priority; on Linux the kernel's, below 100 for real-time threads.
    pub priority: i32,
    /// Indices of the CPUs that it may use.
    pub affinity: Vec<usize>,
    /// Index of its ideal CPU, by default the cores in turn; on Linux of the CPU it starts on.
    pub ideal: Option<usize>,
    /// Whether it has EcoQoS.
    pub is_eco: bool,
    /// Windows: index of the quota that limits it.
    pub limit: Option<usize>,
    /// Linux: index of its group.
    pub group: usize,
    /// Linux: whether it takes turns with real-time threads of its priority.
    pub is_round_robin: bool,
    /// Linux: whether its policy is SCHED_IDLE.
    pub is_background: bool,
    /// Whether its work counts for the goal, and its responses are wanted.
    pub is_watched: bool,
    /// Its steps.
    pub ops: Vec<Op>,
    /// Gates that `Op::Open` names.
    pub gates: Vec<u32>,
}

/// Jobs that any worker of a pool takes.
#[derive(Debug, Clone)]
pub struct Section {
    /// The gate that opens when all are done.
    pub gate: u32,
    /// Lengths in ns; the last one is taken first.
    pub jobs: Vec<f64>,
}

/// A change of the parking state of a CPU.
#[derive(Debug, Clone, Copy)]
pub struct Parking {
    /// When.
    pub at_ns: i64,
    /// Index of the CPU.
    pub cpu: usize,
    /// Whether it is parked from then on; soft parking does not count.
    pub is_parked: bool,
}

/// The recorded machine, its threads, and the rules.
#[derive(Debug, Clone)]
pub struct Plan {
    /// Logical CPUs by index.
    pub cpus: Vec<Cpu>,
    /// Speed of each sibling while another is busy.
    pub shared_speed: f64,
    /// Length of a quantum.
    pub quantum_ns: i64,
    /// Priority added to a thread below 15 when a gate or a timer wakes it.
    pub wake_boost: i32,
    /// A thread that has been ready this long is boosted to 15 once.
    pub starved_ns: i64,
    /// Threads.
    pub programs: Vec<Program>,
    /// By gate: how many threads must open it before it lets its wait pass.
    pub needed: Vec<i32>,
    /// Jobs of pools.
    pub sections: Vec<Section>,
    /// In the order of time.
    pub parking: Vec<Parking>,
    /// Quotas of CPU time under the rules of Windows.
    pub limits: Vec<Limit>,
    /// Whether a thread moves to a better idle CPU when its quantum ends (Windows).
    pub moves_running: bool,
    /// Share of wakeups after which a thread queues on its own busy CPU although another that it
    /// may use is idle (Windows).
    pub stranded_share: f64,
    /// Running and ready time count up to here.
    pub until_ns: i64,
    /// Rules of Linux; None: those of Windows.
    pub linux: Option<LinuxRules>,
    /// Work of the watched threads.
    pub goal: Goal,
}

/// What a replay did, by thread.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Outcome {
    /// Lengths of frames that were presented.
    pub frames: Vec<Vec<i64>>,
    /// Times at which frames without GPU time ended.
    pub marks: Vec<Vec<i64>>,
    /// Running time by thread, then by CPU.
    pub running_ns: Vec<Vec<i64>>,
    /// Ready time.
    pub ready_ns: Vec<i64>,
    /// By watched thread: times from a wakeup to the next wait, in order.
    pub responses: Vec<Vec<i64>>,
    /// When a watched thread ran first.
    pub begun_ns: Option<i64>,
    /// When the watched threads had done the work of the goal; None: they had not.
    pub goal_ns: Option<i64>,
    /// Switches from one thread to another or to idle, up to `Plan::until_ns`.
    pub switches: u64,
}

/// Why a plan cannot be replayed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum BadPlan {
    /// There is no CPU, or one is slower than a ten-thousandth of the fastest.
    Cpus,
    /// A thread may use no CPU, or one that is not there, or has no priority of its system.
    Thread(usize),
    /// A thread names a gate that is not there.
    Gate(usize),
    /// The quantum is shorter than a tick of the clock, or a time is negative.
    Times,
    /// A group is not after the one that contains it, or its numbers are out of range.
    Groups,
}

impl fmt::Display for BadPlan {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Cpus => write!(f, "the machine has no CPU, or one without a speed"),
            Self::Thread(index) => write!(f, "thread {index} has no CPU to run on, or no priority"),
            Self::Gate(index) => write!(f, "thread {index} waits for or opens an unknown gate"),
            Self::Groups => write!(f, "a group of threads has no parent, shares or period"),
            Self::Times => write!(f, "a time is negative, or the quantum is too short"),
        }
    }
}

impl std::error::Error for BadPlan {}

impl Plan {
    /// Whether all indices and numbers are in range.
    ///
    /// # Errors
    /// The first thing that is not.
    pub fn check(&self) -> Result<(), BadPlan> {
        // Not a number is no speed either.
        let is_speed = |speed: f64| (1e-4..=1e4).contains(&speed);
        let cpus = self.cpus.len();
        if cpus == 0
            || self.cpus.iter().any(|cpu| !is_speed(cpu.speed) || cpu.core >= cpus)
            || !is_speed(self.shared_speed)
        {
            return Err(BadPlan::Cpus);
        }
        if self.quantum_ns < crate::thread::TICK_NS || self.starved_ns <= 0 || self.until_ns < 0 {
            return Err(BadPlan::Times);
        }
        let limit_fits = |limit: &Limit| {
            limit.quota_ns >= 1e3
                && limit.period_ns >= 1_000_000
                && (0..=limit.period_ns).contains(&limit.begin_ns)
        };
        if !self.limits.iter().all(limit_fits) || !(0.0..=1.0).contains(&self.stranded_share) {
            return Err(BadPlan::Times);
        }
        let priorities = if self.linux.is_some() { -1..=139 } else { 0..=31 };
        let groups = self.linux.as_ref().map_or(1, |rules| rules.groups.len());
        self.linux.as_ref().map_or(Ok(()), LinuxRules::check)?;
        let known = |gate: u32| (gate as usize) < self.needed.len();
        for (index, program) in self.programs.iter().enumerate() {
            if program.affinity.is_empty()
                || program.affinity.iter().chain(&program.ideal).any(|&cpu| cpu >= cpus)
                || !priorities.contains(&program.priority)
                || program.group >= groups
                || program.limit.is_some_and(|limit| limit >= self.limits.len())
                || program.process >= self.programs.len()
            {
                return Err(BadPlan::Thread(index));
            }
            let fits = program.ops.iter().all(|op| match *op {
                Op::Wait(gate) | Op::Spin(gate) | Op::Take(gate) => known(gate),
                Op::Open(first, end) => first <= end && end as usize <= program.gates.len(),
                _ => true,
            });
            if !fits || !program.gates.iter().all(|&gate| known(gate)) {
                return Err(BadPlan::Gate(index));
            }
        }
        if self.parking.iter().any(|change| change.cpu >= cpus) {
            return Err(BadPlan::Cpus);
        }
        if !self.sections.iter().all(|section| known(section.gate)) {
            return Err(BadPlan::Gate(self.programs.len()));
        }
        Ok(())
    }
}

impl LinuxRules {
    fn check(&self) -> Result<(), BadPlan> {
        let is_fine = |(index, group): (usize, &Group)| {
            let parent_fits = group.parent.map_or(index == 0, |parent| parent < index);
            let quota_fits =
                group.quota.is_none_or(|(ns, period)| ns >= 1e3 && period >= 1_000_000);
            parent_fits && quota_fits && (1.0..=1e9).contains(&group.shares)
        };
        if self.groups.is_empty() || !self.groups.iter().enumerate().all(is_fine) {
            return Err(BadPlan::Groups);
        }
        let slices = 1e4..=1e9;
        if self.tick_ns < 100_000 || !slices.contains(&self.slice_ns) {
            return Err(BadPlan::Times);
        }
        Ok(())
    }
}
