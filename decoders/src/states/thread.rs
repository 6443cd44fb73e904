//! One thread: what it does now, since when, and what made it so.

use super::rows::{BEGIN, Rows, Span};
use super::wakeups::{Kind, Wakeups, Waking};
use super::words::State;

/// Wakings kept open for one thread; of more, the last one replaces the one before it.
const OPEN_WAKINGS: usize = 64;

/// What a thread does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Phase {
    /// It existed when the recording began and no record has told about it yet.
    Untouched,
    /// Created and not yet made runnable.
    New,
    /// On a CPU.
    Running,
    /// It left its CPU able to run.
    Runnable,
    /// It left its CPU to wait.
    Blocked,
    /// It left its CPU for good, unless a later record shows it again.
    Exited,
    /// Not known; `out_seen`: its last switch-out was seen all the same.
    Unknown {
        /// Whether `since` is that switch-out.
        out_seen: bool,
    },
    /// A planned switch-in did not happen: what came before it still holds.
    Replanned,
}

/// What came before a stay, as far as known.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Entry {
    /// The phase that ended with the waking or the switch-in, and when it began.
    pub(super) was: Phase,
    pub(super) since: i64,
    pub(super) reason: Option<u8>,
    pub(super) left_censored: bool,
    pub(super) ready_from: Option<i64>,
    pub(super) by_waking: bool,
    pub(super) waker: Option<i64>,
    pub(super) target: Option<i32>,
    pub(super) wait_ns: Option<i64>,
}

/// A stay on a CPU that is under way.
#[derive(Clone, Copy, Debug)]
pub(super) struct Stay {
    pub(super) cpu: i32,
    pub(super) from: i64,
    pub(super) left_censored: bool,
    pub(super) prev_cpu: Option<i32>,
    /// `None` for a stay whose begin was not seen.
    pub(super) entry: Option<Entry>,
}

/// One life of a thread.
#[derive(Debug)]
pub(super) struct Thread {
    pub(super) utid: i64,
    pub(super) is_idle: bool,
    /// Some table has named it.
    pub(super) known: bool,
    pub(super) phase: Phase,
    pub(super) since: i64,
    /// Where a record did not show the begin of the phase.
    pub(super) left_censored: bool,
    pub(super) reason: Option<u8>,
    pub(super) stay: Option<Stay>,
    /// CPU of the last stay.
    pub(super) cpu: Option<i32>,
    pub(super) last_yield: Option<i64>,
    /// Time of its last switch or waking.
    pub(super) last_record: Option<i64>,
    /// Wakings that came in this phase, and before it in the stay that it follows.
    pub(super) wakings: Vec<Waking>,
    /// What precedes a switch-in that was planned in vain.
    pub(super) replanned: Option<Entry>,
}

impl Thread {
    pub(super) fn new(utid: i64) -> Self {
        Self {
            utid,
            is_idle: false,
            known: false,
            phase: Phase::Untouched,
            since: BEGIN,
            left_censored: true,
            reason: None,
            stay: None,
            cpu: None,
            last_yield: None,
            last_record: None,
            wakings: Vec::new(),
            replanned: None,
        }
    }

    /// Adds a waking; it stays open until the thread is switched in.
    pub(super) fn wake(&mut self, waking: Waking, wakeups: &mut Wakeups) {
        self.last_record = Some(waking.ts);
        if self.wakings.len() >= OPEN_WAKINGS
            && let Some(last) = self.wakings.pop()
        {
            wakeups.decide(&last, false);
        }
        self.wakings.push(waking);
    }

    /// Notes where the thread is sent: of `sched_waking` only the first move tells.
    pub(super) fn moved(&mut self, cpu: i32) {
        for waking in &mut self.wakings {
            if waking.kind == Kind::Waking && !waking.moved {
                waking.moved = true;
                waking.target = Some(cpu);
            }
        }
    }

    /// Which open waking begins the ready period that ends at `until`, and when that period begins.
    /// A waking of the stay before explains a switch-in only; without one it explains nothing.
    fn chosen(&self, until: i64, entered: bool) -> Option<(usize, i64)> {
        let first = |from: i64, kinds: &[Kind]| {
            self.wakings
                .iter()
                .position(|w| w.ts >= from && w.ts <= until && kinds.contains(&w.kind))
                .map(|place| (place, self.wakings[place].ts))
        };
        let last_before = |before: i64, kinds: &[Kind]| {
            let fits = |w: &Waking| entered && w.ts < before && kinds.contains(&w.kind);
            self.wakings.iter().rposition(fits)
        };
        const WAKING: [Kind; 3] = [Kind::Waking, Kind::Ready, Kind::New];
        const WAKEUP: [Kind; 1] = [Kind::Wakeup];
        let from = self.since;
        match self.phase {
            Phase::Blocked | Phase::Exited => first(from, &WAKING)
                .or_else(|| last_before(from, &WAKING).map(|place| (place, from)))
                .or_else(|| first(from, &WAKEUP))
                .or_else(|| last_before(from, &WAKEUP).map(|place| (place, from))),
            Phase::New => first(from, &[Kind::New])
                .or_else(|| first(from, &[Kind::Waking, Kind::Ready]))
                .or_else(|| first(from, &WAKEUP)),
            Phase::Untouched | Phase::Unknown { .. } => {
                first(from, &WAKING).or_else(|| first(from, &WAKEUP))
            }
            Phase::Running | Phase::Runnable | Phase::Replanned => None,
        }
    }

    /// What lies behind the thread at `until`: the waking that made it ready is settled as
    /// effective, those before `until` as ineffective. With `entered`, `until` is a switch-in.
    pub(super) fn settle(&mut self, until: i64, entered: bool, wakeups: &mut Wakeups) -> Entry {
        let mut entry = match self.replanned.take() {
            Some(entry) if self.phase == Phase::Replanned => entry,
            _ => Entry {
                was: self.phase,
                since: self.since,
                reason: self.reason,
                left_censored: self.left_censored,
                ready_from: None,
                by_waking: false,
                waker: None,
                target: None,
                wait_ns: None,
            },
        };
        let chosen = self.chosen(until, entered);
        match self.phase {
            Phase::Runnable => {
                entry.ready_from = Some(self.since);
                entry.wait_ns = Some(0);
            }
            Phase::New => entry.wait_ns = Some(0),
            _ => {}
        }
        if let Some((place, ready_from)) = chosen {
            let waking = self.wakings.remove(place);
            wakeups.decide(&waking, true);
            entry.ready_from = Some(ready_from);
            entry.by_waking = true;
            entry.waker = waking.waker;
            entry.target = waking.target;
            if matches!(
                self.phase,
                Phase::Blocked | Phase::Exited | Phase::Unknown { out_seen: true }
            ) {
                entry.wait_ns = Some(ready_from.saturating_sub(self.since));
            }
        }
        // A waking at this very time may answer the switch-out of an empty stay that begins here.
        self.drop_wakings(|waking| waking.ts >= until, wakeups);
        entry
    }

    /// Windows: a ready thread is not made ready again. One that is has run and waited since,
    /// unrecorded: it was planned in vain, or a gap that ended at `gap_end` hid it. What it did is
    /// not known up to that waking.
    pub(super) fn doubt(&mut self, waking: &Waking, gap_end: i64, wakeups: &mut Wakeups) {
        let begun = match self.phase {
            Phase::Replanned if waking.ts > self.since => {
                self.replanned.take().map(|entry| entry.since)
            }
            Phase::Runnable if waking.ts > self.since && gap_end > self.since => Some(self.since),
            Phase::Blocked => {
                let from = self.since;
                let woken = |w: &&Waking| w.ts >= from && w.ts < waking.ts && w.ts < gap_end;
                self.wakings.iter().find(woken).map(|_| from)
            }
            _ => None,
        };
        let Some(begun) = begun else { return };
        self.phase = Phase::Unknown { out_seen: false };
        self.since = begun;
        self.left_censored = true;
        self.reason = None;
        self.drop_wakings(|_| false, wakeups);
    }

    /// Settles as ineffective all open wakings but those to keep.
    pub(super) fn drop_wakings(&mut self, keep: impl Fn(&Waking) -> bool, wakeups: &mut Wakeups) {
        if self.wakings.is_empty() {
            return;
        }
        self.wakings.retain(|waking| {
            let kept = keep(waking);
            if !kept {
                wakeups.decide(waking, false);
            }
            kept
        });
    }

    /// Writes what came before `until`: waiting, new or unknown, then ready.
    pub(super) fn write_entry(&self, entry: &Entry, until: i64, seen: bool, rows: &mut Rows) {
        let state = match entry.was {
            Phase::Blocked | Phase::Exited => Some(State::Waiting),
            Phase::New => Some(State::New),
            Phase::Unknown { .. } => Some(State::Unknown),
            Phase::Untouched if entry.by_waking => Some(State::Waiting),
            Phase::Untouched => Some(State::Unknown),
            Phase::Running | Phase::Runnable | Phase::Replanned => None,
        };
        if let Some(state) = state {
            rows.span(Span {
                utid: self.utid,
                ts: entry.since,
                end: entry.ready_from.unwrap_or(until),
                state,
                cpu: None,
                reason: entry.reason.filter(|_| state == State::Waiting),
                waker: None,
                left_censored: entry.left_censored,
                right_censored: entry.ready_from.is_none() && !seen,
            });
        }
        if let Some(ready_from) = entry.ready_from {
            rows.span(Span {
                utid: self.utid,
                ts: ready_from,
                end: until,
                state: State::Ready,
                cpu: entry.target,
                reason: None,
                waker: entry.waker,
                left_censored: false,
                right_censored: !seen,
            });
        }
    }

    /// Writes an unknown stretch; `seen`: its end is that of the thread's life.
    pub(super) fn write_unknown(&self, ts: i64, end: i64, seen: bool, rows: &mut Rows) {
        rows.span(Span {
            utid: self.utid,
            ts,
            end,
            state: State::Unknown,
            cpu: None,
            reason: None,
            waker: None,
            left_censored: true,
            right_censored: !seen,
        });
    }

    /// Writes a stay that ended at `at`, and what came before it.
    pub(super) fn write_stay(&self, stay: &Stay, at: i64, right_censored: bool, rows: &mut Rows) {
        if let Some(entry) = &stay.entry {
            self.write_entry(entry, stay.from, true, rows);
        }
        rows.span(Span {
            utid: self.utid,
            ts: stay.from,
            end: at,
            state: State::Running,
            cpu: Some(stay.cpu),
            reason: None,
            waker: None,
            left_censored: stay.left_censored,
            right_censored,
        });
    }
}
