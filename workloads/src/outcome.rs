//! The result of a run, by the system's clock.

use crate::beat::FrameMark;
use crate::clock::{Clock, Map, Pair, Stamp};
use crate::core_clock::{self, Reading};
use crate::engine::Failure;
use crate::histogram::Histogram;
use crate::kernel::Proof;
use crate::plan::Plan;
use crate::report;
use crate::samples::Sample;

/// Minimum time from a pair of clock readings within a run to those at the ends of the run.
const PAIR_APART_NS: i64 = 10_000_000;

/// What a worker measured, by the system's clock.
#[derive(Debug)]
pub struct WorkerResult {
    pub tid: u32,
    pub name: String,
    pub kernel: &'static str,
    pub variant: &'static str,
    pub cpu: Option<usize>,
    pub start_mono_ns: i64,
    pub end_mono_ns: i64,
    pub cpu_time_ns: i64,
    pub iterations: u64,
    pub bytes: u64,
    pub batches: u64,
    /// Length of a core cycle right before the measured interval, during it, and after all workers
    /// ended it; at the time of that clock.
    pub cycles: Vec<Reading>,
    /// Median length of an iteration in ns and in core cycles; `None` without a batch.
    pub iteration: Option<(f64, f64)>,
    pub instructions: Option<u64>,
    pub counts: Vec<(&'static str, u64)>,
    pub latency: Option<Histogram>,
    pub frames: Vec<FrameMark>,
}

/// The result of a run.
#[derive(Debug)]
pub struct Outcome {
    pub clock: Clock,
    pub map: Map,
    pub workers: Vec<WorkerResult>,
    pub samples: Vec<Sample>,
    pub proofs: Vec<Proof>,
    pub warnings: Vec<String>,
    pub sizes: Vec<(&'static str, u64)>,
    pub anon_huge_bytes: Option<u64>,
    pub interrupted: bool,
}

impl Outcome {
    /// The frames of all workers, each with the thread that started it.
    pub fn frames(&self) -> Vec<(u32, FrameMark)> {
        let of_workers = self.workers.iter();
        of_workers.flat_map(|worker| worker.frames.iter().map(|mark| (worker.tid, *mark))).collect()
    }

    /// Whether every proof holds.
    pub fn holds(&self) -> bool {
        self.proofs.iter().all(Proof::holds)
    }
}

/// A batch in ticks of the clock that measured it.
#[derive(Clone, Copy)]
pub struct Batch {
    pub start: Stamp,
    pub end: Stamp,
    pub iterations: u64,
}

/// The wall clock and the CPU time, read at the same time.
#[derive(Clone, Copy)]
pub struct Edge {
    pub ticks: u64,
    pub cpu_time_ns: i64,
}

/// What a worker returns, in ticks of the clock that measured it.
pub struct Measured {
    pub tid: u32,
    pub name: String,
    pub cpu: Option<usize>,
    pub start: Edge,
    pub end: Edge,
    pub batches: Vec<Batch>,
    pub coalesced: u64,
    pub pairs: Vec<Pair>,
    pub bytes_per_iteration: u64,
    pub cycles: Vec<Reading>,
    pub proofs: Vec<Proof>,
    pub warnings: Vec<String>,
    pub counts: Vec<(&'static str, u64)>,
    pub latency: Option<Histogram>,
    pub frames: Vec<FrameMark>,
    pub iterates: bool,
    pub sizes: Vec<(&'static str, u64)>,
}

/// Converts what the workers returned to the system's clock; `pairs` are those of both ends.
///
/// # Errors
/// `Failure` if the clocks contradict each other.
pub fn assemble(
    plan: &Plan,
    clock: Clock,
    mut pairs: Vec<Pair>,
    results: Vec<Measured>,
    anon_huge_bytes: Option<u64>,
    interrupted: bool,
) -> Result<Outcome, Failure> {
    if let [begin, end] = pairs[..] {
        // Between two pairs that are too close, a reading error would change the slope.
        let inside = begin.mono_ns + PAIR_APART_NS..end.mono_ns - PAIR_APART_NS;
        let taken = results.iter().flat_map(|measured| measured.pairs.iter().copied());
        pairs.extend(taken.filter(|pair| inside.contains(&pair.mono_ns)));
    }
    let map = Map::new(pairs).ok_or_else(|| {
        Failure::System(
            "the time stamp counter and the system's clock contradict each other".into(),
        )
    })?;
    let mut outcome = Outcome {
        clock,
        map,
        workers: Vec::new(),
        samples: Vec::new(),
        proofs: Vec::new(),
        warnings: Vec::new(),
        sizes: results.first().map(|measured| measured.sizes.clone()).unwrap_or_default(),
        anon_huge_bytes,
        interrupted,
    };
    for (worker, measured) in results.into_iter().enumerate() {
        outcome.add(worker, plan, measured);
    }
    Ok(outcome)
}

impl Outcome {
    fn add(&mut self, worker: usize, plan: &Plan, measured: Measured) {
        let of_one = measured.bytes_per_iteration;
        let samples: Vec<Sample> = measured
            .batches
            .iter()
            .map(|batch| Sample {
                worker: worker as u32,
                cpu_at_start: batch.start.cpu,
                cpu_at_end: batch.end.cpu,
                start_mono_ns: self.map.mono_ns(batch.start.ticks),
                end_mono_ns: self.map.mono_ns(batch.end.ticks),
                iterations: batch.iterations,
                bytes: batch.iterations * of_one,
            })
            .collect();
        let strays = measured.cpu.map_or(0, |cpu| {
            let on_cpu = |sample: &Sample| {
                usize::from(sample.cpu_at_start) == cpu && usize::from(sample.cpu_at_end) == cpu
            };
            samples.iter().filter(|sample| !on_cpu(sample)).count()
        });
        let name = &measured.name;
        if let Some(cpu) = measured.cpu {
            self.proofs.push(Proof::new(format!("{name}: batches not on CPU {cpu}"), 0, strays));
        }
        for mut proof in measured.proofs {
            proof.proof = format!("{name}: {}", proof.proof);
            self.proofs.push(proof);
        }
        for warning in measured.warnings {
            if !self.warnings.contains(&warning) {
                self.warnings.push(warning);
            }
        }
        if measured.coalesced > 0 {
            let lost = measured.coalesced;
            self.warnings.push(format!("{name}: {lost} batches were merged into the previous one"));
        }
        let (kernel, variant) = plan.of_worker(worker);
        if samples.is_empty() && kernel.parties == 1 && measured.iterates {
            self.warnings.push(format!("{name}: no batch ended"));
        }
        let lengths = |in_cycles: bool| {
            let whole = measured.batches.iter().filter(|batch| batch.end.ticks > batch.start.ticks);
            let ns_per_tick = 1e9 / self.map.hz();
            let each = whole.map(|batch| {
                let ticks = batch.end.ticks - batch.start.ticks;
                let ns = ticks as f64 * ns_per_tick / batch.iterations as f64;
                let cycle_ns = core_clock::nearest(&measured.cycles, batch.start.ticks);
                if in_cycles { ns / cycle_ns } else { ns }
            });
            report::median(each.collect())
        };
        let iteration = lengths(false).zip(lengths(true));
        let iterations: u64 = samples.iter().map(|sample| sample.iterations).sum();
        self.workers.push(WorkerResult {
            tid: measured.tid,
            start_mono_ns: self.map.mono_ns(measured.start.ticks),
            end_mono_ns: self.map.mono_ns(measured.end.ticks),
            cpu_time_ns: measured.end.cpu_time_ns - measured.start.cpu_time_ns,
            iterations,
            bytes: iterations * of_one,
            batches: samples.len() as u64,
            cycles: measured.cycles,
            iteration,
            instructions: kernel.instructions,
            counts: measured.counts,
            latency: measured.latency,
            frames: measured.frames,
            kernel: kernel.name,
            variant: variant.name,
            cpu: measured.cpu,
            name: measured.name,
        });
        self.samples.extend(samples);
    }
}
