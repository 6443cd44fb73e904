//! perf.data, as the driver uses it.

use std::collections::HashMap;
use std::path::PathBuf;

use arrow_array::RecordBatch;
use arrow_schema::ArrowError;
use schedlens_perf_data::recording::Recording;
use schedlens_schedule::batcher::Batcher;
use schedlens_schedule::chunk::Chunk;
use schedlens_schedule::states::Source;

use super::chunks::Chunks;
use super::machine;
use crate::error::DecodeError;
use crate::linux::chunks::CHUNK_ROWS;
use crate::linux::machine::trace_batch;
use crate::reader::{ChunkSource, Finished, Reader, TraceFacts};

impl Reader for Recording {
    fn extent(&self) -> u64 {
        Recording::records(self)
    }

    fn records(&self) -> u64 {
        Recording::records(self)
    }

    fn source(&self) -> Source {
        Source::Perf
    }

    fn start_clock(&self) -> i64 {
        Recording::start_clock(self)
    }

    fn clock_name(&self) -> &str {
        Recording::clock_name(self)
    }

    fn has_yields(&self) -> bool {
        Recording::has_yields(self)
    }

    fn has_wakings(&self) -> bool {
        Recording::has_wakings(self)
    }

    fn of_chosen_threads(&self) -> Option<bool> {
        self.of_chosen_threads
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
        core_types: HashMap<i32, String>,
    ) -> Box<dyn ChunkSource + 'a> {
        Box::new(Chunks::new(self, batcher, trace_id, core_types, CHUNK_ROWS))
    }
}

impl ChunkSource for Chunks<'_> {
    fn next_chunk(
        &mut self,
        on_progress: &mut dyn FnMut(u64) -> bool,
    ) -> Result<Option<Chunk>, DecodeError> {
        Ok(Chunks::next_chunk(self, on_progress)?)
    }

    fn generated_code(&mut self, folders: &[PathBuf]) {
        Chunks::generated_code(self, folders);
    }

    fn utid_at(&self, tid: i64, ts: Option<i64>) -> Option<i64> {
        Chunks::utid_at(self, tid, ts)
    }

    fn finish(&mut self) -> Result<Finished, DecodeError> {
        Ok(Chunks::finish(self)?)
    }
}
