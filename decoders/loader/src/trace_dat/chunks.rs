//! A recording divided into chunks of base-table rows.

use arrow_schema::ArrowError;
use schedlens_input::problem::Problems;
use schedlens_schedule::batcher::Batcher;
use schedlens_schedule::chunk::Chunk;
use schedlens_schedule::pool::Pools;
use schedlens_trace_dat::Recording;
use schedlens_trace_dat::merge::{Merge, Scope};

use super::guests;
use super::rows::Rows;
use crate::error::DecodeError;
use crate::linux::chunks::{CHUNK_ROWS, Feed, Records};
use crate::linux::record_counts;
use crate::linux::rows as linux;
use crate::reader::{ChunkSource, Finished};

/// The records of a trace.dat, as rows. Without a decompressor there are none.
struct DatRecords<'a> {
    merge: Option<Merge<'a>>,
    rows: Rows<'a>,
}

impl Records for DatRecords<'_> {
    #[inline(always)]
    fn next_ts(&self) -> Option<i64> {
        let time = self.merge.as_ref()?.next_time()?;
        Some(self.rows.since(time))
    }

    #[inline(always)]
    fn read(&mut self, ts: i64) {
        let Some(merge) = &mut self.merge else { return };
        if let Some(merged) = merge.peek() {
            self.rows.record(&merged, ts);
        }
        merge.advance();
    }

    fn ends(&self) -> Vec<(i32, i64)> {
        self.rows.ends()
    }

    fn rows(&self) -> &linux::Rows {
        &self.rows.linux
    }

    fn rows_mut(&mut self) -> &mut linux::Rows {
        &mut self.rows.linux
    }
}

/// Reads a recording chunk by chunk.
pub struct Chunks<'a> {
    recording: &'a Recording,
    feed: Feed<'a, DatRecords<'a>>,
    problems: Problems,
}

impl<'a> Chunks<'a> {
    /// Starts at the first record.
    pub fn new(recording: &'a Recording, batcher: &'a Batcher, trace_id: i64) -> Self {
        let pools = Pools::default();
        let mut problems = recording.problems.clone();
        let merge = Merge::new(recording, Scope::Schedule)
            .map_err(|error| problems.add("records", error.to_string()));
        let records =
            DatRecords { merge: merge.ok(), rows: Rows::new(recording, trace_id, &pools) };
        let feed = Feed::new(records, batcher, pools, CHUNK_ROWS);
        Self { recording, feed, problems }
    }

    fn finished(&mut self) -> Result<Finished, ArrowError> {
        let recording = self.recording;
        let batcher = self.feed.batcher;
        let rows = &mut self.feed.records.rows;
        rows.name_the_rest();
        let (linux, since) = (&rows.linux, |time| rows.since(time));
        let counted = [
            (
                linux.odd.damaged_samples,
                "records",
                "records that are shorter than their event's format",
            ),
            (
                linux.threads.cgroups.version_1,
                "cgroup_attach_task",
                crate::linux::cgroup_moves::VERSION_1,
            ),
            (
                linux.threads.cgroups.unsought,
                "cgroup_attach_task",
                crate::linux::cgroup_moves::UNSOUGHT,
            ),
            (linux.interrupts.unpaired, "interrupts", "an entry or an exit without the other"),
        ];
        for (count, place, what) in counted {
            if count > 0 {
                self.problems.add_many(place, what, count);
            }
        }
        let threads = &linux.threads;
        let problems = self.problems.rows().iter().map(|p| (&*p.place, &*p.what, p.count));
        let batches = vec![
            ("process", threads.process_batch(batcher)?),
            ("thread", threads.batch(batcher, 0, threads.len())?),
            ("thread_name", threads.name_batch(batcher)?),
            ("thread_cgroup", threads.cgroup_batch(batcher)?),
            ("record_count", record_counts::batch(&recording.counts_by_name(), batcher)?),
            ("problem", batcher.problems(problems)?),
            ("recording_identity", guests::identity_batch(recording, batcher)?),
            ("guest_cpu", guests::cpu_batch(recording, batcher, |tid| threads.at_begin(tid))?),
        ];
        Ok(Finished {
            batches,
            first_ns: recording.first.map(since),
            last_ns: recording.last.map(since),
            events_lost: recording.events_lost().and_then(|events| i64::try_from(events).ok()),
            offline: Vec::new(),
            stacks: None,
        })
    }
}

impl ChunkSource for Chunks<'_> {
    fn next_chunk(
        &mut self,
        on_progress: &mut dyn FnMut(u64) -> bool,
    ) -> Result<Option<Chunk>, DecodeError> {
        Ok(self.feed.next_chunk(on_progress)?)
    }

    fn utid_at(&self, tid: i64, ts: Option<i64>) -> Option<i64> {
        self.feed.utid_at(tid, ts)
    }

    fn finish(&mut self) -> Result<Finished, DecodeError> {
        Ok(self.finished()?)
    }
}
