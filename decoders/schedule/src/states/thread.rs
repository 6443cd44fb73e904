//! One thread: what it does now, since when, and why.

use super::rows::{BEGIN, Rows, Span};
use super::wakeups::{Kind, Wakeups, Waking};
use super::words::State;

/// Maximum undecided wakeups of one thread; a further one replaces the last.
const OPEN_WAKINGS: usize = 64;

/// What a thread does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Phase {
    /// It existed when the recording began, and no record has mentioned it yet.
    Untouched,
    /// Created but not yet runnable.
    New,
    /// On a CPU.
    Running,
    /// It left its CPU runnable.
    Runnable,
    /// It left its CPU to wait.
    Blocked,
    /// It ended, unless a later record shows it again.
    Exited,
    /// Unknown; `out_seen`: its last switch-out was seen all the same.
    Unknown {
        /// Whether `since` is that switch-out.
        out_seen: bool,
    },
    /// A planned switch-in did not happen: the previous phase continues.
    Replanned,
}

/// What came before a slice, as far as known.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Entry {
    /// The phase that ended with the wakeup or the switch-in, and when it began.
    pub(super) was: Phase,
    pub(super) since: i64,
    pub(super) reason: Option<u8>,
    pub(super) left_censored: bool,
    pub(super) ready_from: Option<i64>,
    pub(super) by_waking: bool,
    pub(super) waker: Option<i64>,
    pub(super) wait_ns: Option<i64>,
}

/// A slice that has not ended.
#[derive(Clone, Copy, Debug)]
pub(super) struct OpenSlice {
    pub(super) cpu: i32,
    pub(super) from: i64,
    pub(super) left_censored: bool,
    pub(super) prev_cpu: Option<i32>,
    /// `None` for a slice whose start was not seen.
    pub(super) entry: Option<Entry>,
}

/// One life of a thread.
#[derive(Debug)]
pub(super) struct Thread {
    pub(super) utid: i64,
    pub(super) is_idle: bool,
    pub(super) phase: Phase,
    pub(super) since: i64,
    /// The start of the phase was not recorded.
    pub(super) left_censored: bool,
    pub(super) reason: Option<u8>,
    pub(super) open_slice: Option<OpenSlice>,
    /// CPU of the last slice.
    pub(super) cpu: Option<i32>,
    /// CPU whose run queue contains it, by the last wakeup or migration.
    pub(super) queue: Option<i32>,
    /// When it was put there.
    pub(super) queued_at: i64,
    pub(super) last_yield: Option<i64>,
    /// Time of its last switch or wakeup.
    pub(super) last_record: Option<i64>,
    /// Undecided wakeups from this phase and from the slice before it.
    pub(super) wakings: Vec<Waking>,
    /// A record shows it leaving a CPU.
    pub(super) has_left: bool,
    /// How often it was switched in and the next record of that CPU shows another thread there.
    pub(super) vanished: u32,
    /// End of the gap in which it left its CPU unseen.
    pub(super) lost_until: i64,
    /// What precedes a planned switch-in that did not happen.
    pub(super) replanned: Option<Entry>,
    /// Windows: another CPU whose last record switches this thread in while it still runs.
    pub(super) also_planned: Option<i32>,
}

impl Thread {
    pub(super) fn new(utid: i64) -> Self {
        Self {
            utid,
            is_idle: false,
            phase: Phase::Untouched,
            since: BEGIN,
            left_censored: true,
            reason: None,
            open_slice: None,
            cpu: None,
            queue: None,
            queued_at: BEGIN,
            last_yield: None,
            last_record: None,
            wakings: Vec::new(),
            has_left: false,
            vanished: 0,
            lost_until: BEGIN,
            replanned: None,
            also_planned: None,
        }
    }

    /// Adds a wakeup; it is undecided until the thread is switched in.
    pub(super) fn wake(&mut self, waking: Waking, wakeups: &mut Wakeups) {
        self.last_record = Some(waking.ts);
        (self.queue, self.queued_at) = (waking.target, waking.ts);
        if self.wakings.len() >= OPEN_WAKINGS
            && let Some(last) = self.wakings.pop()
        {
            wakeups.decide(&last, false);
        }
        self.wakings.push(waking);
    }

    /// Notes where the thread is sent: only the first migration after `sched_waking` counts.
    pub(super) fn moved(&mut self, cpu: i32, ts: i64) {
        (self.queue, self.queued_at) = (Some(cpu), ts);
        for waking in &mut self.wakings {
            if waking.kind == Kind::Waking && !waking.moved {
                waking.moved = true;
                waking.target = Some(cpu);
            }
        }
    }

    /// When an undecided wakeup made it ready, if one did before `until`.
    pub(super) fn woken(&self, until: i64) -> Option<i64> {
        self.chosen(until).map(|(_, ready_from)| ready_from)
    }

    /// Whether it was woken more than once; a `sched_wakeup` only repeats a `sched_waking`.
    pub(super) fn is_woken_again(&self) -> bool {
        self.wakings.iter().filter(|w| matches!(w.kind, Kind::New | Kind::Waking)).count() > 1
    }

    /// Marks the undecided wakeups as recorded in the slice that ends now.
    pub(super) fn leave_wakings_behind(&mut self) {
        for waking in &mut self.wakings {
            waking.in_slice = true;
        }
    }

    /// Which undecided wakeup starts the ready period that ends at `until`, and when that period
    /// starts. If none follows the switch-out, the last one in the slice before it counts.
    fn chosen(&self, until: i64) -> Option<(usize, i64)> {
        let first = |kinds: &[Kind]| {
            self.wakings
                .iter()
                .position(|w| !w.in_slice && w.ts <= until && kinds.contains(&w.kind))
                .map(|place| (place, self.wakings[place].ts.max(self.since)))
        };
        let in_slice = |kinds: &[Kind]| {
            self.wakings
                .iter()
                .rposition(|w| w.in_slice && kinds.contains(&w.kind))
                .map(|place| (place, self.since))
        };
        const WAKING: [Kind; 3] = [Kind::Waking, Kind::Ready, Kind::New];
        const WAKEUP: [Kind; 1] = [Kind::Wakeup];
        match self.phase {
            Phase::Blocked | Phase::Exited => first(&WAKING)
                .or_else(|| in_slice(&WAKING))
                .or_else(|| first(&WAKEUP))
                .or_else(|| in_slice(&WAKEUP)),
            Phase::New => first(&[Kind::New])
                .or_else(|| first(&[Kind::Waking, Kind::Ready]))
                .or_else(|| first(&WAKEUP)),
            Phase::Untouched | Phase::Unknown { .. } => first(&WAKING).or_else(|| first(&WAKEUP)),
            Phase::Running | Phase::Runnable | Phase::Replanned => None,
        }
    }

    /// What the thread did before `until`. The wakeup that made it ready is settled as effective,
    /// other wakeups before `until` as ineffective.
    pub(super) fn settle(&mut self, until: i64, wakeups: &mut Wakeups) -> Entry {
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
                wait_ns: None,
            },
        };
        let chosen = self.chosen(until);
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
            if entry.was == Phase::Untouched && waking.kind == Kind::New {
                // It was created while its records were lost.
                entry.was = Phase::Unknown { out_seen: false };
            }
            entry.waker = waking.waker;
            if matches!(
                self.phase,
                Phase::Blocked | Phase::Exited | Phase::Unknown { out_seen: true }
            ) {
                entry.wait_ns = Some(ready_from.saturating_sub(self.since));
            }
        }
        // A wakeup at this very time may explain the switch-out of an empty slice that starts here.
        self.drop_wakings(|waking| waking.ts >= until, wakeups);
        entry
    }

    /// Windows: a ready thread is not made ready again. If it is, it has run and waited since then
    /// without a record: a gap that ended at `gap_end` hid it, or its planned switch-in took place
    /// after all. Its state is unknown from where it was first ready up to that wakeup.
    pub(super) fn doubt(
        &mut self,
        waking: &Waking,
        gap_end: i64,
        wakeups: &mut Wakeups,
        rows: &mut Rows,
    ) {
        let ready_from = match self.phase {
            Phase::Running => None,
            Phase::Replanned | Phase::Runnable => Some(self.since),
            _ => self.chosen(waking.ts).map(|(_, ready_from)| ready_from),
        };
        let Some(ready_from) = ready_from.filter(|&ready| ready < waking.ts) else { return };
        if self.phase != Phase::Replanned && gap_end <= ready_from {
            return;
        }
        let entry = Entry { ready_from: None, ..self.settle(waking.ts, wakeups) };
        self.write_entry(&entry, ready_from, true, rows);
        self.set_unknown(ready_from);
        self.drop_wakings(|_| false, wakeups);
    }

    /// Its state is unknown from a time on.
    pub(super) fn set_unknown(&mut self, since: i64) {
        self.phase = Phase::Unknown { out_seen: false };
        self.since = since;
        self.left_censored = true;
        self.reason = None;
    }

    /// Settles as ineffective all undecided wakeups except those to keep.
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
        self.write_wait(entry, until, seen, rows);
        if let Some(ready_from) = entry.ready_from {
            rows.span(Span {
                utid: self.utid,
                ts: ready_from,
                end: until,
                state: State::Ready,
                reason: None,
                waker: entry.waker,
                left_censored: false,
                right_censored: !seen,
            });
        }
    }

    /// Writes what came before the thread was ready, or before `until`: waiting, new or unknown.
    fn write_wait(&self, entry: &Entry, until: i64, seen: bool, rows: &mut Rows) {
        let state = match entry.was {
            Phase::Blocked | Phase::Exited => State::Waiting,
            Phase::New => State::New,
            Phase::Unknown { .. } => State::Unknown,
            Phase::Untouched if entry.by_waking => State::Waiting,
            Phase::Untouched => State::Unknown,
            Phase::Running | Phase::Runnable | Phase::Replanned => return,
        };
        rows.span(Span {
            utid: self.utid,
            ts: entry.since,
            end: entry.ready_from.unwrap_or(until),
            state,
            reason: entry.reason.filter(|_| state == State::Waiting),
            waker: None,
            left_censored: entry.left_censored,
            right_censored: entry.ready_from.is_none() && !seen,
        });
    }

    /// Writes an unknown period; `seen`: its end is that of the thread's life.
    pub(super) fn write_unknown(&self, ts: i64, end: i64, seen: bool, rows: &mut Rows) {
        rows.span(Span {
            utid: self.utid,
            ts,
            end,
            state: State::Unknown,
            reason: None,
            waker: None,
            left_censored: true,
            right_censored: !seen,
        });
    }

    /// Writes what came before a slice that ended at `at`: its row has its ready and running time.
    /// What runs when the recording begins may turn out to be unknown.
    pub(super) fn write_before(&self, slice: &OpenSlice, at: i64, rows: &mut Rows) {
        if let Some(entry) = &slice.entry {
            self.write_wait(entry, slice.from, true, rows);
        }
        if slice.from == BEGIN {
            rows.span(Span {
                utid: self.utid,
                ts: slice.from,
                end: at,
                state: State::Running,
                reason: None,
                waker: None,
                left_censored: slice.left_censored,
                right_censored: true,
            });
        }
    }
}
