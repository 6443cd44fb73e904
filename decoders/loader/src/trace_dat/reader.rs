//! trace.dat, as the driver uses it.

use std::collections::HashMap;

use arrow_array::RecordBatch;
use arrow_schema::ArrowError;
use schedlens_schedule::batcher::Batcher;
use schedlens_schedule::states::Source;
use schedlens_trace_dat::Recording;
use schedlens_tracepoints::events::Family;

use super::chunks::Chunks;
use super::machine;
use crate::error::DecodeError;
use crate::linux::machine::trace_batch;
use crate::reader::{ChunkSource, Reader, TraceFacts};

impl Reader for Recording {
    fn extent(&self) -> u64 {
        self.records
    }

    fn records(&self) -> u64 {
        self.records
    }

    fn source(&self) -> Source {
        // The same tracepoints of the same kernel.
        Source::Perf
    }

    fn start_clock(&self) -> i64 {
        self.first.unwrap_or_default().cast_signed()
    }

    fn clock_name(&self) -> &str {
        Recording::clock_name(self)
    }

    fn has_yields(&self) -> bool {
        self.has(|family| matches!(family, Family::Yield))
    }

    fn has_wakings(&self) -> bool {
        self.has(|family| matches!(family, Family::Wakeup { .. }))
    }

    fn cpu_batch(&self, batcher: &Batcher) -> Result<RecordBatch, DecodeError> {
        Ok(machine::cpu_batch(self, batcher)?)
    }

    fn trace_batch(
        &self,
        batcher: &Batcher,
        facts: TraceFacts<'_>,
    ) -> Result<RecordBatch, ArrowError> {
        trace_batch(&machine::described(self), batcher, facts)
    }

    fn chunks<'a>(
        &'a self,
        batcher: &'a Batcher,
        trace_id: i64,
        _core_types: HashMap<i32, String>,
    ) -> Box<dyn ChunkSource + 'a> {
        Box::new(Chunks::new(self, batcher, trace_id))
    }
}
