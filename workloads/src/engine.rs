//! Runs the workers of a plan: builds, calibrates, measures and verifies them.

use std::io;
use std::panic::{self, AssertUnwindSafe};
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::Duration;

use crate::clock::{Clock, Map, Stamp};
use crate::core_clock::{During, Reading};
use crate::kernel::{Builder, Crew};
use crate::kernels::ruler;
use crate::os;
use crate::outcome::{self, Batch, Edge, Measured, Outcome};
use crate::pace::{self, Pace};
use crate::phases::{Phase, Phases};
use crate::plan::Plan;

/// Kernels keep 15 bytes of a thread's name.
const NAME_BYTES: usize = 15;
/// Time between two pairs of clock readings of the first worker.
const PAIR_EVERY_NS: i64 = 100_000_000;
/// Capacity for batches, per second and worker; their target length gives 1000 to 3300.
const SAMPLES_PER_S: f64 = 5000.0;
/// The start and end edges are read again if reading the two clocks took longer than this.
const EDGE_NS: f64 = 3_000.0;
/// Maximum number of such readings; then the tightest bracket is used.
const EDGE_TRIES: u32 = 10;
/// More capacity than any run needs: further batches are added to the last one.
const MOST_SAMPLES: usize = 1_000_000;
/// How long to measure the length of a tick before a run.
const TICK_MEASURE: Duration = Duration::from_millis(5);

/// Why there is no result.
#[derive(Debug, PartialEq, Eq)]
pub enum Failure {
    /// This machine cannot run it.
    Unsupported(String),
    /// The caller cancelled before the measured interval began.
    Withdrawn,
    /// The system refused something.
    System(String),
}

/// Decides when the measured interval begins and ends.
pub trait Conductor {
    /// All workers are at the barrier; false: cancel.
    ///
    /// # Errors
    /// What the caller received instead of a signal to begin.
    fn ready(&mut self) -> Result<bool, String>;

    /// Sleeps through the warm-up; true: interrupted before its end.
    fn warm_up(&mut self, ns: i64) -> bool;

    /// Sleeps through the measured interval; true: interrupted before its end.
    fn measure(&mut self) -> bool;

    /// All workers have stopped.
    fn done(&mut self);
}

/// State that all workers share.
struct Stage {
    clock: Clock,
    phases: Phases,
    stop: AtomicBool,
    /// Whether there is a warm-up, and whether it is over.
    warms: bool,
    warm: AtomicBool,
    /// Capacity of each worker in batches.
    room: usize,
    /// Approximate length of a tick; the exact map is made afterwards.
    tick_ns: f64,
}

impl Stage {
    fn ns_between(&self, from: u64, to: u64) -> i64 {
        (to.saturating_sub(from) as f64 * self.tick_ns) as i64
    }

    /// The thread's CPU time, and when it was read.
    fn edge(&self) -> Edge {
        let enough = (EDGE_NS / self.tick_ns) as u64;
        let bracket = self.clock.bracket(EDGE_TRIES, enough, os::thread_cpu_ns);
        Edge { ticks: bracket.middle, cpu_time_ns: bracket.read }
    }
}

/// The arguments of one worker.
struct Seat {
    worker: usize,
    name: String,
    cpu: Option<usize>,
    /// Whether its kernel runs without partners and without frames.
    is_alone: bool,
    build: Builder,
}

/// Runs the plan.
///
/// # Errors
/// `Failure`, in which case every worker has ended too.
pub fn run(plan: &Plan, conductor: &mut dyn Conductor) -> Result<Outcome, Failure> {
    if let Some(reason) = plan.refusal() {
        return Err(Failure::Unsupported(reason));
    }
    let Crew { builders, links } = plan.crew();
    let workers = builders.len();
    // Some systems first find out which clock measures a thread's CPU time.
    os::thread_cpu_ns();
    let clock = Clock::detect();
    let stage = Stage {
        clock,
        phases: Phases::new(),
        stop: AtomicBool::new(false),
        warms: plan.warm_up > 0.0,
        warm: AtomicBool::new(false),
        room: ((plan.seconds * SAMPLES_PER_S) as usize + 1000).min(MOST_SAMPLES),
        tick_ns: tick_ns(clock)?,
    };
    let seats = builders.into_iter().enumerate().map(|(worker, build)| Seat {
        worker,
        name: thread_name(plan.of_worker(worker).0.name, worker),
        cpu: plan.cpus.get(worker % plan.cpus.len().max(1)).copied(),
        is_alone: plan.of_worker(worker).0.is_alone(),
        build,
    });

    let mut edges = Vec::new();
    let mut anon_huge_bytes = None;
    let mut interrupted = false;
    let results = thread::scope(|scope| {
        let mut threads = Vec::new();
        for seat in seats {
            let stage = &stage;
            let spawned = thread::Builder::new()
                .name(seat.name.clone())
                .spawn_scoped(scope, move || sit(seat, stage));
            match spawned {
                Ok(handle) => threads.push(handle),
                Err(error) => {
                    stage.phases.open(Phase::Abort);
                    for handle in threads {
                        drop(handle.join());
                    }
                    return Err(Failure::System(format!("cannot start a thread: {error}")));
                }
            }
        }
        let verdict = (|| {
            if !stage.phases.all_arrived(workers) {
                return Err(None);
            }
            stage.phases.open(Phase::Calibrate);
            if !stage.phases.all_arrived(workers) {
                return Err(None);
            }
            links.iter().for_each(|link| link.rearm());
            anon_huge_bytes = os::anon_huge_bytes();
            match conductor.ready() {
                Ok(true) => {}
                Ok(false) => return Err(Some(Failure::Withdrawn)),
                Err(reason) => return Err(Some(Failure::System(reason))),
            }
            if stage.warms {
                stage.phases.open(Phase::WarmUp);
                let is_interrupted = conductor.warm_up((plan.warm_up * 1e9) as i64);
                stage.warm.store(true, Ordering::Release);
                links.iter().for_each(|link| link.release());
                if !stage.phases.all_arrived(workers) {
                    return Err(None);
                }
                if is_interrupted {
                    return Err(Some(Failure::Withdrawn));
                }
                links.iter().for_each(|link| link.rearm());
            }
            edges.push(stage.clock.pair());
            stage.phases.open(Phase::Measure);
            interrupted = conductor.measure();
            stage.stop.store(true, Ordering::Release);
            links.iter().for_each(|link| link.release());
            let all = stage.phases.all_arrived(workers);
            edges.push(stage.clock.pair());
            conductor.done();
            if all { Ok(()) } else { Err(None) }
        })();
        stage.phases.open(if verdict.is_ok() { Phase::Prove } else { Phase::Abort });
        let mut results = Vec::new();
        let mut first_error = None;
        for handle in threads {
            match handle.join() {
                Ok(Ok(measured)) => results.push(measured),
                Ok(Err(reason)) => first_error = first_error.or(reason),
                Err(_) => first_error = first_error.or(Some("a worker died".to_owned())),
            }
        }
        match (verdict, first_error) {
            (Err(Some(failure)), _) => Err(failure),
            (_, Some(reason)) => Err(Failure::System(reason)),
            (Err(None), None) => Err(Failure::System("a worker ended early".to_owned())),
            (Ok(()), None) => Ok(results),
        }
    })?;
    outcome::assemble(plan, stage.clock, edges, results, anon_huge_bytes, interrupted)
}

/// `<kernel>-NN`; a long kernel name is truncated.
fn thread_name(kernel: &str, worker: usize) -> String {
    let number = format!("-{worker:02}");
    let room = NAME_BYTES.saturating_sub(number.len());
    format!("{}{number}", &kernel[..kernel.len().min(room)])
}

/// Runs a worker. An error without text means that it was cancelled.
fn sit(seat: Seat, stage: &Stage) -> Result<Measured, Option<String>> {
    let result = panic::catch_unwind(AssertUnwindSafe(|| work(seat, stage)))
        .unwrap_or_else(|_| Err(Some("a worker died".to_owned())));
    if result.is_err() {
        stage.phases.leave();
    }
    result
}

fn work(mut seat: Seat, stage: &Stage) -> Result<Measured, Option<String>> {
    os::name_current_thread(&seat.name);
    if let Some(cpu) = seat.cpu {
        os::pin_current_thread(cpu).map_err(|error| refused_cpu(cpu, &error))?;
    }
    let mut work = (seat.build)(seat.cpu).map_err(Some)?;
    if let Some(role) = work.role() {
        seat.name = thread_name(role, seat.worker);
        os::name_current_thread(&seat.name);
    }
    let mut batches = touched(stage.room);
    let mut pairs = Vec::new();
    if !stage.phases.arrive(Phase::Calibrate) {
        return Err(None);
    }
    let iterations = pace::calibrate(work.as_mut());
    work.leave();
    if stage.warms {
        if !stage.phases.arrive(Phase::WarmUp) {
            return Err(None);
        }
        work.begin();
        pace::repeat(work.as_mut(), iterations, &stage.warm);
        work.leave();
    }
    let before = Reading { ticks: stage.clock.stamp().ticks, cycle_ns: ruler::core_cycle_ns() };
    if !stage.phases.arrive(Phase::Measure) {
        return Err(None);
    }

    let mut coalesced = 0;
    let mut pace = Pace::new(iterations);
    let keeps_time = seat.worker == 0 && matches!(stage.clock, Clock::Tsc { .. });
    let start = stage.edge();
    work.begin();
    let mut paired_at = start.ticks;
    let mut during = During::new(start.ticks);
    // A reading would make a request or a partner wait.
    let reads_clock = work.latency().is_none() && seat.is_alone;
    loop {
        let iterations = pace.iterations;
        let from = stage.clock.stamp();
        let done = work.batch(iterations);
        let to = stage.clock.stamp();
        if done > 0 {
            keep(&mut batches, Batch { start: from, end: to, iterations: done }, &mut coalesced);
        }
        if stage.stop.load(Ordering::Acquire) {
            break;
        }
        if done == iterations {
            pace.took(stage.ns_between(from.ticks, to.ticks));
        }
        if keeps_time && stage.ns_between(paired_at, to.ticks) > PAIR_EVERY_NS {
            pairs.push(stage.clock.pair());
            paired_at = to.ticks;
        }
        if reads_clock && during.is_due(|since| stage.ns_between(since, to.ticks)) {
            during.read(to.ticks);
        }
    }
    let end = stage.edge();
    // Signal the end of the interval first: the conductor must not wait for the rest.
    if !stage.phases.arrive(Phase::Prove) {
        return Err(None);
    }
    let after = Reading { ticks: end.ticks, cycle_ns: ruler::core_cycle_ns() };
    Ok(Measured {
        tid: os::thread_id(),
        name: seat.name,
        cpu: seat.cpu,
        start,
        end,
        batches,
        coalesced,
        pairs,
        bytes_per_iteration: work.bytes_per_iteration(),
        cycles: during.between(before, after),
        proofs: work.prove(),
        warnings: work.warnings(),
        counts: work.counts(),
        latency: work.latency().cloned(),
        frames: work.frames().to_vec(),
        iterates: work.iterates(),
        sizes: work.sizes(),
    })
}

fn refused_cpu(cpu: usize, error: &io::Error) -> String {
    format!("CPU {cpu} is absent, offline or not allowed: {error}")
}

/// Length of a tick of the clock in ns, to a few parts in a million.
fn tick_ns(clock: Clock) -> Result<f64, Failure> {
    let before = clock.pair();
    thread::sleep(TICK_MEASURE);
    let map = Map::new(vec![before, clock.pair()])
        .ok_or_else(|| Failure::System("the clock does not advance".to_owned()))?;
    Ok(1e9 / map.hz())
}

/// An empty vector whose pages have been touched.
fn touched(room: usize) -> Vec<Batch> {
    let never = Stamp { ticks: 1, cpu: 1 };
    let mut batches = vec![Batch { start: never, end: never, iterations: 1 }; room];
    batches.clear();
    batches
}

/// Stores a batch without allocating: at full capacity, the last one grows instead.
fn keep(batches: &mut Vec<Batch>, batch: Batch, coalesced: &mut u64) {
    if batches.len() < batches.capacity() {
        batches.push(batch);
    } else if let Some(last) = batches.last_mut() {
        last.end = batch.end;
        last.iterations += batch.iterations;
        *coalesced += 1;
    }
}
