//! Turns records in time order into chunks of base-table rows.

use std::collections::HashMap;

use arrow_schema::ArrowError;
use schedlens_etl::Recording;
use schedlens_etl::passes::Entry;
use schedlens_etl::passes::chosen::Chosen;
use schedlens_etl::passes::loss::Gap;
use schedlens_etl::passes::merge::{Found, Merge, Stretch};
use schedlens_schedule::batcher::Batcher;
use schedlens_schedule::chunk::Chunk;
use schedlens_schedule::tables::Loss;

use super::session::Session;
use super::state::filling::{CHUNK_ROWS, Filling};
use super::state::waits::Waits;
use crate::error::DecodeError;
use crate::reader::{ChunkSource, Finished};
use crate::stacks::Stacks;

/// Records between two progress reports.
const STEP: u64 = 1 << 16;

/// Reads a recording chunk by chunk.
pub(super) struct Chunks<'a> {
    recording: &'a Recording,
    batcher: &'a Batcher,
    merge: Merge<'a>,
    session: Session<'a>,
    /// Gaps by end; those without an end come last.
    gaps: Vec<Gap>,
    next_gap: usize,
    /// End of that gap.
    gap_due: i64,
    threads_written: usize,
    last_ns: i64,
    read: u64,
    /// Record count at which to report progress next.
    next_step: u64,
    /// The chunk has reached its target size.
    full: bool,
    done: bool,
    /// The last chunk, once all records are read.
    last: Option<Filling>,
}

impl<'a> Chunks<'a> {
    /// Starts at the first record.
    pub(super) fn new(
        recording: &'a Recording,
        chosen: &'a Chosen,
        batcher: &'a Batcher,
        trace_id: i64,
        core_types: HashMap<i32, String>,
    ) -> Self {
        let scan = recording.scan();
        let cpus = core_types.keys().copied().max().map_or(0, |last| last.max(0) as usize + 1);
        let mut by_cpu = vec![None; cpus];
        for (cpu, name) in core_types {
            if let Some(slot) = usize::try_from(cpu).ok().and_then(|cpu| by_cpu.get_mut(cpu)) {
                *slot = Some(name);
            }
        }
        let facts = (recording.survey(), recording.code(), Waits::of(recording));
        let mut session = Session::new(trace_id, scan.log().clock(), facts, by_cpu);
        session.stacks = recording.has_stacks().then(|| Box::new(Stacks::new(trace_id, None)));
        session.first_ns = scan.window().map_or(i64::MIN, |(first, _)| session.clock.ns(first));
        let mut gaps = scan.gaps().to_vec();
        // A gap must be known before its start is reached.
        for gap in &gaps {
            session.current.tables.loss(Loss {
                cpu: gap.cpu.map(i32::from),
                start_ns: gap.start.map(|start| session.clock.ns(start)),
                end_ns: gap.end.map(|end| session.clock.ns(end)),
                events: gap.events,
                signalled_by: gap.signalled_by,
            });
        }
        gaps.sort_by_key(|gap| (gap.end.is_none(), gap.end));
        Self {
            recording,
            batcher,
            merge: scan.merge(chosen),
            session,
            gaps,
            next_gap: 0,
            gap_due: i64::MIN,
            threads_written: 0,
            last_ns: i64::MIN,
            read: 0,
            next_step: STEP,
            full: false,
            done: false,
            last: None,
        }
    }

    fn hand_out(&mut self, (mut filling, until_ns): (Filling, i64)) -> Result<Chunk, ArrowError> {
        filling.tables.switches.has_ideal = self.session.has_ideal;
        let mut batches = filling.tables.finish(self.batcher, &self.session.pools)?;
        filling.rows.finish(self.batcher, &mut batches)?;
        let lives = &self.session.lives;
        let known = lives.all.len();
        if known > self.threads_written {
            let new = self.threads_written..known;
            batches.push(("thread", super::life_rows::threads(lives, self.batcher, new)?));
            self.threads_written = known;
        }
        Ok(Chunk { batches, until_ns })
    }

    /// Reads records until a chunk is ready or all are read.
    fn fill(&mut self, on_progress: &mut dyn FnMut(u64) -> bool) -> Option<(Filling, i64)> {
        let (merge, session) = (&mut self.merge, &mut self.session);
        let clock = session.clock;
        let mut keep_going = true;
        while keep_going && let Some(ahead) = merge.ahead() {
            let begin = ahead.begin();
            if self.full && self.last_ns < clock.ns(begin) {
                self.full = false;
                session.begin_chunk(clock.ns(begin));
                if let Some(ready) = session.unchanging_chunk() {
                    return Some(ready);
                }
            }
            if self.gap_due <= begin {
                self.gap_due = pass_gaps(session, &self.gaps, &mut self.next_gap, begin);
            }
            // Read up to the next gap; a full chunk only takes records with its last time.
            let mut passed = ahead.before(|raw| self.gap_due <= raw);
            if self.full {
                passed = passed.min(ahead.before(|raw| self.last_ns < clock.ns(raw)));
            }
            for (raw, entry) in ahead.first(passed) {
                let ts = clock.ns(raw);
                match ahead.found(entry) {
                    Found::Switch(cpu, begin) => session.plain_switch(cpu, begin, ts),
                    Found::Ready(cpu, begin) => session.plain_ready(cpu, begin, ts),
                    Found::Other => take_other(session, &ahead, entry, ts),
                }
            }
            if let Some((raw, _)) = ahead.first(passed).last() {
                self.last_ns = clock.ns(raw);
            }
            merge.pass(passed);
            self.full = session.current.len() >= CHUNK_ROWS;
            self.read += passed as u64;
            if self.read >= self.next_step {
                self.next_step = self.read + STEP;
                keep_going = on_progress(merge.read());
            }
        }
        self.close();
        None
    }

    /// Closes whatever is still open at the end of the recording.
    fn close(&mut self) {
        self.done = true;
        for gap in self.gaps.get(self.next_gap..).unwrap_or_default() {
            end_gap(&mut self.session, gap);
        }
        self.next_gap = self.gaps.len();
        let open: Vec<_> = self.session.power.open().collect();
        for (cpu, (from, state)) in open {
            self.session.current.tables.idle(from, cpu, None, state);
        }
        self.last = Some(std::mem::take(&mut self.session.current));
        self.session.current.from_ns = self.last.as_ref().map_or(i64::MIN, |last| last.from_ns);
    }
}

/// Processes a record that is neither a plain switch nor a plain wakeup.
#[inline(never)]
fn take_other(session: &mut Session<'_>, ahead: &Stretch<'_>, entry: Entry, ts: i64) {
    if ahead.brief(entry).is_some_and(|brief| session.frequent(&brief, ts)) {
        return;
    }
    if let Some(record) = ahead.record(entry) {
        session.take(&record, ts);
    }
}

/// Applies the gaps that end at or before a raw time; returns the end of the next one.
#[inline(never)]
fn pass_gaps(session: &mut Session<'_>, gaps: &[Gap], next: &mut usize, until: i64) -> i64 {
    while let Some(gap) = gaps.get(*next) {
        match gap.end {
            Some(end) if end <= until => end_gap(session, gap),
            Some(end) => return end,
            None => break,
        }
        *next += 1;
    }
    i64::MAX
}

/// Whatever is open on a CPU may have ended in a gap.
fn end_gap(session: &mut Session<'_>, gap: &Gap) {
    if let Some(cpu) = gap.cpu.map(i32::from) {
        session.scheduling.forget(cpu);
        session.power.forget(cpu);
    }
}

impl ChunkSource for Chunks<'_> {
    fn next_chunk(
        &mut self,
        on_progress: &mut dyn FnMut(u64) -> bool,
    ) -> Result<Option<Chunk>, DecodeError> {
        while !self.done {
            let ready = self.session.unchanging_chunk().or_else(|| self.fill(on_progress));
            if let Some(ready) = ready {
                return Ok(Some(self.hand_out(ready)?));
            }
        }
        if let Some(oldest) = self.session.oldest_chunk() {
            return Ok(Some(self.hand_out(oldest)?));
        }
        Ok(self.last.take().map(|last| self.hand_out((last, i64::MAX))).transpose()?)
    }

    fn utid_at(&self, tid: i64, ts: Option<i64>) -> Option<i64> {
        self.session.lives.at(tid, ts)
    }

    fn finish(&mut self) -> Result<Finished, DecodeError> {
        Ok(super::finish::finish(self.recording, &mut self.session, self.batcher)?)
    }
}
