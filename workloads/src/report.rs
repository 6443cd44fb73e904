//! `workload.json`: what a run measured, see docs/session-folder.md.

use std::process;

use crate::clock::Clock;
use crate::core_clock::{self, Reading};
use crate::histogram::Histogram;
use crate::json::{list, object};
use crate::kernel::{Proof, Unit};
use crate::os;
use crate::outcome::{Outcome, WorkerResult};
use crate::plan::Plan;
use serde_json::Value;

/// Version of the file format.
const SCHEMA: u64 = 1;

/// The middle value (the mean of the middle two); `None` if there is none.
pub fn median(mut values: Vec<f64>) -> Option<f64> {
    values.sort_by(f64::total_cmp);
    let middle = values.len() / 2;
    match values.len() {
        0 => None,
        count if count % 2 == 1 => Some(values[middle]),
        _ => Some((values[middle - 1] + values[middle]) / 2.0),
    }
}

/// Median over the workers of their median iteration time, in ns and in core cycles.
pub fn iteration(outcome: &Outcome) -> Option<(f64, f64)> {
    let (of_workers, in_cycles) =
        outcome.workers.iter().filter_map(|worker| worker.iteration).unzip();
    Some((median(of_workers)?, median(in_cycles)?))
}

/// The clock of a worker's core in GHz: right before its interval, during it (the median; `None` if
/// it was not read), and after it.
fn core_ghz(worker: &WorkerResult) -> [Option<f64>; 3] {
    let ghz: Vec<f64> = worker.cycles.iter().map(|reading| 1.0 / reading.cycle_ns).collect();
    let during = ghz.get(1..ghz.len().saturating_sub(1)).unwrap_or_default();
    [ghz.first().copied(), median(during.to_vec()), ghz.last().copied()]
}

fn measured(plan: &Plan, outcome: &Outcome) -> Value {
    let mut numbers: Vec<(String, Value)> = Vec::new();
    let mut add = |name: &str, value: Value| numbers.push((name.to_owned(), value));
    let per_second = |of: fn(&WorkerResult) -> u64| -> f64 {
        let rates =
            outcome.workers.iter().filter(|worker| worker.end_mono_ns > worker.start_mono_ns);
        rates
            .map(|worker| {
                of(worker) as f64 * 1e9 / (worker.end_mono_ns - worker.start_mono_ns) as f64
            })
            .sum()
    };
    add("iterations_per_s", per_second(|worker| worker.iterations).into());
    if plan.kernel.unit == Unit::Bytes {
        let bytes_per_s = per_second(|worker| worker.bytes);
        add("bytes_per_s", bytes_per_s.into());
        add("mib_per_s", (bytes_per_s / f64::from(1 << 20)).into());
    }
    if let Some((ns, cycles)) = iteration(outcome) {
        add("ns_per_iteration", ns.into());
        add("core_cycles_per_iteration", cycles.into());
        match plan.kernel.unit {
            // Between two hops of one party there is one of the other.
            Unit::Hops => add("ns_per_hop", (ns / plan.kernel.parties as f64).into()),
            Unit::Items => {
                add("ns_per_item", ns.into());
                // Each item is one iteration of either party.
                let items_per_s = per_second(|worker| worker.iterations);
                add("items_per_s", (items_per_s / plan.kernel.parties as f64).into());
            }
            Unit::Bytes | Unit::Iterations => {}
        }
    }
    for (name, index) in [("core_ghz_before", 0), ("core_ghz_after", 2)] {
        let of_workers = outcome.workers.iter().filter_map(|worker| core_ghz(worker)[index]);
        add(name, median(of_workers.collect()).into());
    }
    if matches!(outcome.clock, Clock::Tsc { .. }) {
        let tick_ns = 1e9 / outcome.map.hz();
        let of_workers = outcome.workers.iter().filter_map(|worker| {
            let cycle_ns = worker.cycles.iter().map(|reading| reading.cycle_ns);
            Some(tick_ns / median(cycle_ns.collect())?)
        });
        add("core_cycles_per_tick", median(of_workers.collect()).into());
    }
    let total = |wanted: &str| -> Option<u64> {
        let counts = outcome.workers.iter().flat_map(|worker| &worker.counts);
        counts.filter(|(name, _)| *name == wanted).map(|(_, count)| *count).reduce(|a, b| a + b)
    };
    for name in ["produced_items", "consumed_items", "waits"] {
        if let Some(count) = total(name) {
            add(name, count.into());
        }
    }
    if let (Some(waits), Some(items)) = (total("waits"), total("consumed_items")) {
        let share = (items > 0).then(|| waits as f64 / items as f64);
        add("waits_per_item", share.into());
    }
    for name in ["operations", "handovers", "retries"] {
        if let Some(count) = total(name) {
            add(name, count.into());
        }
    }
    for (name, size) in &outcome.sizes {
        add(name, (*size).into());
    }
    object(numbers)
}

fn proofs(proofs: &[Proof]) -> Value {
    list(proofs.iter().map(|proof| {
        object([
            ("proof", Value::from(proof.proof.as_str())),
            ("expected", proof.expected.as_str().into()),
            ("found", proof.found.as_str().into()),
            ("ok", proof.holds().into()),
        ])
    }))
}

fn workers(outcome: &Outcome) -> Value {
    list(outcome.workers.iter().enumerate().map(|(index, worker)| {
        let [before, during, after] = core_ghz(worker);
        object([
            ("worker", Value::from(index)),
            ("pid", process::id().into()),
            ("tid", worker.tid.into()),
            ("name", worker.name.as_str().into()),
            ("cpu", worker.cpu.into()),
            ("start_mono_ns", worker.start_mono_ns.into()),
            ("end_mono_ns", worker.end_mono_ns.into()),
            ("cpu_time_ns", worker.cpu_time_ns.into()),
            ("iterations", worker.iterations.into()),
            ("bytes", worker.bytes.into()),
            ("batches", worker.batches.into()),
            ("kernel", worker.kernel.into()),
            ("variant", worker.variant.into()),
            ("ns_per_iteration", worker.iteration.map(|(ns, _)| ns).into()),
            ("core_cycles_per_iteration", worker.iteration.map(|(_, cycles)| cycles).into()),
            ("instructions_per_iteration", worker.instructions.into()),
            ("core_ghz_before", before.into()),
            ("core_ghz_during", during.into()),
            ("core_ghz_after", after.into()),
            ("core_ghz_over_time", ghz_over_time(outcome, worker)),
            ("counts", object(worker.counts.iter().map(|(name, count)| (*name, (*count).into())))),
            ("latency", worker.latency.as_ref().map(latency).into()),
        ])
    }))
}

/// `[[ns after its interval began, median GHz since the part before], ...]`; null for a short run.
fn ghz_over_time(outcome: &Outcome, worker: &WorkerResult) -> Value {
    let at = |reading: &Reading| (outcome.map.mono_ns(reading.ticks), reading.cycle_ns);
    // Not the readings before and after the interval.
    let during = worker.cycles.get(1..worker.cycles.len().saturating_sub(1)).unwrap_or_default();
    let readings: Vec<(i64, f64)> = during.iter().map(at).collect();
    let parts = core_clock::over_time(&readings, worker.start_mono_ns, worker.end_mono_ns);
    if parts.is_empty() {
        return Value::Null;
    }
    list(parts.into_iter().map(|(ns, ghz)| Value::Array(vec![ns.into(), ghz.into()])))
}

/// `[[upper end of a bucket in ns, requests in it], ...]` of the buckets that are not empty.
fn latency(histogram: &Histogram) -> Value {
    list(
        histogram
            .buckets()
            .map(|(upper_ns, count)| Value::Array(vec![upper_ns.into(), count.into()])),
    )
}

fn clock(outcome: &Outcome) -> Value {
    let pairs = outcome.map.pairs().iter();
    object([
        ("source", Value::from(outcome.clock.name())),
        ("hz", outcome.map.hz().into()),
        ("cpu_time", os::cpu_clock_name().into()),
        (
            "pairs",
            list(pairs.map(|pair| {
                Value::Array(vec![Value::from(pair.ticks), Value::from(pair.mono_ns)])
            })),
        ),
    ])
}

fn options(plan: &Plan) -> Value {
    let mut options = vec![
        ("threads", Value::from(plan.threads)),
        ("seconds", plan.seconds.into()),
        ("warm_up_seconds", plan.warm_up.into()),
        ("unit", plan.kernel.unit.name().into()),
    ];
    if plan.kernel.name == "queue" {
        options.push(("depth", plan.options.depth.into()));
    }
    if ["spin_handoff", "frame", "serve"].contains(&plan.kernel.name) {
        options.push(("how", plan.options.how.name().into()));
    }
    if plan.kernel.name == "frame" {
        options.push(("handoffs", plan.options.handoffs.into()));
    }
    if plan.kernel.name == "serve" && plan.variant.name == "open" {
        options.push(("rate", plan.options.rate.into()));
    }
    object(options)
}

/// The object for a finished run.
pub fn finished(plan: &Plan, outcome: &Outcome, warnings: &[String]) -> Value {
    let memory = if outcome.sizes.iter().any(|(name, _)| *name == "memory_bytes_per_worker") {
        object([
            ("pages", Value::from(os::PAGES)),
            ("thp_mode", os::thp_mode().into()),
            ("anon_huge_bytes", outcome.anon_huge_bytes.into()),
        ])
    } else {
        Value::Null
    };
    let all_warnings = outcome.warnings.iter().chain(warnings).map(String::as_str);
    object([
        ("schema", Value::from(SCHEMA)),
        ("kernel", plan.name().into()),
        ("variant", plan.variant.name.into()),
        ("status", if outcome.holds() { "ok" } else { "failed" }.into()),
        ("interrupted", outcome.interrupted.into()),
        ("options", options(plan)),
        ("proofs", proofs(&outcome.proofs)),
        ("warnings", list(all_warnings)),
        ("clock", clock(outcome)),
        ("workers", workers(outcome)),
        ("measured", measured(plan, outcome)),
        ("memory", memory),
    ])
}

/// The object for a kernel this machine cannot run.
pub fn unsupported(plan: &Plan, reason: &str) -> Value {
    object([
        ("schema", Value::from(SCHEMA)),
        ("kernel", plan.name().into()),
        ("variant", plan.variant.name.into()),
        ("status", "unsupported".into()),
        ("interrupted", false.into()),
        ("options", options(plan)),
        ("proofs", Value::Array(Vec::new())),
        ("warnings", list([reason])),
        ("clock", Value::Null),
        ("workers", Value::Array(Vec::new())),
        ("measured", Value::Object(serde_json::Map::new())),
        ("memory", Value::Null),
    ])
}

#[cfg(test)]
mod tests {
    use super::median;

    #[test]
    fn the_median_is_the_middle() {
        assert_eq!(median(vec![]), None);
        assert_eq!(median(vec![3.0]), Some(3.0));
        assert_eq!(median(vec![9.0, 1.0, 4.0]), Some(4.0));
        assert_eq!(median(vec![4.0, 1.0, 9.0, 2.0]), Some(3.0));
    }
}
