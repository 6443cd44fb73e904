//! Gaps: periods in which it is unknown who was on a CPU, and who is found there afterwards.

use std::cmp::Reverse;
use std::sync::Arc;

use arrow_array::builder::{Int32Builder, Int64Builder, UInt8Builder};
use arrow_array::types::UInt8Type;
use arrow_array::{ArrayRef, DictionaryArray, Int64Array, StringArray};

use super::cpu::{Occupant, Orphan};
use super::leaving::Ended;
use super::problem::ProblemKind;
use super::rows::{BEGIN, Slice, batch};
use super::switches::Switch;
use super::thread::{OpenSlice, Phase};
use super::words::EndReason;
use super::{Source, StateError, StateMachine};
use crate::chunk::Output;

/// A reported gap that has not been applied yet; ordered by its start.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Gap {
    /// [`BEGIN`] if no record of the CPU precedes it.
    pub(super) start: i64,
    pub(super) cpu: i32,
    /// [`OPEN`] if no record of the CPU follows it.
    pub(super) end: i64,
}

/// End of a gap that lasts to the end of the recording.
pub(super) const OPEN: i64 = i64::MAX;

/// Longest time from a wakeup to the switch-in on an idle CPU.
pub(super) const IDLE_EXIT_NS: i64 = 1_000_000;

/// The evidence of a gap that no record reports, in the order of [`SIGNS`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Sign {
    /// The outgoing thread is not the one that was switched in last.
    ChainBreak = 0,
    /// The occupant was seen elsewhere, and no further record of this CPU shows when it left: perf
    /// stops its CPUs one after another.
    StreamEnd = 1,
    /// A thread was sent to this idle CPU and next ran on another one, and this CPU has no record
    /// of it.
    Silent = 2,
}

const SIGNS: [&str; 3] = ["chain_break", "stream_end", "silent_cpu"];

/// A gap that no record reports.
#[derive(Clone, Copy, Debug)]
pub(super) struct Loss {
    pub(super) sign: Sign,
    pub(super) cpu: i32,
    pub(super) start: i64,
    pub(super) end: i64,
}

/// The rows of `loss` for these gaps. [`BEGIN`] becomes the start of the trace.
pub(super) fn losses(
    trace_id: i64,
    losses: &mut Vec<Loss>,
    first_ns: i64,
) -> Result<Option<Output>, StateError> {
    if losses.is_empty() {
        return Ok(None);
    }
    let rows = losses.len();
    let mut cpu = Int32Builder::new();
    let mut keys = UInt8Builder::new();
    let (mut start, mut end) = (Int64Builder::new(), Int64Builder::new());
    for loss in losses.drain(..) {
        cpu.append_value(loss.cpu);
        keys.append_value(loss.sign as u8);
        start.append_value(loss.start.max(first_ns));
        end.append_value(loss.end);
    }
    let words = Arc::new(StringArray::from_iter_values(SIGNS));
    let columns: Vec<ArrayRef> = vec![
        Arc::new(cpu.finish()),
        Arc::new(start.finish()),
        Arc::new(end.finish()),
        Arc::new(Int64Array::new_null(rows)),
        Arc::new(DictionaryArray::<UInt8Type>::new(keys.finish(), words)),
    ];
    batch("loss", trace_id, rows, columns).map(Some)
}

impl StateMachine {
    /// Applies the reported gaps that start before a time. All records up to their start have been
    /// read, later ones have not.
    #[inline]
    pub(super) fn begin_gaps(&mut self, before: i64) {
        while let Some(&Reverse(gap)) = self.gaps_ahead.peek()
            && gap.start < before
        {
            self.gaps_ahead.pop();
            self.signaled(gap);
        }
    }

    fn signaled(&mut self, gap: Gap) {
        let place = self.cpu(gap.cpu);
        place.unmatched = None;
        let known = place.last_switch.unwrap_or(BEGIN);
        let is_late = gap.start < known && !matches!(place.occupant, Occupant::AfterGap(_));
        if gap.start > gap.end || is_late {
            self.problems.add(ProblemKind::BadGap);
        }
        // What precedes the last switch has already been written.
        let start = gap.start.max(known);
        self.gap(gap.cpu, start, gap.end.max(start));
    }

    /// Starts a gap on a CPU: who ran from `start` to `end` is unknown, and the thread found at the
    /// next record ran there at `end`.
    pub(super) fn gap(&mut self, cpu: i32, start: i64, end: i64) {
        self.gap_end = self.gap_end.max(end);
        self.follow_other_plan(cpu);
        let place = self.cpu(cpu);
        let from = place.from;
        let (occupant, orphan) = (place.occupant, place.orphan.take());
        let start = match occupant {
            Occupant::Thread(_) => start.max(from).min(end),
            Occupant::AfterGap(_) | Occupant::First | Occupant::Unnamed => start,
        };
        let mut idle_until = start;
        if self.settings.source == Source::Etw {
            idle_until = self.cpu(cpu).proven_idle(start);
        }
        let mut began = start;
        match (occupant, orphan) {
            (Occupant::Thread(_), Some(orphan)) => self.give_up(cpu, &orphan, start),
            (Occupant::Thread(number), None) if self.is_here(cpu, number) => {
                let is_idle = self.threads[number as usize].is_idle;
                let until = if is_idle { idle_until } else { start };
                let mut ended = self.end_slice(cpu, number, until, true);
                if !is_idle {
                    ended.slice.end_reason = Some(EndReason::Unknown);
                    let thread = &mut self.threads[number as usize];
                    thread.set_unknown(start);
                    thread.lost_until = end;
                    thread.drop_wakings(|waking| waking.ts >= start, &mut self.wakeups);
                }
                self.ended(ended);
            }
            (Occupant::AfterGap(earlier), _) => began = earlier,
            (Occupant::First, _) => began = BEGIN,
            (Occupant::Unnamed | Occupant::Thread(_), _) => {}
        }
        let place = self.cpu(cpu);
        let end = match occupant {
            Occupant::AfterGap(_) => end.max(place.from),
            _ => end,
        };
        place.occupant = Occupant::AfterGap(began);
        place.from = end;
        place.left_censored = true;
        place.priority = None;
        self.counters.interrupt(cpu);
    }

    /// Writes the slice of a thread that was seen elsewhere before its CPU recorded its switch-out.
    fn give_up(&mut self, cpu: i32, orphan: &Orphan, start: i64) {
        let at = start.min(orphan.until).max(orphan.slice.from);
        let thread = &self.threads[orphan.thread as usize];
        thread.write_before(&orphan.slice, at, &mut self.rows);
        thread.write_unknown(at, orphan.until, false, &mut self.rows);
        let utid = thread.utid;
        let entry = orphan.slice.entry;
        let place = self.cpus[cpu as usize].as_deref_mut();
        if let Some(place) = place {
            place.thread(at, &mut self.rows);
        }
        let slice = Slice {
            utid,
            cpu,
            ts: orphan.slice.from,
            end: at,
            is_idle: false,
            priority: orphan.priority,
            end_reason: Some(EndReason::Unknown),
            ready_ns: entry
                .and_then(|e| e.ready_from)
                .map(|ready| orphan.slice.from.saturating_sub(ready)),
            wait_ns: entry.and_then(|e| e.wait_ns),
            waker: entry.and_then(|e| e.waker),
            prev_cpu: orphan.slice.prev_cpu,
            left_censored: orphan.slice.left_censored,
            right_censored: true,
        };
        self.ended(Ended::settled(slice));
    }

    /// Makes the outgoing thread of a record the occupant of its CPU if it is not yet: it ran there
    /// before the first record, or since a gap, or was not planned to run, or the chain is broken.
    pub(super) fn find_outgoing(&mut self, switch: &Switch) {
        let place = self.cpu(switch.cpu);
        let (occupant, from, broken_since) = (place.occupant, place.from, place.last_switch);
        let joined = place.orphan.is_none();
        match (occupant, switch.prev) {
            (Occupant::Thread(thread), Some(prev))
                if thread == prev && joined && self.is_here(switch.cpu, prev) => {}
            (Occupant::Unnamed, None) => {}
            (Occupant::First | Occupant::AfterGap(_), None) => {
                self.cpu(switch.cpu).unknown(switch.ts)
            }
            (Occupant::First, Some(prev)) => {
                let thread = &mut self.threads[prev as usize];
                if thread.is_idle {
                    self.occupy(switch.cpu, prev, BEGIN);
                } else if thread.phase == Phase::Untouched {
                    self.begin_unseen(switch.cpu, prev, BEGIN);
                } else {
                    self.chain_break(switch.cpu, BEGIN, switch.ts);
                    self.reveal(switch, prev, BEGIN, switch.ts);
                }
            }
            // A record inside the gap shows that the gap had ended by then.
            (Occupant::AfterGap(start), Some(prev)) => {
                self.end_silence(switch.cpu, switch.ts);
                self.reveal(switch, prev, start, from.min(switch.ts));
            }
            (Occupant::Thread(_) | Occupant::Unnamed, _) => {
                if self.settings.source == Source::Etw
                    && (self.claim(switch) || self.replan(switch))
                {
                    return;
                }
                let start = broken_since.unwrap_or(BEGIN);
                if let Occupant::Thread(number) = occupant {
                    self.threads[number as usize].vanished += 1;
                }
                self.chain_break(switch.cpu, start, switch.ts);
                match switch.prev {
                    Some(prev) => self.reveal(switch, prev, start, switch.ts),
                    None => self.cpu(switch.cpu).occupant = Occupant::Unnamed,
                }
            }
        }
    }

    /// Whether the occupant of a CPU has its open slice there.
    pub(super) fn is_here(&self, cpu: i32, number: u32) -> bool {
        let thread = &self.threads[number as usize];
        thread.is_idle || thread.open_slice.is_some_and(|open| open.cpu == cpu)
    }

    /// Notes a gap between a CPU's records that no record reports.
    pub(super) fn chain_break(&mut self, cpu: i32, start: i64, end: i64) {
        self.problems.add(ProblemKind::ChainBreak);
        self.losses.push(Loss { sign: Sign::ChainBreak, cpu, start, end });
        self.gap(cpu, start, end);
    }

    /// Notes that nothing is known about a CPU from its last record to the end.
    pub(super) fn stream_end(&mut self, cpu: i32, start: i64, end: i64) {
        self.problems.add(ProblemKind::StreamEnd);
        self.losses.push(Loss { sign: Sign::StreamEnd, cpu, start, end });
        self.gap(cpu, start, end);
    }

    /// Linux: a thread is switched in on another CPU than the one it was sent to long before. If
    /// that CPU is idle and has no record since then, its records are missing.
    pub(super) fn missed(&mut self, number: u32, woken: i64, switch: &Switch) {
        let Some(cpu) = self.threads[number as usize].queue else { return };
        let is_late = switch.ts.saturating_sub(woken) > IDLE_EXIT_NS;
        if cpu == switch.cpu || !is_late || !self.migrations_recorded || !self.has_cpu(cpu) {
            return;
        }
        let place = self.cpu(cpu);
        let start = place.last_record;
        let idles = match place.occupant {
            Occupant::First => true,
            Occupant::Thread(occupant) => self.threads[occupant as usize].is_idle,
            Occupant::AfterGap(_) | Occupant::Unnamed => false,
        };
        if idles && start < woken {
            self.gap(cpu, start, OPEN);
            self.cpu(cpu).silent_since = Some(start);
        }
    }

    /// A CPU that lost records has one again, or the recording ends.
    pub(super) fn end_silence(&mut self, cpu: i32, end: i64) {
        if let Some(start) = self.cpu(cpu).silent_since.take() {
            self.problems.add(ProblemKind::SilentCpu);
            self.losses.push(Loss { sign: Sign::Silent, cpu, start, end });
        }
    }

    fn occupy(&mut self, cpu: i32, number: u32, from: i64) {
        let place = self.cpu(cpu);
        place.occupant = Occupant::Thread(number);
        place.from = from;
        place.left_censored = true;
        place.priority = None;
    }

    fn begin_unseen(&mut self, cpu: i32, number: u32, from: i64) {
        self.occupy(cpu, number, from);
        let thread = &mut self.threads[number as usize];
        thread.phase = Phase::Running;
        thread.since = from;
        let prev_cpu = thread.cpu;
        thread.open_slice =
            Some(OpenSlice { cpu, from, left_censored: true, prev_cpu, entry: None });
    }

    /// A thread is found on a CPU after a gap. Its state is unknown from the gap's start, or from
    /// the last known event, to the start of its slice.
    fn reveal(&mut self, switch: &Switch, number: u32, start: i64, end: i64) {
        if self.threads[number as usize].is_idle {
            self.cpu(switch.cpu).unknown(end);
            self.occupy(switch.cpu, number, end);
            return;
        }
        let thread = &self.threads[number as usize];
        let since = thread.open_slice.map_or(thread.since, |open| open.from);
        let mut end = end;
        if since > end {
            // It was elsewhere after the gap, so this switch-in is missing too.
            self.chain_break(switch.cpu, end, switch.ts);
            end = switch.ts;
        }
        self.cpu(switch.cpu).unknown(end);
        if self.threads[number as usize].phase == Phase::Running {
            self.set_aside(number, end);
        } else {
            let thread = &mut self.threads[number as usize];
            let start = start.max(thread.since).min(end);
            let mut entry = thread.settle(start, &mut self.wakeups);
            if entry.was == Phase::Untouched && !entry.by_waking {
                entry.since = BEGIN;
                thread.write_entry(&entry, end, false, &mut self.rows);
            } else {
                thread.write_entry(&entry, start, false, &mut self.rows);
                thread.write_unknown(start, end, false, &mut self.rows);
            }
            thread.drop_wakings(|waking| waking.ts >= end, &mut self.wakeups);
        }
        self.begin_unseen(switch.cpu, number, end);
    }

    /// Windows: the outgoing thread is the planned one, but another CPU seemed to run it at that
    /// time: that switch-in did not happen, or ended shortly after this one was recorded. False if
    /// records of this CPU must be missing.
    fn claim(&mut self, switch: &Switch) -> bool {
        let place = self.cpu(switch.cpu);
        let (Occupant::Thread(planned), Some(prev)) = (place.occupant, switch.prev) else {
            return false;
        };
        planned == prev && self.claim_plan(switch.cpu, planned)
    }

    /// Windows: starts the slice of the thread that was planned here and is not here. False if
    /// other records contradict that.
    pub(super) fn claim_plan(&mut self, cpu: i32, planned: u32) -> bool {
        let place = self.cpu(cpu);
        let from = place.from;
        if place.orphan.is_some() || place.left_censored || place.last_switch != Some(from) {
            return false;
        }
        let thread = &self.threads[planned as usize];
        let at = match thread.phase {
            Phase::Running => {
                let Some(open) = thread.open_slice.filter(|open| open.cpu != cpu) else {
                    return false;
                };
                if open.from > from || thread.wakings.iter().any(|w| w.ts > open.from) {
                    return false;
                }
                self.undo_plan(planned);
                from
            }
            Phase::Runnable | Phase::Replanned => from.max(thread.since),
            _ => return false,
        };
        self.problems.add(ProblemKind::Planned);
        self.cpu(cpu).unknown(at);
        self.enter_late(cpu, planned, at);
        true
    }

    /// Windows: a thread that seems to run on this CPU was since planned on another one. This CPU's
    /// records end or pause before they show which is right, so treat the thread as seen elsewhere.
    pub(super) fn follow_other_plan(&mut self, cpu: i32) {
        let Occupant::Thread(number) = self.cpu(cpu).occupant else { return };
        let Some(other) = self.threads[number as usize].also_planned.take() else { return };
        if self.is_here(cpu, number) && self.is_planned(other, number) {
            let from = self.cpu(other).from;
            self.set_aside(number, from);
            self.threads[number as usize].set_unknown(from);
            self.enter_late(other, number, from);
        }
    }

    /// Whether a CPU's last recorded switch-in is for a thread that is not there.
    fn is_planned(&mut self, cpu: i32, number: u32) -> bool {
        let here = self.is_here(cpu, number);
        let place = self.cpu(cpu);
        place.occupant == Occupant::Thread(number)
            && place.orphan.is_none()
            && !place.left_censored
            && !here
    }

    /// Starts the slice of a planned thread at a past time.
    fn enter_late(&mut self, cpu: i32, number: u32, at: i64) {
        let place = self.cpu(cpu);
        let priority = place.priority;
        let seen = self.threads[number as usize].last_record;
        let later: Vec<_> = {
            let thread = &mut self.threads[number as usize];
            let later = thread.wakings.iter().copied().filter(|w| w.ts > at).collect();
            thread.wakings.retain(|w| w.ts <= at);
            later
        };
        self.enter(&Switch::planned(cpu, at, number, priority));
        let thread = &mut self.threads[number as usize];
        thread.wakings.extend(later);
        thread.last_record = seen;
    }

    /// Windows: the planned thread did not run. It remains ready, and the thread that leaves now
    /// ran in its place. False if that is impossible.
    fn replan(&mut self, switch: &Switch) -> bool {
        let place = self.cpu(switch.cpu);
        let (from, row, seq) = (place.from, place.last_row, place.last_seq);
        let (Occupant::Thread(planned), Some(prev)) = (place.occupant, switch.prev) else {
            return false;
        };
        if place.left_censored || place.last_switch != Some(from) || place.orphan.is_some() {
            return false;
        }
        let ran = &self.threads[prev as usize];
        let since = ran.open_slice.map_or(ran.since, |open| open.from);
        if !ran.is_idle && (since > from || (ran.phase == Phase::Running && since == from)) {
            return false;
        }
        // A thread woken later was still waiting, a running thread woken since has left its CPU,
        // and a ready thread woken again has run: a record in between is lost.
        let waited = matches!(ran.phase, Phase::Untouched | Phase::Blocked)
            && !ran.wakings.is_empty()
            && ran.wakings.iter().all(|waking| waking.ts > from);
        let has_left = ran.phase == Phase::Running && ran.wakings.iter().any(|w| w.ts > since);
        let has_run = self.is_here(switch.cpu, planned)
            && self.threads[planned as usize].wakings.iter().any(|waking| waking.ts > from);
        if waited || has_left || has_run {
            return false;
        }
        self.problems.add(ProblemKind::Planned);
        if !self.threads[planned as usize].is_idle && self.is_here(switch.cpu, planned) {
            self.undo_plan(planned);
            if let Some(other) = self.threads[planned as usize].also_planned.take()
                && self.is_planned(other, planned)
            {
                let at = self.cpu(other).from;
                self.enter_late(other, planned, at);
            }
        }
        let utid = self.threads[prev as usize].utid;
        self.records.correct(row, switch.cpu, seq, utid);
        if !self.threads[prev as usize].is_idle
            && self.threads[prev as usize].phase == Phase::Running
        {
            self.undo_plan(prev);
        }
        self.cpu(switch.cpu).priority = None;
        self.enter_late(switch.cpu, prev, from);
        true
    }

    /// Windows: reverts a switch-in that was only planned.
    pub(super) fn undo_plan(&mut self, number: u32) {
        let thread = &mut self.threads[number as usize];
        let Some(open) = thread.open_slice.take() else { return };
        let Some(entry) = open.entry else {
            thread.open_slice = Some(open);
            self.set_aside(number, open.from);
            self.threads[number as usize].set_unknown(open.from);
            return;
        };
        thread.cpu = open.prev_cpu;
        if entry.ready_from.is_some() {
            thread.phase = Phase::Replanned;
            thread.since = entry.ready_from.unwrap_or(entry.since);
            thread.replanned = Some(entry);
        } else {
            thread.phase = entry.was;
            thread.since = entry.since;
            thread.left_censored = entry.left_censored;
            thread.reason = entry.reason;
        }
    }
}
