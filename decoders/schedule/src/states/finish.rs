//! The end of the recording: closes what is still open and sets the start times of rows that began
//! before it.

use std::collections::{BTreeMap, BTreeSet};

use arrow_array::RecordBatch;

use super::cpu::{Cpu, Occupant};
use super::gap::{self, IDLE_EXIT_NS};
use super::input::{Flags, Ints, Longs, numbered};
use super::problem::ProblemKind;
use super::rows::BEGIN;
use super::thread::{Entry, OpenSlice, Phase, Thread};
use super::words::{CpuWord, EndReason, State};
use super::{End, Source, StateError, StateMachine};
use crate::chunk::Output;

/// A thread that both snapshots show on a CPU, and the time between them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Resident {
    thread: u32,
    begin: i64,
    end: i64,
    grown_ns: i64,
}

/// When a CPU is online or offline, in time order.
type Versions = Vec<(i64, Option<bool>)>;

/// A thread ran throughout the step if its CPU time grew by at least this share of it.
const RESIDENT_PCT: i128 = 95;

/// Without switches nothing shows when a thread leaves its CPU after the record of its exit. This is
/// seven times the longest such time seen (13.8 ms, on an emulated machine).
const LEAVE_NS: i64 = 100_000_000;

/// Threads must vanish this often for a recording of chosen threads: lost records explain fewer.
const CHOSEN_SIGNS: u32 = 3;

/// A CPU that has a record.
fn at(cpus: &[Option<Box<Cpu>>], cpu: i32) -> Option<&Cpu> {
    cpus.get(usize::try_from(cpu).ok()?)?.as_deref()
}

/// Linux: whether a woken thread without a switch has run since. It was woken again, which the kernel
/// does not do to a thread that is ready, or the CPU that it was put on, if known, went idle later:
/// then it is not ready there, unless a quota throttles it.
fn ran_unseen(thread: &Thread, queue: Option<&Cpu>) -> bool {
    thread.is_woken_again()
        || queue.is_some_and(|cpu| cpu.went_idle.saturating_sub(thread.queued_at) > IDLE_EXIT_NS)
}

impl StateMachine {
    /// Closes everything and returns the remaining outputs.
    pub(super) fn close(mut self, end: &End) -> Result<Vec<Output>, StateError> {
        self.take_threads(&end.threads)?;
        let first = end.first_ns.min(self.earliest).max(BEGIN + 1);
        let last = end.last_ns.max(self.now).max(first);
        self.now = last;
        self.begin_gaps(last.saturating_add(1));
        self.settle_plans();
        let silent = self.silent_cpus(last);
        let chosen_only = self.shows_chosen_threads_only();
        let online = self.online(&end.cpus)?;
        let residents = match &end.snapshot_thread {
            Some(batch) => self.residents(batch)?,
            None => BTreeMap::new(),
        };
        for cpu in 0..self.cpus.len() as i32 {
            if self.cpus[cpu as usize].is_some() {
                if silent.contains(&cpu) {
                    let start = self.cpu(cpu).last_record;
                    self.stream_end(cpu, start, last);
                } else if chosen_only && self.occupant_never_left(cpu) {
                    let start = self.cpu(cpu).from;
                    self.stream_end(cpu, start, last);
                }
                let versions = online.get(&cpu).map_or(&[][..], Vec::as_slice);
                self.close_cpu(cpu, (first, last), versions, residents.get(&cpu).copied());
            }
        }
        self.close_threads(&end.threads, (first, last))?;
        self.close_early(first, chosen_only);
        let trace_id = self.settings.trace_id;
        let mut out = Vec::new();
        self.records.take(trace_id, 0, &mut out)?;
        self.wakeups.take(trace_id, 0, &mut out)?;
        out.extend(gap::losses(trace_id, &mut self.losses, first)?);
        self.rows.take(trace_id, true, &mut out)?;
        self.counters.take(trace_id, true, &mut out)?;
        out.extend(self.problems.take(trace_id)?);
        Ok(out)
    }

    /// Windows: decides where threads are whose last planned switch-in is still unresolved.
    fn settle_plans(&mut self) {
        for cpu in 0..self.cpus.len() as i32 {
            if self.cpus[cpu as usize].is_none() {
                continue;
            }
            self.follow_other_plan(cpu);
            if let Occupant::Thread(number) = self.cpu(cpu).occupant
                && self.settings.source == Source::Etw
                && !self.is_here(cpu, number)
                && self.threads[number as usize].phase == Phase::Runnable
            {
                self.claim_plan(cpu, number);
            }
        }
    }

    /// CPUs that seem idle to the end although a thread was sent there after their last record and
    /// was not switched in within [`IDLE_EXIT_NS`]: their records end before the recording does.
    fn silent_cpus(&self, last: i64) -> BTreeSet<i32> {
        let mut silent = BTreeSet::new();
        for number in 0..self.threads.len() {
            let thread = &self.threads[number];
            if matches!(thread.phase, Phase::Running | Phase::Exited) {
                continue;
            }
            let Some(waking) = thread.wakings.iter().find(|waking| !waking.in_slice) else {
                continue;
            };
            let (woken, target) = (waking.ts, waking.target);
            if let Some(place) = target.and_then(|cpu| at(&self.cpus, cpu))
                && let Occupant::Thread(occupant) = place.occupant
                && self.threads[occupant as usize].is_idle
                && place.last_record < woken
                && last.saturating_sub(woken) > IDLE_EXIT_NS
            {
                silent.insert(place.cpu);
            }
        }
        silent
    }

    /// When each CPU is online or offline, in time order.
    fn online(&mut self, batch: &RecordBatch) -> Result<BTreeMap<i32, Versions>, StateError> {
        let cpu = Ints::of("cpu", "cpu", batch)?;
        let online = Flags::of("cpu", "online", batch)?;
        let from = Longs::of("cpu", "valid_from_ns", batch)?;
        let mut versions: BTreeMap<i32, Versions> = BTreeMap::new();
        for row in 0..batch.num_rows() {
            if self.has_cpu(cpu.at(row)) {
                let from = from.get(row).unwrap_or(BEGIN);
                versions.entry(cpu.at(row)).or_default().push((from, online.get(row)));
            }
        }
        for list in versions.values_mut() {
            list.sort_by_key(|&(from, _)| from);
        }
        Ok(versions)
    }

    /// For each CPU, the thread that ran on it throughout the step according to its own CPU time.
    fn residents(&mut self, batch: &RecordBatch) -> Result<BTreeMap<i32, Resident>, StateError> {
        const TABLE: &str = "snapshot_thread";
        let ts = Longs::of(TABLE, "ts", batch)?;
        let utid = Longs::of(TABLE, "utid", batch)?;
        let cpu = Ints::of(TABLE, "cpu", batch)?;
        let user = Longs::of(TABLE, "user_ns", batch)?;
        let system = Longs::of(TABLE, "system_ns", batch)?;
        let is_begin = numbered(TABLE, "edge", batch, |edge| edge.map(|edge| edge == "begin"))?;
        let mut begins: BTreeMap<u32, (i64, i32, i64)> = BTreeMap::new();
        let mut ends: BTreeMap<u32, (i64, i32, i64)> = BTreeMap::new();
        for row in 0..batch.num_rows() {
            let (Some(is_begin), Some(user), Some(system), Some(cpu)) =
                (is_begin[row], user.get(row), system.get(row), cpu.get(row))
            else {
                continue;
            };
            let Some(thread) = self.thread_number(utid.get(row)) else { continue };
            let edge = if is_begin { &mut begins } else { &mut ends };
            edge.entry(thread).or_insert((ts.at(row), cpu, user.saturating_add(system)));
        }
        let mut residents: BTreeMap<i32, Resident> = BTreeMap::new();
        for (thread, (begin, cpu, before)) in begins {
            let Some(&(end, cpu_then, after)) = ends.get(&thread) else { continue };
            let grown = i128::from(after) - i128::from(before);
            let step = i128::from(end) - i128::from(begin);
            if cpu != cpu_then || step <= 0 || grown * 100 < step * RESIDENT_PCT {
                continue;
            }
            let grown_ns = i64::try_from(grown).unwrap_or(i64::MAX);
            let resident = Resident { thread, begin, end, grown_ns };
            let best = residents.entry(cpu).or_insert(resident);
            if resident.grown_ns > best.grown_ns {
                *best = resident;
            }
        }
        Ok(residents)
    }

    /// Whether the recording shows only switches of chosen threads: others vanish from their CPU
    /// without a record, and no idle thread ever leaves by one. Who runs after a chosen thread has
    /// left, and before it is first seen, is then unknown.
    fn shows_chosen_threads_only(&self) -> bool {
        if let Some(stated) = self.settings.of_chosen_threads {
            return stated;
        }
        let vanished = || self.threads.iter().filter(|thread| thread.vanished > 0);
        self.settings.source == Source::Perf
            && vanished().map(|thread| thread.vanished).sum::<u32>() >= CHOSEN_SIGNS
            && !self.threads.iter().any(|thread| thread.is_idle && thread.has_left)
            && (vanished().any(|thread| thread.is_idle)
                || vanished().all(|thread| !thread.has_left))
    }

    fn occupant_never_left(&self, cpu: i32) -> bool {
        let place = self.cpus[cpu as usize].as_deref();
        place.is_some_and(|place| {
            matches!(place.occupant, Occupant::Thread(number)
                if !self.threads[number as usize].has_left)
        })
    }

    fn close_cpu(
        &mut self,
        cpu: i32,
        (first, last): (i64, i64),
        versions: &[(i64, Option<bool>)],
        resident: Option<Resident>,
    ) {
        self.end_silence(cpu, last);
        let place = self.cpu(cpu);
        let (occupant, joined, last_record) =
            (place.occupant, place.orphan.is_none(), place.last_record);
        match occupant {
            Occupant::Thread(number) if joined && self.is_here(cpu, number) => {
                let mut ended = self.end_slice(cpu, number, last, true);
                let thread = &mut self.threads[number as usize];
                if !thread.is_idle {
                    ended.slice.end_reason = Some(EndReason::TraceEnd);
                    thread.phase = Phase::Exited;
                    thread.drop_wakings(|_| false, &mut self.wakeups);
                }
                self.ended(ended);
            }
            Occupant::Thread(_) => {
                self.stream_end(cpu, last_record, last);
                self.cpu(cpu).unknown(last);
            }
            Occupant::AfterGap(_) | Occupant::Unnamed => self.cpu(cpu).unknown(last),
            Occupant::First => self.close_quiet(cpu, (first, last), versions, resident),
        }
        if let Some(place) = self.cpus[cpu as usize].as_deref_mut() {
            place.flush(&mut self.rows);
        }
    }

    /// A CPU without any switch: offline, or whatever the snapshots or idle records show.
    fn close_quiet(
        &mut self,
        cpu: i32,
        (first, last): (i64, i64),
        versions: &[(i64, Option<bool>)],
        resident: Option<Resident>,
    ) {
        if versions.iter().any(|&(_, online)| online == Some(false)) {
            for (place, &(from, online)) in versions.iter().enumerate() {
                let until = versions.get(place + 1).map_or(last, |&(next, _)| next.min(last));
                let here = self.cpus[cpu as usize].as_deref_mut();
                if let Some(here) = here {
                    here.unknown(from);
                    if online == Some(false) {
                        here.offline(until, &mut self.rows);
                    } else {
                        here.unknown(until);
                    }
                }
            }
            return;
        }
        let mut idles = std::mem::take(&mut self.cpu(cpu).idles);
        let is_resident = |thread: &Thread| !thread.is_idle && thread.phase == Phase::Untouched;
        match resident.filter(|resident| is_resident(&self.threads[resident.thread as usize])) {
            Some(resident) => {
                let begin = if resident.begin <= first { BEGIN } else { resident.begin.min(last) };
                self.write_resident(cpu, resident.thread, begin, resident.end.min(last));
            }
            None => {
                idles.sort_unstable();
                // Of a period that began before the recording, only the part inside counts.
                for (begin, end) in idles.into_iter().filter(|&(_, end)| end > first) {
                    if let Some(here) = self.cpus[cpu as usize].as_deref_mut() {
                        if begin > first {
                            here.unknown(begin.min(last));
                        }
                        here.idle(end.min(last), &mut self.rows);
                    }
                }
            }
        }
        self.cpu(cpu).unknown(last);
    }

    /// One slice without a known start and end.
    fn write_resident(&mut self, cpu: i32, number: u32, begin: i64, end: i64) {
        let place = self.cpu(cpu);
        place.unknown(begin);
        place.from = begin;
        let thread = &mut self.threads[number as usize];
        thread.write_unknown(BEGIN, begin, false, &mut self.rows);
        let open = OpenSlice { cpu, from: begin, left_censored: true, prev_cpu: None, entry: None };
        thread.open_slice = Some(open);
        let mut ended = self.end_slice(cpu, number, end.max(begin), true);
        ended.slice.end_reason = Some(EndReason::TraceEnd);
        let thread = &mut self.threads[number as usize];
        thread.phase = Phase::Unknown { out_seen: false };
        thread.since = end.max(begin);
        thread.drop_wakings(|waking| waking.ts >= end, &mut self.wakeups);
        self.ended(ended);
    }

    fn close_threads(
        &mut self,
        threads: &RecordBatch,
        (first, last): (i64, i64),
    ) -> Result<(), StateError> {
        let utid = Longs::of("thread", "utid", threads)?;
        let ends = Longs::of("thread", "end_ns", threads)?;
        let mut end_of: Vec<Option<i64>> = vec![None; self.threads.len()];
        for row in 0..threads.num_rows() {
            if let Some(number) = self.known_thread(utid.at(row)) {
                end_of[number as usize] = ends.get(row);
            }
        }
        // Without switches nothing shows what a thread did after its wakeup; if one CPU has no
        // switches, a thread without switches may have run there.
        let any_switch = self.switches_recorded;
        let all_switch =
            any_switch && self.cpus.iter().flatten().all(|place| place.occupant != Occupant::First);
        for (thread, end) in self.threads.iter_mut().zip(end_of) {
            if thread.is_idle {
                continue;
            }
            // Without recorded states, the last switch-out after the thread's end is final.
            if end.is_some_and(|end| thread.since >= end)
                && (thread.phase, thread.reason) == (Phase::Blocked, None)
                && thread.wakings.is_empty()
            {
                thread.phase = Phase::Exited;
            }
            let end = end.filter(|&end| thread.last_record.is_none_or(|record| record <= end));
            let mut until = end.unwrap_or(last).clamp(first, last);
            // Linux records a thread's exit before it leaves its CPU for the last time.
            if self.settings.source != Source::Etw && matches!(thread.phase, Phase::Unknown { .. })
            {
                until = until.max(thread.lost_until.min(last));
            }
            if self.settings.source != Source::Etw && !any_switch && end.is_some() {
                until = until.saturating_add(LEAVE_NS).min(last.max(until));
            }
            if !any_switch && thread.phase == Phase::New {
                let entry = thread.settle(until, &mut self.wakeups);
                let woken = entry.ready_from.unwrap_or(entry.since);
                thread.write_entry(
                    &Entry { ready_from: None, ..entry },
                    woken,
                    true,
                    &mut self.rows,
                );
                thread.write_unknown(woken, until, end.is_some(), &mut self.rows);
            } else if thread.phase == Phase::Untouched {
                // No switch of this thread was seen, so it is unknown whether it was awake.
                let woken = thread.woken(until).filter(|_| all_switch);
                let ran = self.settings.source != Source::Etw && {
                    let queue = thread.queue.filter(|_| self.migrations_recorded);
                    ran_unseen(thread, queue.and_then(|cpu| at(&self.cpus, cpu)))
                };
                if woken.is_some() && ran {
                    self.problems.add(ProblemKind::Unseen);
                }
                let woken = woken.filter(|_| !ran).unwrap_or(until);
                thread.write_unknown(BEGIN, woken, end.is_some(), &mut self.rows);
                if woken < until {
                    let entry = thread.settle(until, &mut self.wakeups);
                    let entry = Entry { was: Phase::Runnable, ..entry };
                    thread.write_entry(&entry, until, end.is_some(), &mut self.rows);
                }
            } else if !any_switch && !matches!(thread.phase, Phase::Exited | Phase::Running) {
                thread.write_unknown(thread.since, until, end.is_some(), &mut self.rows);
            } else if !matches!(thread.phase, Phase::Exited | Phase::Running) {
                let entry = thread.settle(until, &mut self.wakeups);
                thread.write_entry(&entry, until, end.is_some(), &mut self.rows);
            }
            thread.drop_wakings(|_| false, &mut self.wakeups);
        }
        Ok(())
    }

    /// Sets the start times of rows that began before the first record. `chosen_only`: a chosen
    /// thread may then have been off its CPU in between, without a record.
    fn close_early(&mut self, first: i64, chosen_only: bool) {
        for mut row in std::mem::take(&mut self.rows.early_spans) {
            row.ts = first;
            row.end = row.end.max(first);
            // Without switches, a wakeup does not show that the thread had waited until then.
            let is_unproven = row.state == State::Waiting && !self.switches_recorded;
            if is_unproven || chosen_only && row.state == State::Running {
                row.state = State::Unknown;
                row.right_censored = true;
            }
            self.rows.span(row);
        }
        for mut row in std::mem::take(&mut self.rows.early_tiles) {
            row.ts = first;
            if chosen_only {
                row.state = CpuWord::Unknown;
            }
            self.rows.tile(row);
        }
        for mut early in std::mem::take(&mut self.early_slices) {
            if chosen_only {
                continue;
            }
            early.slice.ts = first;
            early.slice.end = early.slice.end.max(first);
            if early.decide(&self.settings) {
                self.problems.add(ProblemKind::TickUnknown);
            }
            self.rows.slices.push(&early.slice);
        }
    }
}
