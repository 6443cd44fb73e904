//! What a kernel is: how it is described, built, run in batches and proved.

use std::sync::Arc;

use crate::beat::FrameMark;
use crate::histogram::Histogram;

/// One comparison of an exact value with what was found.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Proof {
    pub proof: String,
    pub expected: String,
    pub found: String,
}

impl Proof {
    /// A comparison; it holds where both read the same.
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
    /// Does `iterations` of them; fewer only where a partner has left. Returns how many were done.
    fn batch(&mut self, iterations: u64) -> u64;

    /// The measured interval begins: what was done to find the pace does not count.
    fn begin(&mut self) {}

    /// Compares what all batches so far left behind with what they must have; called once all
    /// workers have stopped.
    fn prove(&mut self) -> Vec<Proof>;

    /// Bytes an iteration reads.
    fn bytes_per_iteration(&self) -> u64 {
        0
    }

    /// Tells the partner, if there is one, that this worker does not go on.
    fn leave(&self) {}

    /// What its thread is named after, where the kernel's name would not tell the workers apart.
    fn role(&self) -> Option<&'static str> {
        None
    }

    /// It counts iterations of its own; false where it only helps others with theirs.
    fn iterates(&self) -> bool {
        true
    }

    /// The frames it began since `begin`.
    fn frames(&self) -> &[FrameMark] {
        &[]
    }

    /// How long each request since `begin` took, in ns.
    fn latency(&self) -> Option<&Histogram> {
        None
    }

    /// Numbers of its own over all batches so far, summed over the workers.
    fn counts(&self) -> Vec<(&'static str, u64)> {
        Vec::new()
    }

    /// Sizes of its own, the same for each worker.
    fn sizes(&self) -> Vec<(&'static str, u64)> {
        Vec::new()
    }

    /// What timing or the machine make doubtful.
    fn warnings(&self) -> Vec<String> {
        Vec::new()
    }
}

/// Ties the two parties of a pair together across phases.
pub trait Link: Send + Sync {
    /// Both parties return from their batches as soon as they would wait for each other.
    fn release(&self);

    /// They wait for each other again.
    fn rearm(&self);
}

/// Makes a worker's share on the worker's own thread, already on its CPU, so that its memory is
/// first touched there. The argument is the CPU it is bound to.
pub type Builder = Box<dyn FnOnce(Option<usize>) -> Result<Box<dyn Work>, String> + Send>;

/// All workers of a run.
pub struct Crew {
    pub builders: Vec<Builder>,
    pub links: Vec<Arc<dyn Link>>,
}

impl Crew {
    /// Workers that know nothing of each other.
    pub fn alone<W: Work + 'static>(
        threads: usize,
        build: impl Fn(Option<usize>) -> Result<W, String> + Send + Sync + 'static,
    ) -> Crew {
        Crew::numbered(threads, move |_, cpu| build(cpu))
    }

    /// The same, each told its number.
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

/// How a party of spin_handoff or frame waits, and serve for the next request.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum How {
    Spin,
    Yield,
    Park,
}

impl How {
    /// The word for it.
    pub fn name(self) -> &'static str {
        match self {
            How::Spin => "spin",
            How::Yield => "yield",
            How::Park => "park",
        }
    }
}

/// What the user may choose beside the variant.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Options {
    /// Places in the queue, 1 to 64.
    pub depth: usize,
    pub how: How,
    /// Requests that arrive at each worker of `serve open` a second.
    pub rate: f64,
    /// Hand-offs that a frame of `frame` needs.
    pub handoffs: u64,
}

impl Default for Options {
    fn default() -> Self {
        Options { depth: 1, how: How::Spin, rate: 1000.0, handoffs: 9 }
    }
}

/// A form of a kernel.
pub struct Variant {
    pub name: &'static str,
    /// Why this machine cannot run it on so many threads.
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
    /// The word for results.
    pub fn name(self) -> &'static str {
        match self {
            Unit::Iterations => "iterations",
            Unit::Bytes => "bytes",
            Unit::Hops => "hops",
            Unit::Items => "items",
        }
    }
}

/// A line of the catalogue.
pub struct Kernel {
    pub name: &'static str,
    pub summary: &'static str,
    /// Which ports or latencies bind it.
    pub note: &'static str,
    pub unit: Unit,
    /// Workers that belong together.
    pub parties: usize,
    /// The first is the one taken unless another is asked for.
    pub variants: &'static [Variant],
    /// Core cycles an iteration on the cores of the literature; only ever a warning.
    pub usual_cycles: Option<f64>,
}

impl Kernel {
    /// It keeps a beat and stamps its frames, so that its pace is the same with any threads.
    pub fn keeps_beat(&self) -> bool {
        ["frame", "game"].contains(&self.name)
    }
}

/// A variant that every machine can run.
pub fn anywhere(_threads: usize) -> Option<String> {
    None
}
