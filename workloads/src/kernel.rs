//! What a kernel is: its description, and how it is built, run in batches and verified.

use std::sync::Arc;

use crate::beat::FrameMark;
use crate::histogram::Histogram;

/// A comparison of an exact value with the found one.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Proof {
    pub proof: String,
    pub expected: String,
    pub found: String,
}

impl Proof {
    /// A comparison; it holds if both have the same text.
    pub fn new(proof: impl Into<String>, expected: impl ToString, found: impl ToString) -> Proof {
        Proof { proof: proof.into(), expected: expected.to_string(), found: found.to_string() }
    }

    /// Whether it holds.
    pub fn holds(&self) -> bool {
        self.expected == self.found
    }
}

/// A worker's share of a kernel, on its own thread.
pub trait Work {
    /// Runs `iterations`; fewer only if a partner has left. Returns how many were done.
    fn batch(&mut self, iterations: u64) -> u64;

    /// Called when the measured interval begins: calibration does not count.
    fn begin(&mut self) {}

    /// Compares the results of all batches so far with their expected values; called once all
    /// workers have stopped.
    fn prove(&mut self) -> Vec<Proof>;

    /// Bytes an iteration reads.
    fn bytes_per_iteration(&self) -> u64 {
        0
    }

    /// Signals a partner, if there is one, that this worker stops.
    fn leave(&self) {}

    /// The thread's name, if the kernel's name would not distinguish the workers.
    fn role(&self) -> Option<&'static str> {
        None
    }

    /// Whether it counts iterations; false if it only helps other workers.
    fn iterates(&self) -> bool {
        true
    }

    /// The frames it started since `begin`.
    fn frames(&self) -> &[FrameMark] {
        &[]
    }

    /// The duration of each request since `begin`, in ns.
    fn latency(&self) -> Option<&Histogram> {
        None
    }

    /// Kernel-specific counts over all batches so far, to be summed over the workers.
    fn counts(&self) -> Vec<(&'static str, u64)> {
        Vec::new()
    }

    /// Kernel-specific sizes, the same for each worker.
    fn sizes(&self) -> Vec<(&'static str, u64)> {
        Vec::new()
    }

    /// Reasons to doubt the timing or the machine.
    fn warnings(&self) -> Vec<String> {
        Vec::new()
    }
}

/// Connects the two parties of a pair across phases.
pub trait Link: Send + Sync {
    /// Both parties return from their batches as soon as they would wait for each other.
    fn release(&self);

    /// They wait for each other again.
    fn rearm(&self);
}

/// Creates a worker's share on the worker's own thread, already on its CPU, so that its memory is
/// first touched there. The argument is the CPU it is pinned to.
pub type Builder = Box<dyn FnOnce(Option<usize>) -> Result<Box<dyn Work>, String> + Send>;

/// All workers of a run.
pub struct Crew {
    pub builders: Vec<Builder>,
    pub links: Vec<Arc<dyn Link>>,
}

impl Crew {
    /// Independent workers.
    pub fn alone<W: Work + 'static>(
        threads: usize,
        build: impl Fn(Option<usize>) -> Result<W, String> + Send + Sync + 'static,
    ) -> Crew {
        Crew::numbered(threads, move |_, cpu| build(cpu))
    }

    /// The same, but each worker gets its number.
    pub fn numbered<W: Work + 'static>(
        threads: usize,
        build: impl Fn(usize, Option<usize>) -> Result<W, String> + Send + Sync + 'static,
    ) -> Crew {
        let build = Arc::new(build);
        let builders = (0..threads)
            .map(|worker| {
                let build = Arc::clone(&build);
                let builder: Builder = Box::new(move |cpu| Ok(Box::new(build(worker, cpu)?)));
                builder
            })
            .collect();
        Crew { builders, links: Vec::new() }
    }
}

/// How parties of spin_handoff and frame wait, and how serve waits for requests.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum How {
    Spin,
    Yield,
    Park,
}

impl How {
    /// Its name in results.
    pub fn name(self) -> &'static str {
        match self {
            How::Spin => "spin",
            How::Yield => "yield",
            How::Park => "park",
        }
    }
}

/// What the user may choose in addition to the variant.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Options {
    /// Capacity of the queue, 1 to 64.
    pub depth: usize,
    pub how: How,
    /// Requests that arrive at each worker of `serve open` a second.
    pub rate: f64,
    /// Determines when the requests of `serve open` arrive.
    pub seed: u64,
    /// Hand-offs that a frame of `frame` needs.
    pub handoffs: u64,
}

impl Default for Options {
    fn default() -> Self {
        Options { depth: 1, how: How::Spin, rate: 1000.0, seed: 0, handoffs: 9 }
    }
}

/// A form of a kernel.
pub struct Variant {
    pub name: &'static str,
    /// Why this machine cannot run it with this many threads.
    pub refusal: fn(threads: usize) -> Option<String>,
    pub crew: fn(threads: usize, options: Options) -> Crew,
}

/// What an iteration is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Unit {
    Iterations,
    Bytes,
    Hops,
    Items,
}

impl Unit {
    /// Its name in results.
    pub fn name(self) -> &'static str {
        match self {
            Unit::Iterations => "iterations",
            Unit::Bytes => "bytes",
            Unit::Hops => "hops",
            Unit::Items => "items",
        }
    }
}

/// An entry of the catalog.
pub struct Kernel {
    pub name: &'static str,
    pub summary: &'static str,
    /// Which ports or latencies limit it.
    pub note: &'static str,
    pub unit: Unit,
    /// Number of workers that belong together.
    pub parties: usize,
    /// The first one is the default.
    pub variants: &'static [Variant],
    /// Core cycles an iteration according to the literature; a difference is only a warning.
    pub usual_cycles: Option<f64>,
    /// Instructions an iteration, if its loop is written in assembly.
    pub instructions: Option<u64>,
}

impl Kernel {
    /// Whether its workers wait for nobody: neither for partners nor for the next frame.
    pub fn is_alone(&self) -> bool {
        self.parties == 1 && !self.keeps_beat()
    }

    /// Whether it runs at a fixed frame rate and records frames, with any number of threads.
    pub fn keeps_beat(&self) -> bool {
        ["frame", "game"].contains(&self.name)
    }

    /// Whether its workers change the same cache lines.
    pub fn contends(&self) -> bool {
        ["mpmc_queue", "atomic_counter", "spin_lock", "mutex", "false_sharing"].contains(&self.name)
    }
}

/// A variant that every machine can run.
pub fn anywhere(_threads: usize) -> Option<String> {
    None
}
