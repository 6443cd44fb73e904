//! Records in the order of time, turned into frames of base-table rows.

use std::collections::HashMap;

use serde_json::{Value as Json, json};

use super::Tables;
use super::chosen::Chosen;
use super::loss::Gap;
use super::merge::{Merge, Stretch};
use super::recording::Recording;
use super::rows::Rows;
use super::session::{Filling, Session};
use crate::columns::Batcher;
use crate::error::DecodeError;
use crate::frame::Frame;
use crate::reader::{FRAME_ROWS, Finished, FrameSource};
use crate::tables::Loss;

/// Records between two looks at how far the reading is.
const STEP: u64 = 1 << 16;

/// Reads a recording frame by frame.
pub(super) struct Frames<'a> {
    recording: &'a Recording,
    batcher: &'a Batcher,
    merge: Merge<'a>,
    session: Session<'a>,
    /// Gaps by their end; those without one last.
    gaps: Vec<Gap>,
    next_gap: usize,
    /// When that one ends.
    gap_due: i64,
    threads_told: usize,
    last_ns: i64,
    read: u64,
    /// When to look next how far the reading is.
    next_step: u64,
    /// The frame has all rows that it should.
    full: bool,
    done: bool,
    /// A frame that nothing changes any more, and its end.
    ready: Option<(Filling, i64)>,
    /// The last frame, once all records are read.
    last: Option<Filling>,
}

impl<'a> Frames<'a> {
    /// From the begin.
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
        let survey = recording.survey();
        let session = Session::new(trace_id, scan.log().clock(), survey, by_cpu);
        let mut gaps = scan.gaps().to_vec();
        gaps.sort_by_key(|gap| (gap.end.is_none(), gap.end));
        Self {
            recording,
            batcher,
            merge: scan.merge(chosen),
            session,
            gaps,
            next_gap: 0,
            gap_due: i64::MIN,
            threads_told: 0,
            last_ns: i64::MIN,
            read: 0,
            next_step: STEP,
            full: false,
            done: false,
            ready: None,
            last: None,
        }
    }

    fn hand_out(&mut self, (filling, until_ns): (Filling, i64)) -> Result<Frame, DecodeError> {
        let mut batches = filling.tables.finish(self.batcher, &self.session.shelves)?;
        filling.rows.finish(self.batcher, &mut batches)?;
        let lives = &self.session.lives;
        let known = lives.all.len();
        if known > self.threads_told {
            let told = self.threads_told..known;
            batches.push(("thread", super::life_rows::threads(lives, self.batcher, told)?));
            self.threads_told = known;
        }
        Ok(Frame { batches, until_ns })
    }

    /// Reads records until a frame is ready, or all are read.
    fn fill(&mut self, on_progress: &mut dyn FnMut(u64) -> bool) -> Option<(Filling, i64)> {
        let (merge, session) = (&mut self.merge, &mut self.session);
        let clock = session.clock;
        let mut goes_on = true;
        while goes_on && let Some(ahead) = merge.ahead() {
            let mut passed = 0;
            for (number, raw) in ahead.times().enumerate() {
                let ts = clock.ns(raw);
                if self.full && self.last_ns < ts {
                    self.full = false;
                    self.ready = cut(session, ts);
                }
                if self.gap_due <= raw {
                    self.gap_due = pass_gaps(session, &self.gaps, &mut self.next_gap, raw);
                }
                if !ahead.brief(number).is_some_and(|brief| session.frequent(&brief, ts)) {
                    take_other(session, &ahead, (number, ts));
                }
                self.last_ns = ts;
                passed = number + 1;
                if self.ready.is_some() {
                    break;
                }
            }
            merge.pass(passed);
            self.full = session.current.len() >= FRAME_ROWS;
            self.read += passed as u64;
            if self.read >= self.next_step {
                self.next_step = self.read + STEP;
                goes_on = on_progress(merge.read());
            }
            if self.ready.is_some() {
                return self.ready.take();
            }
        }
        self.close();
        None
    }

    /// Ends what the recording leaves open.
    fn close(&mut self) {
        self.done = true;
        for gap in self.gaps.get(self.next_gap..).unwrap_or_default() {
            gap_row(&mut self.session, gap);
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

/// Processes (`pid`, `name`, `start_ns`, `end_ns`) and threads (`tid`, `pid`, `name`, `start_ns`,
/// `end_ns`) that records of their lives tell of, as JSON.
pub(super) fn lives(recording: &Recording) -> (Json, Json) {
    let chosen = Recording::chosen_lives();
    let scan = recording.scan();
    let clock = scan.log().clock();
    let mut session = Session::new(0, clock, recording.survey(), Vec::new());
    let mut merge = scan.merge(&chosen);
    while let Some(record) = merge.next_record() {
        session.take(&record, clock.ns(record.ts));
    }
    let lives = &session.lives;
    let processes = lives.processes.all.iter().filter(|process| process.told);
    let processes = processes.map(|process| {
        json!({
            "pid": process.pid,
            "name": process.name,
            "start_ns": process.start_ns,
            "end_ns": process.end_ns,
        })
    });
    let threads = lives.all.iter().filter(|life| !life.idle).map(|life| {
        let process = life.process.and_then(|process| lives.processes.all.get(process as usize));
        json!({
            "tid": life.tid,
            "pid": process.map(|process| process.pid),
            "name": life.names.last().map(|(_, name)| name),
            "start_ns": life.start_ns,
            "end_ns": life.end_ns,
        })
    });
    (processes.collect(), threads.collect())
}

/// Takes a record whose header is one of the rarer kinds.
#[inline(never)]
fn take_other(session: &mut Session<'_>, ahead: &Stretch<'_>, (number, ts): (usize, i64)) {
    if let Some(record) = ahead.record(number) {
        session.take(&record, ts);
    }
}

/// Begins a new frame at a time; gives back the one before the last, which nothing changes any
/// more, and its end.
#[inline(never)]
fn cut(session: &mut Session<'_>, from_ns: i64) -> Option<(Filling, i64)> {
    let next = Filling {
        tables: Tables::new(&session.shelves),
        rows: Rows::default(),
        number: session.current.number + 1,
        from_ns,
    };
    let mut filled = std::mem::replace(&mut session.current, next);
    filled.tables.wakeups.settle();
    let until = filled.from_ns;
    session.scheduling.settle(filled.number);
    session.previous.replace(filled).map(|ready| (ready, until))
}

/// Applies the gaps that end at or before a raw time; gives back when the next one ends.
#[inline(never)]
fn pass_gaps(session: &mut Session<'_>, gaps: &[Gap], next: &mut usize, until: i64) -> i64 {
    while let Some(gap) = gaps.get(*next) {
        match gap.end {
            Some(end) if end <= until => gap_row(session, gap),
            Some(end) => return end,
            None => break,
        }
        *next += 1;
    }
    i64::MAX
}

/// Notes a gap: its row, and that its CPU's state is not known.
fn gap_row(session: &mut Session<'_>, gap: &Gap) {
    let clock = session.clock;
    let cpu = gap.cpu.map(i32::from);
    session.current.tables.loss(Loss {
        cpu,
        start_ns: gap.start.map(|start| clock.ns(start)),
        end_ns: gap.end.map(|end| clock.ns(end)),
        events: gap.events,
        signalled_by: gap.signalled_by,
    });
    if let Some(cpu) = cpu {
        session.scheduling.forget(cpu);
        session.power.forget(cpu);
    }
}

impl FrameSource for Frames<'_> {
    fn next_frame(
        &mut self,
        on_progress: &mut dyn FnMut(u64) -> bool,
    ) -> Result<Option<Frame>, DecodeError> {
        while !self.done {
            if let Some(ready) = self.fill(on_progress) {
                return self.hand_out(ready).map(Some);
            }
        }
        if let Some(previous) = self.session.previous.take() {
            let until = self.session.current.from_ns;
            return self.hand_out((previous, until)).map(Some);
        }
        self.last.take().map(|last| self.hand_out((last, i64::MAX))).transpose()
    }

    fn utid_at(&self, tid: i64, ts: Option<i64>) -> Option<i64> {
        self.session.lives.at(tid, ts)
    }

    fn finish(&mut self) -> Result<Finished, DecodeError> {
        super::finish::finish(self.recording, &mut self.session, self.batcher)
    }
}
