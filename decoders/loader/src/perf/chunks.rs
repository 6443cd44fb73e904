//! A recording divided into chunks of base-table rows.

use std::collections::HashMap;
use std::path::PathBuf;

use arrow_schema::ArrowError;
use schedlens_input::problem::Problems;
use schedlens_perf_data::merge::Merge;
use schedlens_perf_data::recording::Recording;
use schedlens_schedule::batcher::Batcher;
use schedlens_schedule::chunk::Chunk;
use schedlens_schedule::pool::Pools;
use schedlens_tracepoints::events::Family;

use super::rows::Rows;
use crate::linux::chunks::{Feed, Records};
use crate::linux::record_counts;
use crate::linux::rows as linux;
use crate::reader::{Finished, Offline};

/// In a recording of chosen threads, `sched_switch` shows only when they leave. `recorded_kind`
/// finds such recordings by the place of this problem.
const ONLY_CHOSEN: &str = "only switch-outs of chosen threads are recorded, so who ran otherwise \
                           is unknown: record with -a";

/// The records of a perf.data, as rows.
struct PerfRecords<'a> {
    merge: Merge<'a>,
    rows: Rows<'a>,
}

impl Records for PerfRecords<'_> {
    #[inline(always)]
    fn next_ts(&self) -> Option<i64> {
        self.merge.next_time().map(|time| self.rows.since(time))
    }

    #[inline(always)]
    fn read(&mut self, ts: i64) {
        if let Some(merged) = self.merge.next() {
            self.rows.record(&merged, ts);
        }
    }

    fn ends(&self) -> Vec<(i32, i64)> {
        self.rows.ends()
    }

    fn release(&mut self) {
        self.merge.release();
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
    feed: Feed<'a, PerfRecords<'a>>,
    problems: Problems,
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
        let rows = Rows::new(recording, trace_id, core_types, &pools);
        let records = PerfRecords { merge: Merge::new(recording), rows };
        let feed = Feed::new(records, batcher, pools, chunk_rows);
        Self { recording, feed, problems: recording.problems.clone() }
    }

    /// Folders with copies of what just-in-time compilers wrote.
    pub fn generated_code(&mut self, folders: &[PathBuf]) {
        self.feed.records.rows.callchains.generated.folders = folders.to_vec();
    }

    /// Records read so far.
    pub fn read(&self) -> u64 {
        self.feed.read()
    }

    /// The thread that had an id at a time (without a time: at the start), once all chunks are
    /// read.
    pub fn utid_at(&self, tid: i64, ts: Option<i64>) -> Option<i64> {
        self.feed.utid_at(tid, ts)
    }

    /// The next chunk; `None` after the last.
    ///
    /// # Errors
    /// Fails only if a value contradicts the schema; never because of the recording's contents.
    pub fn next_chunk(
        &mut self,
        on_progress: impl FnMut(u64) -> bool,
    ) -> Result<Option<Chunk>, ArrowError> {
        self.feed.next_chunk(on_progress)
    }

    /// Everything that is known only at the end.
    ///
    /// # Errors
    /// Fails only if a value contradicts the schema.
    pub fn finish(&mut self) -> Result<Finished, ArrowError> {
        let recording = self.recording;
        let index = &recording.index;
        let batcher = self.feed.batcher;
        let rows = &self.feed.records.rows;
        let (threads, odd, own) = (&rows.linux.threads, rows.linux.odd, rows.odd);
        let counted = [
            (odd.damaged_samples, "samples", "samples that are shorter than their event's format"),
            (
                odd.placeless,
                "PERF_SAMPLE_CPU",
                "records without their CPU: record with --sample-cpu",
            ),
            (
                own.shared_counters,
                "PERF_SAMPLE_READ",
                "counters took turns on the hardware, so their values miss part of the time: \
                 record fewer at once",
            ),
            (
                threads.cgroups.version_1,
                "cgroup_attach_task",
                crate::linux::cgroup_moves::VERSION_1,
            ),
            (threads.cgroups.unsought, "cgroup_attach_task", crate::linux::cgroup_moves::UNSOUGHT),
            (own.repeated, "records", "in the file twice: the second one left out"),
            (rows.linux.interrupts.unpaired, "interrupts", "an entry or an exit without the other"),
        ];
        for (count, place, what) in counted.into_iter().chain(rows.callchains.problems()) {
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
        if recording.of_chosen_threads == Some(true) && switches > 0 {
            self.problems.add("PERF_RECORD_THREAD_MAP", ONLY_CHOSEN);
        }
        let lives = threads.len();
        let problems = self.problems.rows().iter().map(|p| (&*p.place, &*p.what, p.count));
        let batches = vec![
            ("process", threads.process_batch(batcher)?),
            ("thread", threads.batch(batcher, 0, lives)?),
            ("thread_name", threads.name_batch(batcher)?),
            ("thread_cgroup", threads.cgroup_batch(batcher)?),
            ("record_count", record_counts::batch(&recording.counts(), batcher)?),
            ("problem", batcher.problems(problems)?),
        ];
        let stacks = self.feed.records.rows.callchains.stacks.take();
        let rows = &self.feed.records.rows;
        Ok(Finished {
            stacks,
            batches,
            first_ns: index.first.map(|ts| rows.since(ts)),
            last_ns: index.last.map(|ts| rows.since(ts)),
            events_lost: i64::try_from(index.lost.max(index.lost_samples)).ok(),
            offline: recording
                .offline
                .iter()
                .map(|span| Offline {
                    cpu: span.cpu,
                    from_ns: rows.since(span.from),
                    until_ns: span.until.map(|until| rows.since(until)),
                })
                .collect(),
        })
    }
}
