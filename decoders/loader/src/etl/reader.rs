//! .etl files, as the driver uses them.

use std::collections::HashMap;

use arrow_array::RecordBatch;
use arrow_schema::ArrowError;
use schedlens_etl::Recording;
use schedlens_schedule::batcher::Batcher;
use schedlens_schedule::states::Source;

use super::chunks::Chunks;
use super::machine;
use crate::error::DecodeError;
use crate::reader::{ChunkSource, Reader, TraceFacts};

impl Reader for Recording {
    fn extent(&self) -> u64 {
        self.scan().log().bytes()
    }

    fn records(&self) -> u64 {
        self.scan().records()
    }

    fn source(&self) -> Source {
        Source::Etw
    }

    fn start_clock(&self) -> i64 {
        self.scan().log().clock().start
    }

    fn session_ns(&self) -> i64 {
        self.scan().log().clock().session_ns()
    }

    fn clock_name(&self) -> &str {
        self.scan().log().clock().name()
    }

    fn has_yields(&self) -> bool {
        true
    }

    fn has_wakings(&self) -> bool {
        Recording::has_wakings(self)
    }

    fn cpu_batch(&self, batcher: &Batcher) -> Result<RecordBatch, DecodeError> {
        Ok(machine::cpu_batch(self, batcher)?)
    }

    fn trace_batch(
        &self,
        batcher: &Batcher,
        facts: TraceFacts<'_>,
    ) -> Result<RecordBatch, ArrowError> {
        machine::trace_batch(self, batcher, facts)
    }

    fn chunks<'a>(
        &'a self,
        batcher: &'a Batcher,
        trace_id: i64,
        core_types: HashMap<i32, String>,
    ) -> Box<dyn ChunkSource + 'a> {
        Box::new(Chunks::new(self, self.chosen(), batcher, trace_id, core_types))
    }
}
