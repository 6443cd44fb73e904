//! Gaps: time in which it is not known who was on a CPU, and who is found there after it.

use std::sync::Arc;

use arrow_array::builder::{Int32Builder, Int64Builder, UInt8Builder};
use arrow_array::types::UInt8Type;
use arrow_array::{ArrayRef, DictionaryArray, Int64Array, StringArray};

use super::cpu::{Occupant, Orphan};
use super::leaving::Ended;
use super::problem::Trouble;
use super::rows::{BEGIN, Slice, batch};
use super::switches::Switch;
use super::thread::{Phase, Stay};
use super::words::EndReason;
use super::{Source, StateError, StateMachine};
use crate::frame::Output;

/// A signalled gap; `start` missing: since the last switch, `end` missing: to the trace's end.
#[derive(Clone, Copy, Debug)]
pub(super) struct Gap {
    pub(super) cpu: i32,
    pub(super) start: Option<i64>,
    pub(super) end: Option<i64>,
}

/// What shows a gap that no record signals, in the order of [`SIGNS`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Sign {
    /// The thread that leaves is not the one that entered last.
    ChainBreak = 0,
    /// The occupant was seen elsewhere and no further record of this CPU tells when it left:
    /// perf stops its CPUs one after another.
    StreamEnd = 1,
}

const SIGNS: [&str; 2] = ["chain_break", "stream_end"];

/// A gap that no record signals.
#[derive(Clone, Copy, Debug)]
pub(super) struct Loss {
    pub(super) sign: Sign,
    pub(super) cpu: i32,
    pub(super) start: i64,
    pub(super) end: i64,
}

/// The rows of `loss` for these gaps; the begin of the trace is put in for [`BEGIN`].
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
    /// Applies a gap on a CPU: whoever was there is not known from `start` to `end`.
    pub(super) fn gap(&mut self, cpu: i32, start: i64, end: i64) {
        self.gap_end = self.gap_end.max(end);
        let place = self.cpu(cpu);
        let from = place.from;
        let (occupant, orphan) = (place.occupant, place.orphan.take());
        let start = match occupant {
            Occupant::Thread(_) => start.max(from).min(end),
            Occupant::AfterGap(_) | Occupant::First | Occupant::Unnamed => start,
        };
        let mut began = start;
        match (occupant, orphan) {
            (Occupant::Thread(_), Some(orphan)) => self.give_up(cpu, &orphan, start),
            (Occupant::Thread(number), None) if self.is_here(cpu, number) => {
                let mut ended = self.end_stay(cpu, number, start, true);
                if !self.threads[number as usize].is_idle {
                    ended.slice.end_reason = Some(EndReason::Unknown);
                    let thread = &mut self.threads[number as usize];
                    thread.phase = Phase::Unknown { out_seen: false };
                    thread.since = start;
                    thread.left_censored = true;
                    thread.reason = None;
                    thread.drop_wakings(|waking| waking.ts >= start, &mut self.wakeups);
                }
                self.ended(ended);
            }
            (Occupant::AfterGap(earlier), _) => began = earlier,
            (Occupant::First, _) => began = BEGIN,
            (Occupant::Unnamed | Occupant::Thread(_), _) => {}
        }
        let place = self.cpu(cpu);
        place.unknown(end);
        place.occupant = Occupant::AfterGap(began);
        place.from = end;
        place.left_censored = true;
        place.priority = None;
        self.counters.interrupt(cpu);
    }

    /// Writes the stay of a thread that was seen elsewhere before its CPU told that it had left.
    fn give_up(&mut self, cpu: i32, orphan: &Orphan, start: i64) {
        let at = start.min(orphan.until).max(orphan.stay.from);
        let thread = &self.threads[orphan.thread as usize];
        thread.write_stay(&orphan.stay, at, true, &mut self.rows);
        thread.write_unknown(at, orphan.until, false, &mut self.rows);
        let utid = thread.utid;
        let entry = orphan.stay.entry;
        let place = self.cpus[cpu as usize].as_deref_mut();
        if let Some(place) = place {
            place.thread(at, utid, &mut self.rows);
        }
        let slice = Slice {
            utid,
            cpu,
            ts: orphan.stay.from,
            end: at,
            is_idle: false,
            priority: orphan.priority,
            end_reason: Some(EndReason::Unknown),
            ready_ns: entry
                .and_then(|e| e.ready_from)
                .map(|ready| orphan.stay.from.saturating_sub(ready)),
            wait_ns: entry.and_then(|e| e.wait_ns),
            waker: entry.and_then(|e| e.waker),
            prev_cpu: orphan.stay.prev_cpu,
            left_censored: orphan.stay.left_censored,
            right_censored: true,
        };
        self.ended(Ended::settled(slice));
    }

    /// Makes the leaver of a record the occupant of its CPU where it is not so yet: it was there
    /// before the first record, or since a gap, or was not planned to be, or the chain is broken.
    pub(super) fn find_leaver(&mut self, switch: &Switch) {
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
            (Occupant::AfterGap(start), Some(prev)) => self.reveal(switch, prev, start, from),
            (Occupant::Thread(_) | Occupant::Unnamed, _) => {
                if self.settings.source == Source::Etw && self.replan(switch) {
                    return;
                }
                let start = broken_since.unwrap_or(BEGIN);
                self.chain_break(switch.cpu, start, switch.ts);
                match switch.prev {
                    Some(prev) => self.reveal(switch, prev, start, switch.ts),
                    None => self.cpu(switch.cpu).occupant = Occupant::Unnamed,
                }
            }
        }
    }

    /// Whether the stay of a CPU's occupant is under way there.
    pub(super) fn is_here(&self, cpu: i32, number: u32) -> bool {
        let thread = &self.threads[number as usize];
        thread.is_idle || thread.stay.is_some_and(|stay| stay.cpu == cpu)
    }

    /// Records a gap in the middle of a CPU's records that nothing signalled.
    pub(super) fn chain_break(&mut self, cpu: i32, start: i64, end: i64) {
        self.problems.add(Trouble::ChainBreak);
        self.losses.push(Loss { sign: Sign::ChainBreak, cpu, start, end });
        self.gap(cpu, start, end);
    }

    /// Records that nothing is known of a CPU from its last switch to the end.
    pub(super) fn stream_end(&mut self, cpu: i32, start: i64, end: i64) {
        self.problems.add(Trouble::StreamEnd);
        self.losses.push(Loss { sign: Sign::StreamEnd, cpu, start, end });
        self.gap(cpu, start, end);
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
        thread.stay = Some(Stay { cpu, from, left_censored: true, prev_cpu, entry: None });
    }

    /// A thread is found on a CPU after a gap: it is unknown from the gap's begin, or from the
    /// last thing known of it, to the begin of its stay.
    fn reveal(&mut self, switch: &Switch, number: u32, start: i64, end: i64) {
        if self.threads[number as usize].is_idle {
            self.occupy(switch.cpu, number, end);
            return;
        }
        let thread = &self.threads[number as usize];
        let since = thread.stay.map_or(thread.since, |stay| stay.from);
        let mut end = end;
        if since > end {
            // It was elsewhere after the gap, so this switch-in is missing too.
            self.chain_break(switch.cpu, end, switch.ts);
            end = switch.ts;
        }
        if self.threads[number as usize].phase == Phase::Running {
            self.set_aside(number, end);
        } else {
            let thread = &mut self.threads[number as usize];
            let start = start.max(thread.since).min(end);
            let mut entry = thread.settle(start, false, &mut self.wakeups);
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

    /// Windows: the thread that was planned did not run; it stays ready, and the one that leaves
    /// now ran in its place. False if that cannot be.
    fn replan(&mut self, switch: &Switch) -> bool {
        let place = self.cpu(switch.cpu);
        let (from, row, seq) = (place.from, place.last_row, place.last_seq);
        let (Occupant::Thread(planned), Some(prev)) = (place.occupant, switch.prev) else {
            return false;
        };
        if place.left_censored || place.last_switch != Some(from) {
            return false;
        }
        let ran = &self.threads[prev as usize];
        let since = ran.stay.map_or(ran.since, |stay| stay.from);
        if !ran.is_idle && (since > from || (ran.phase == Phase::Running && since == from)) {
            return false;
        }
        // Who is woken only later still waited then, and who is woken although it is ready has run
        // and waited since: a record between is lost.
        let waited = matches!(ran.phase, Phase::Untouched | Phase::Blocked)
            && !ran.wakings.is_empty()
            && ran.wakings.iter().all(|waking| waking.ts > from);
        let has_run = self.is_here(switch.cpu, planned)
            && self.threads[planned as usize].wakings.iter().any(|waking| waking.ts > from);
        if waited || has_run {
            return false;
        }
        self.problems.add(Trouble::Planned);
        if !self.threads[planned as usize].is_idle && self.is_here(switch.cpu, planned) {
            self.undo_plan(planned);
        }
        let utid = self.threads[prev as usize].utid;
        self.records.mend(row, switch.cpu, seq, utid);
        if !self.threads[prev as usize].is_idle
            && self.threads[prev as usize].phase == Phase::Running
        {
            self.undo_plan(prev);
        }
        let later: Vec<_> = {
            let thread = &mut self.threads[prev as usize];
            let later = thread.wakings.iter().copied().filter(|w| w.ts > from).collect();
            thread.wakings.retain(|w| w.ts <= from);
            later
        };
        let seen = self.threads[prev as usize].last_record;
        self.enter(&Switch { ts: from, next: Some(prev), next_priority: None, ..*switch });
        let thread = &mut self.threads[prev as usize];
        thread.wakings.extend(later);
        thread.last_record = seen;
        true
    }

    /// Windows: takes back a switch-in that was only planned.
    pub(super) fn undo_plan(&mut self, number: u32) {
        let thread = &mut self.threads[number as usize];
        let Some(stay) = thread.stay.take() else { return };
        let Some(entry) = stay.entry else {
            thread.stay = Some(stay);
            self.set_aside(number, stay.from);
            let thread = &mut self.threads[number as usize];
            thread.phase = Phase::Unknown { out_seen: false };
            thread.since = stay.from;
            thread.left_censored = true;
            thread.reason = None;
            return;
        };
        thread.cpu = stay.prev_cpu;
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
