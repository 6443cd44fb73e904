//! What a recording contains about its machine and its clock: rows of `cpu` and `trace`.

use std::sync::Arc;

use arrow_array::{ArrayRef, RecordBatch, TimestampNanosecondArray};
use arrow_schema::ArrowError;
use schedlens_etl::Recording;
use schedlens_etl::facts::topology::Cpu;
use schedlens_schedule::batcher::Batcher;
use schedlens_schedule::columns::{Column, texts};
use schedlens_schedule::schema;

use crate::reader::TraceFacts;

/// Rows of `cpu`.
pub(super) fn cpu_batch(
    recording: &Recording,
    batcher: &Batcher,
) -> Result<RecordBatch, ArrowError> {
    let cpus = recording.cpus();
    let ints = |pick: fn(&Cpu) -> Option<i32>| {
        let mut column = Column::default();
        cpus.iter().for_each(|cpu| column.push_option(pick(cpu)));
        column.array()
    };
    let longs = |pick: fn(&Cpu) -> Option<i64>| {
        let mut column = Column::default();
        cpus.iter().for_each(|cpu| column.push_option(pick(cpu)));
        column.array()
    };
    let mut online = Column::default();
    cpus.iter().for_each(|_| online.push(true));
    let columns = vec![
        ("cpu", ints(|cpu| Some(cpu.cpu))),
        ("group_no", ints(|cpu| cpu.place.map(|(group, _)| group.into()))),
        ("number_in_group", ints(|cpu| cpu.place.map(|(_, number)| number.into()))),
        ("core", ints(|cpu| cpu.core)),
        ("smt_index", ints(|cpu| cpu.smt_index)),
        ("core_type", texts(cpus.iter().map(|cpu| cpu.core_type.as_deref()))),
        ("efficiency_class", ints(|cpu| cpu.class.map(i32::from))),
        ("l2", ints(|cpu| cpu.l2)),
        ("llc", ints(|cpu| cpu.llc)),
        ("package", ints(|cpu| cpu.package)),
        ("numa_node", ints(|cpu| cpu.node)),
        ("base_khz", longs(|cpu| cpu.base_khz)),
        ("online", online.array()),
        ("valid_from_ns", longs(|cpu| cpu.valid_from_ns)),
    ];
    batcher.batch("cpu", cpus.len(), columns)
}

/// The row of `trace`.
pub(super) fn trace_batch(
    recording: &Recording,
    batcher: &Batcher,
    facts: TraceFacts<'_>,
) -> Result<RecordBatch, ArrowError> {
    let clock = recording.scan().log().clock();
    let one = |text: Option<&str>| texts([text].into_iter());
    let long = |value: Option<i64>| {
        let mut column = Column::default();
        column.push_option(value);
        column.array()
    };
    let mut version = Column::default();
    version.push(schema::VERSION);
    let wall: ArrayRef = Arc::new(TimestampNanosecondArray::from(vec![clock.wall_start_ns()]));
    let buffers_lost = recording.buffers_lost();
    let columns = vec![
        ("label", one(Some(facts.label))),
        ("source", one(Some("etw"))),
        ("path", one(Some(facts.path))),
        ("host", one(recording.survey().facts.host.as_deref())),
        ("os", one(Some(&recording.os()))),
        ("cpu_model", one(recording.cpu_model().as_deref())),
        ("clock_name", one(Some(clock.name()))),
        ("start_clock", long(Some(clock.start))),
        ("clock_hz", long(Some(clock.hz))),
        ("start_time_utc", wall),
        ("first_ns", long(facts.window.0)),
        ("duration_ns", long(facts.window.1)),
        ("events_lost", long(facts.events_lost)),
        ("buffers_lost", long(buffers_lost)),
        ("schema_version", version.array()),
        ("tool_version", one(Some(env!("CARGO_PKG_VERSION")))),
    ];
    batcher.batch("trace", 1, columns)
}
