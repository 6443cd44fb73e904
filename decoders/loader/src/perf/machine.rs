//! What a recording contains about its machine and its clock: rows of `cpu` and `trace`.

use std::sync::Arc;

use arrow_array::{ArrayRef, RecordBatch, TimestampNanosecondArray};
use arrow_schema::ArrowError;
use schedlens_perf_data::recording::Recording;
use schedlens_perf_data::topology;
use schedlens_schedule::batcher::Batcher;
use schedlens_schedule::columns::{Column, texts};
use schedlens_schedule::schema;

use crate::reader::TraceFacts;

/// perf's timestamps are nanoseconds on every clock.
const CLOCK_HZ: i64 = 1_000_000_000;
/// The row of `trace`.
///
/// # Errors
/// Fails only if a value contradicts the schema.
pub(super) fn trace_batch(
    recording: &Recording,
    batcher: &Batcher,
    facts: TraceFacts<'_>,
) -> Result<RecordBatch, ArrowError> {
    let one = |text: Option<&str>| texts([text].into_iter());
    let long = |value: Option<i64>| {
        let mut column = Column::default();
        column.push_option(value);
        column.array()
    };
    let mut version = Column::default();
    version.push(schema::VERSION);
    let wall: ArrayRef = Arc::new(TimestampNanosecondArray::from(vec![recording.wall_start_ns()]));
    let columns = vec![
        ("label", one(Some(facts.label))),
        ("source", one(Some("perf"))),
        ("path", one(Some(facts.path))),
        ("host", one(recording.features.host.as_deref())),
        ("os", one(recording.os().as_deref())),
        ("cpu_model", one(recording.features.cpu_model.as_deref())),
        ("clock_name", one(Some(recording.clock_name()))),
        ("start_clock", long(recording.index.first.map(u64::cast_signed))),
        ("clock_hz", long(Some(CLOCK_HZ))),
        ("start_time_utc", wall),
        ("first_ns", long(facts.window.0)),
        ("duration_ns", long(facts.window.1)),
        ("events_lost", long(facts.events_lost)),
        ("schema_version", version.array()),
        ("tool_version", one(Some(env!("CARGO_PKG_VERSION")))),
    ];
    batcher.batch("trace", 1, columns)
}

/// Rows of `cpu`, as far as the file describes the CPUs.
///
/// # Errors
/// Fails only if a value contradicts the schema.
pub(super) fn cpu_batch(
    recording: &Recording,
    batcher: &Batcher,
) -> Result<RecordBatch, ArrowError> {
    let cpus = topology::cpus(&recording.features, &recording.index.cpus());
    let ints = |pick: fn(&topology::Cpu) -> Option<i32>| {
        let mut column = Column::default();
        for cpu in &cpus {
            column.push_option(pick(cpu));
        }
        column.array()
    };
    let mut online = Column::default();
    for cpu in &cpus {
        online.push_option(cpu.online);
    }
    let columns = vec![
        ("cpu", ints(|cpu| Some(cpu.cpu))),
        ("core", ints(|cpu| cpu.core)),
        ("smt_index", ints(|cpu| cpu.smt_index)),
        ("core_type", texts(cpus.iter().map(|cpu| cpu.core_type))),
        ("l2", ints(|cpu| cpu.l2)),
        ("llc", ints(|cpu| cpu.llc)),
        ("package", ints(|cpu| cpu.package)),
        ("numa_node", ints(|cpu| cpu.numa_node)),
        ("online", online.array()),
    ];
    batcher.batch("cpu", cpus.len(), columns)
}
