//! One logical CPU: who is on it, and how its time divides into pieces.

use super::rows::{BEGIN, Rows, Tile};
use super::thread::OpenSlice;
use super::words::CpuWord;

/// Who is on a CPU.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Occupant {
    /// No switch has been seen yet.
    First,
    /// A thread, by its number.
    Thread(u32),
    /// A thread that the records do not name.
    Unnamed,
    /// Unknown after a gap that started at this time; it is whichever thread leaves next.
    AfterGap(i64),
}

/// A thread seen elsewhere while it should have been here: the switch-out is missing.
#[derive(Clone, Copy, Debug)]
pub(super) struct Orphan {
    pub(super) thread: u32,
    pub(super) slice: OpenSlice,
    pub(super) priority: Option<i32>,
    /// Time at which it was first seen elsewhere.
    pub(super) until: i64,
}

/// State of one logical CPU.
#[derive(Debug)]
pub(super) struct Cpu {
    pub(super) cpu: i32,
    pub(super) occupant: Occupant,
    /// Start of the occupant's slice.
    pub(super) from: i64,
    pub(super) left_censored: bool,
    pub(super) priority: Option<i32>,
    /// Since this time the CPU has no record, although a thread was sent here and ran.
    pub(super) silent_since: Option<i64>,
    /// Time of the last switch to the idle thread.
    pub(super) went_idle: i64,
    /// Time of the last switch that counts.
    pub(super) last_switch: Option<i64>,
    /// Time of its last record of any kind.
    pub(super) last_record: i64,
    /// Position of the record of that switch, in which a planned switch-in may need correction.
    pub(super) last_row: u64,
    pub(super) last_seq: i64,
    /// Threads of the last tracepoint record, until its duplicate `switch_event` is dropped.
    pub(super) unmatched: Option<(Option<i64>, Option<i64>)>,
    pub(super) orphan: Option<Orphan>,
    /// Idle records of a CPU without any switch so far: start and end.
    pub(super) idles: Vec<(i64, i64)>,
    /// Interrupts that may be in the current slice: start and end.
    interrupts: Vec<(i64, i64)>,
    /// The pieces cover all time before this.
    tiled: i64,
    unknown_from: Option<i64>,
}

impl Cpu {
    pub(super) fn new(cpu: i32) -> Self {
        Self {
            cpu,
            occupant: Occupant::First,
            from: BEGIN,
            left_censored: true,
            priority: None,
            silent_since: None,
            went_idle: BEGIN,
            last_switch: None,
            last_record: BEGIN,
            last_row: 0,
            last_seq: 0,
            unmatched: None,
            orphan: None,
            idles: Vec::new(),
            interrupts: Vec::new(),
            tiled: BEGIN,
            unknown_from: None,
        }
    }

    /// Notes an interrupt that may fall into the idle thread or last into it.
    pub(super) fn interrupt(&mut self, ts: i64, end: i64) {
        self.interrupts.push((ts, end));
    }

    /// Forgets interrupts that ended before a time, in a slice that is known to belong to a thread.
    pub(super) fn forget_interrupts(&mut self, before: i64) {
        if !self.interrupts.is_empty() {
            self.interrupts.retain(|&(_, end)| end > before);
        }
    }

    /// Adds unknown time up to `to`.
    pub(super) fn unknown(&mut self, to: i64) {
        if to > self.tiled {
            self.unknown_from.get_or_insert(self.tiled);
            self.tiled = to;
        }
    }

    /// Adds a thread's time up to `to`.
    pub(super) fn thread(&mut self, to: i64, rows: &mut Rows) {
        self.piece(to, CpuWord::Thread, rows);
        self.forget_interrupts(to);
    }

    /// Adds the idle thread's time up to `to`, with the interrupts in it.
    pub(super) fn idle(&mut self, to: i64, rows: &mut Rows) {
        let mut interrupts = std::mem::take(&mut self.interrupts);
        interrupts.sort_unstable();
        for &(begin, end) in &interrupts {
            if begin >= to {
                break;
            }
            self.piece(begin, CpuWord::Idle, rows);
            self.piece(end.min(to), CpuWord::Interrupt, rows);
        }
        self.piece(to, CpuWord::Idle, rows);
        self.interrupts = interrupts;
        self.forget_interrupts(to);
    }

    /// Windows records an interrupt at its end. The time up to which the idle thread is known to
    /// have run before a gap: its last switch or the end of an interrupt, if a record since then may
    /// be that of an interrupt whose end is lost; else the gap's start.
    pub(super) fn proven_idle(&self, gap: i64) -> i64 {
        let ends = self.interrupts.iter().map(|&(_, end)| end).filter(|&end| end <= gap);
        let proof = ends.chain([self.from]).max().unwrap_or(self.from);
        if self.last_record > proof { proof.min(gap) } else { gap }
    }

    /// Adds time in which the CPU was offline.
    pub(super) fn offline(&mut self, to: i64, rows: &mut Rows) {
        self.piece(to, CpuWord::Offline, rows);
    }

    fn piece(&mut self, to: i64, state: CpuWord, rows: &mut Rows) {
        if to <= self.tiled {
            return;
        }
        self.flush(rows);
        rows.tile(Tile { cpu: self.cpu, ts: self.tiled, end: to, state });
        self.tiled = to;
    }

    /// Writes pending unknown time.
    pub(super) fn flush(&mut self, rows: &mut Rows) {
        if let Some(from) = self.unknown_from.take() {
            let (cpu, end) = (self.cpu, self.tiled);
            rows.tile(Tile { cpu, ts: from, end, state: CpuWord::Unknown });
        }
    }
}
