//! What is replayed, and what comes of it.

use std::fmt;

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

/// A thread: what the scheduler knows about it, and what it does.
#[derive(Debug, Clone, Default)]
pub struct Program {
    /// Threads with one process share the frames in flight.
    pub process: usize,
    /// Base priority.
    pub priority: i32,
    /// Indices of the CPUs that it may use.
    pub affinity: Vec<usize>,
    /// Index of its ideal CPU; by default the cores in turn.
    pub ideal: Option<usize>,
    /// Whether it has EcoQoS.
    pub is_eco: bool,
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
    /// Running and ready time count up to here.
    pub until_ns: i64,
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
    /// Switches from one thread to another or to idle, up to `Plan::until_ns`.
    pub switches: u64,
}

/// Why a plan cannot be replayed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum BadPlan {
    /// There is no CPU, or one is slower than a ten-thousandth of the fastest.
    Cpus,
    /// A thread may use no CPU, or one that is not there, or has a priority outside 0 to 31.
    Thread(usize),
    /// A thread names a gate that is not there.
    Gate(usize),
    /// The quantum is shorter than a tick of the clock, or a time is negative.
    Times,
}

impl fmt::Display for BadPlan {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Cpus => write!(f, "the machine has no CPU, or one without a speed"),
            Self::Thread(index) => write!(f, "thread {index} has no CPU to run on, or no priority"),
            Self::Gate(index) => write!(f, "thread {index} waits for or opens an unknown gate"),
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
        let known = |gate: u32| (gate as usize) < self.needed.len();
        for (index, program) in self.programs.iter().enumerate() {
            if program.affinity.is_empty()
                || program.affinity.iter().chain(&program.ideal).any(|&cpu| cpu >= cpus)
                || !(0..=31).contains(&program.priority)
                || program.process >= self.programs.len()
            {
                return Err(BadPlan::Thread(index));
            }
            let fits = program.ops.iter().all(|op| match *op {
                Op::Wait(gate) | Op::Take(gate) => known(gate),
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
