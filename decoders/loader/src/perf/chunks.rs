//! A recording divided into chunks of base-table rows.

use std::collections::HashMap;

use arrow_schema::ArrowError;
use schedlens_input::problem::Problems;
use schedlens_perf_data::events::Family;
use schedlens_perf_data::merge::Merge;
use schedlens_perf_data::recording::Recording;
use schedlens_schedule::batcher::Batcher;
use schedlens_schedule::chunk::Chunk;
use schedlens_schedule::pool::Pools;

use super::pending::Pending;
use super::record_counts;
use super::rows::Rows;
use crate::reader::{Finished, Offline};

/// Reads a recording chunk by chunk.
pub struct Chunks<'a> {
    recording: &'a Recording,
    batcher: &'a Batcher,
    merge: Merge<'a>,
    rows: Rows<'a>,
    pools: Pools,
    threads_written: usize,
    chunk_rows: usize,
    done: bool,
    problems: Problems,
    read: u64,
}

impl<'a> Chunks<'a> {
    /// Starts at the first record; `core_types` by CPU, if known.
    pub fn new(
        recording: &'a Recording,
        batcher: &'a Batcher,
        trace_id: i64,
        core_types: HashMap<i32, String>,
        chunk_rows: usize,
    ) -> Self {
        let pools = Pools::default();
        Self {
            recording,
            batcher,
            merge: Merge::new(recording),
            rows: Rows::new(recording, trace_id, core_types, &pools),
            pools,
            threads_written: 0,
            chunk_rows,
            done: false,
            problems: recording.problems.clone(),
            read: 0,
        }
    }

    /// Records read so far.
    pub fn read(&self) -> u64 {
        self.read
    }

    /// The thread that had an id at a time (without a time: at the start), once all chunks are
    /// read.
    pub fn utid_at(&self, tid: i64, ts: Option<i64>) -> Option<i64> {
        match ts {
            Some(ts) => self.rows.threads.at(tid, ts),
            None => self.rows.threads.at_begin(tid),
        }
    }

    /// The next chunk; `None` after the last.
    ///
    /// # Errors
    /// Fails only if a value contradicts the schema; never because of the recording's contents.
    pub fn next_chunk(
        &mut self,
        mut on_progress: impl FnMut(u64) -> bool,
    ) -> Result<Option<Chunk>, ArrowError> {
        loop {
            if let Some(pending) = self.rows.release(self.done) {
                return self.hand_out(pending).map(Some);
            }
            if self.done {
                return Ok(None);
            }
            let until_ns = self.fill(&mut on_progress);
            self.rows.cut(until_ns, &self.pools);
        }
    }

    fn hand_out(&mut self, pending: Pending) -> Result<Chunk, ArrowError> {
        let mut batches = pending.tables.finish(self.batcher, &self.pools)?;
        let threads = &self.rows.threads;
        let known = threads.len();
        if known > self.threads_written {
            batches.push(("thread", threads.batch(self.batcher, self.threads_written, known)?));
            self.threads_written = known;
        }
        Ok(Chunk { batches, until_ns: pending.until_ns })
    }

    /// Reads records until the chunk is full or all are read; returns its end.
    fn fill(&mut self, on_progress: &mut impl FnMut(u64) -> bool) -> i64 {
        let mut last = None;
        while let Some(time) = self.merge.next_time() {
            let ts = self.rows.since(time);
            if self.rows.current.rows() >= self.chunk_rows && last.is_some_and(|last| last < ts) {
                return ts;
            }
            last = Some(ts);
            let Some(merged) = self.merge.next() else { break };
            self.rows.record(&merged, ts);
            self.read += 1;
            if self.read.is_multiple_of(1 << 16) && !on_progress(self.read) {
                break;
            }
        }
        self.done = true;
        self.rows.close_open();
        i64::MAX
    }

    /// Everything that is known only at the end.
    ///
    /// # Errors
    /// Fails only if a value contradicts the schema.
    pub fn finish(&mut self) -> Result<Finished, ArrowError> {
        let recording = self.recording;
        let index = &recording.index;
        let batcher = self.batcher;
        let (threads, odd) = (&self.rows.threads, self.rows.odd);
        let counted = [
            (odd.damaged_samples, "samples", "samples that are shorter than their event's format"),
            (
                odd.placeless,
                "PERF_SAMPLE_CPU",
                "records without their CPU: record with --sample-cpu",
            ),
            (
                odd.shared_counters,
                "PERF_SAMPLE_READ",
                "counters took turns on the hardware, so their values miss part of the time: \
                 record fewer at once",
            ),
            (odd.repeated, "records", "in the file twice: the second one left out"),
            (self.rows.interrupts.unpaired, "interrupts", "an entry or an exit without the other"),
        ];
        for (count, place, what) in counted {
            if count > 0 {
                self.problems.add_many(place, what, count);
            }
        }
        for span in &recording.offline {
            self.problems.add(
                format!("CPU {}", span.cpu),
                "this CPU went offline while it was recorded; perf records nothing of a CPU after \
                 it returns",
            );
        }
        let switches = self.recording.named.iter().zip(&index.samples);
        let switches: u64 = switches
            .filter(|(event, _)| matches!(event.family, Family::Switch { .. }))
            .map(|(_, count)| count)
            .sum();
        // Exec by a thread other than the leader causes a few of these.
        if odd.namespace_switches.unsigned_abs() * 2 > switches {
            self.problems.add_many(
                "PERF_SAMPLE_TID",
                "thread ids of samples and of tracepoints differ: recorded inside a pid namespace, \
                 threads may be attributed to wrong processes",
                odd.namespace_switches,
            );
        }
        let lives = threads.len();
        let problems = self.problems.rows().iter().map(|p| (&*p.place, &*p.what, p.count));
        let batches = vec![
            ("process", threads.process_batch(batcher)?),
            ("thread", threads.batch(batcher, 0, lives)?),
            ("thread_name", threads.name_batch(batcher)?),
            ("record_count", record_counts::batch(recording, batcher)?),
            ("problem", batcher.problems(problems)?),
        ];
        Ok(Finished {
            batches,
            first_ns: index.first.map(|ts| self.rows.since(ts)),
            last_ns: index.last.map(|ts| self.rows.since(ts)),
            events_lost: i64::try_from(index.lost.max(index.lost_samples)).ok(),
            offline: recording
                .offline
                .iter()
                .map(|span| Offline {
                    cpu: span.cpu,
                    from_ns: self.rows.since(span.from),
                    until_ns: span.until.map(|until| self.rows.since(until)),
                })
                .collect(),
        })
    }
}
