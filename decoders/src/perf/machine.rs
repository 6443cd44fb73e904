//! What a recording says of its machine and its clock: rows of `cpu` and `trace`.

use std::sync::Arc;

use arrow_array::{ArrayRef, RecordBatch, TimestampNanosecondArray};

use super::columns::{Batcher, Column, texts};
use super::events::Family;
use super::recording::Recording;
use super::topology;
use crate::error::DecodeError;
use crate::reader::TraceFacts;

/// perf's time stamps count nanoseconds, whatever the clock.
const CLOCK_HZ: i64 = 1_000_000_000;
/// Version of the tables.
const SCHEMA_VERSION: i32 = 1;

impl Recording {
    /// Raw clock at ns 0.
    pub fn start_clock(&self) -> i64 {
        self.index.first.unwrap_or_default().cast_signed()
    }

    /// Calls of `sched_yield` were recorded.
    pub fn has_yields(&self) -> bool {
        self.has(|family| matches!(family, Family::Yield))
    }

    /// Wakings were recorded.
    pub fn has_wakings(&self) -> bool {
        self.has(|family| matches!(family, Family::Wakeup { .. }))
    }

    /// Name of the clock of the time stamps.
    pub fn clock_name(&self) -> &'static str {
        let by_attr = self.events.attrs.iter().find_map(super::attrs::Attr::clock);
        match by_attr {
            Some(0) => "realtime",
            Some(1) => "monotonic",
            Some(4) => "monotonic_raw",
            Some(7) => "boottime",
            Some(11) => "tai",
            Some(_) => "other",
            None => "perf",
        }
    }

    /// Wall time at the earliest record in ns since 1970, where the file ties its clock to it.
    pub(super) fn wall_start_ns(&self) -> Option<i64> {
        let clock = self.features.clock?;
        let first = i128::from(self.index.first?);
        let wall = i128::from(clock.wall_ns) + first - i128::from(clock.clock_ns);
        i64::try_from(wall).ok()
    }

    /// Operating system and kernel release.
    pub(super) fn os(&self) -> Option<String> {
        self.features.os_release.as_ref().map(|release| format!("Linux {release}"))
    }

    /// The row of `trace`.
    ///
    /// # Errors
    /// Only what contradicts the schema.
    pub fn trace_batch(
        &self,
        batcher: &Batcher,
        facts: TraceFacts<'_>,
    ) -> Result<RecordBatch, DecodeError> {
        let one = |text: Option<&str>| texts([text].into_iter());
        let long = |value: Option<i64>| {
            let mut column = Column::default();
            column.push_option(value);
            column.array()
        };
        let mut version = Column::default();
        version.push(SCHEMA_VERSION);
        let wall: ArrayRef = Arc::new(TimestampNanosecondArray::from(vec![self.wall_start_ns()]));
        let columns = vec![
            ("label", one(Some(facts.label))),
            ("source", one(Some("perf"))),
            ("path", one(Some(facts.path))),
            ("host", one(self.features.host.as_deref())),
            ("os", one(self.os().as_deref())),
            ("cpu_model", one(self.features.cpu_model.as_deref())),
            ("clock_name", one(Some(self.clock_name()))),
            ("start_clock", long(self.index.first.map(u64::cast_signed))),
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

    /// Rows of `cpu`, as far as the file tells.
    ///
    /// # Errors
    /// Only what contradicts the schema.
    pub fn cpu_batch(&self, batcher: &Batcher) -> Result<RecordBatch, DecodeError> {
        let cpus = topology::cpus(&self.features, &self.index.cpus());
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
}
