//! The row of `trace`.

use std::sync::Arc;

use arrow_array::{ArrayRef, RecordBatch, TimestampNanosecondArray};
use arrow_schema::ArrowError;
use schedlens_schedule::batcher::Batcher;
use schedlens_schedule::columns::{Column, texts};
use schedlens_schedule::schema;

use crate::reader::TraceFacts;

/// Times of Linux recorders are nanoseconds.
const CLOCK_HZ: i64 = 1_000_000_000;

/// What a recording states about its machine and its clock.
#[derive(Clone, Debug, Default)]
pub(crate) struct Described<'a> {
    /// `trace.source`
    pub(crate) source: &'static str,
    pub(crate) host: Option<&'a str>,
    pub(crate) os: Option<String>,
    pub(crate) cpu_model: Option<&'a str>,
    pub(crate) clock_name: &'a str,
    pub(crate) start_clock: Option<i64>,
    /// Wall time at ns 0, ns since 1970.
    pub(crate) wall_start_ns: Option<i64>,
}

/// The row of `trace`.
///
/// # Errors
/// Fails only if a value contradicts the schema.
pub(crate) fn trace_batch(
    described: &Described<'_>,
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
    let wall: ArrayRef = Arc::new(TimestampNanosecondArray::from(vec![described.wall_start_ns]));
    let columns = vec![
        ("label", one(Some(facts.label))),
        ("source", one(Some(described.source))),
        ("path", one(Some(facts.path))),
        ("host", one(described.host)),
        ("os", one(described.os.as_deref())),
        ("cpu_model", one(described.cpu_model)),
        ("clock_name", one(Some(described.clock_name))),
        ("start_clock", long(described.start_clock)),
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
