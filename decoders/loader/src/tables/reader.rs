//! Folders of tables, as the driver uses them.

use std::collections::HashMap;
use std::sync::Arc;

use arrow_array::{ArrayRef, RecordBatch, TimestampNanosecondArray};
use arrow_schema::ArrowError;
use schedlens_schedule::batcher::Batcher;
use schedlens_schedule::columns::{Column, texts};
use schedlens_schedule::schema;
use schedlens_schedule::states::Source;

use super::chunks::Chunks;
use super::error::Error;
use super::folder::{CHUNK_ROWS, Folder};
use crate::error::DecodeError;
use crate::reader::{ChunkSource, Reader, TraceFacts};

const NS_PER_S: i128 = 1_000_000_000;

impl Reader for Folder {
    fn extent(&self) -> u64 {
        self.manifest.all_rows()
    }

    fn records(&self) -> u64 {
        self.manifest.all_rows()
    }

    fn source(&self) -> Source {
        self.manifest.source
    }

    fn start_clock(&self) -> i64 {
        self.manifest.number("start_clock").unwrap_or_default()
    }

    fn session_ns(&self) -> i64 {
        let ticks = i128::from(self.start_clock());
        let hz = self.manifest.number("clock_hz").filter(|hz| *hz > 0);
        let ns = hz.map_or(ticks, |hz| ticks * NS_PER_S / i128::from(hz));
        i64::try_from(ns).unwrap_or(i64::MAX)
    }

    fn clock_name(&self) -> &str {
        self.manifest.text("clock_name").unwrap_or("unknown")
    }

    fn has_yields(&self) -> bool {
        self.manifest.rows.contains_key("sched_yield")
    }

    fn has_wakings(&self) -> bool {
        self.manifest.rows.contains_key("wakeup")
    }

    fn tick_hz(&self) -> Option<i64> {
        self.tick_hz
    }

    fn cpu_batch(&self, batcher: &Batcher) -> Result<RecordBatch, DecodeError> {
        let found = self.whole("cpu", batcher)?;
        Ok(found.ok_or(Error::NoTable { table: "cpu" })?)
    }

    fn trace_batch(
        &self,
        batcher: &Batcher,
        facts: TraceFacts<'_>,
    ) -> Result<RecordBatch, ArrowError> {
        let one = |text: Option<&str>| texts([text].into_iter());
        let long = |value: Option<i64>| {
            let mut column = Column::default();
            column.push_option(value);
            column.array()
        };
        let text = |name: &str| one(self.manifest.text(name));
        let number = |name: &str| long(self.manifest.number(name));
        let mut version = Column::default();
        version.push(schema::VERSION);
        let wall = self.manifest.number("start_time_utc_ns");
        let wall: ArrayRef = Arc::new(TimestampNanosecondArray::from(vec![wall]));
        let columns = vec![
            ("label", one(Some(facts.label))),
            ("source", one(Some(self.manifest.source_name))),
            ("path", one(Some(facts.path))),
            ("host", text("host")),
            ("os", text("os")),
            ("cpu_model", text("cpu_model")),
            ("clock_name", text("clock_name")),
            ("start_clock", number("start_clock")),
            ("clock_hz", number("clock_hz")),
            ("start_time_utc", wall),
            ("first_ns", long(facts.window.0)),
            ("duration_ns", long(facts.window.1)),
            ("events_lost", long(facts.events_lost)),
            ("buffers_lost", number("buffers_lost")),
            ("schema_version", version.array()),
            ("tool_version", one(Some(env!("CARGO_PKG_VERSION")))),
        ];
        batcher.batch("trace", 1, columns)
    }

    fn chunks<'a>(
        &'a self,
        batcher: &'a Batcher,
        _trace_id: i64,
        _core_types: HashMap<i32, String>,
    ) -> Box<dyn ChunkSource + 'a> {
        Box::new(Chunks::new(self, batcher, CHUNK_ROWS))
    }
}
