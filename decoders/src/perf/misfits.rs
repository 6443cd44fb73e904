//! Records whose time does not fit those around it on their CPU: damage, or a clock that stepped.
//!
//! The records of a CPU come in the order of time, but for those that an interrupt delayed. Where
//! one is much earlier than the record before it, the records after it decide which of the two is
//! wrong.

use super::attrs::Events;
use super::index::{Index, LostRecords};
use super::problem::Problems;
use super::record;
use super::streams::{NO_CPU, Span, place};

/// An interrupt between taking the time and taking the room may turn records round by this much.
pub(super) const TOLERANCE_NS: u64 = 1_000_000;
/// Records after a step back that decide what is wrong.
const WITNESSES: usize = 5;
/// Records and bytes that are looked through for them.
const LOOK_AHEAD: usize = 4096;
const LOOK_AHEAD_BYTES: usize = 1 << 20;
/// Records in a row that may be wrong at once.
const MOST_IN_A_ROW: usize = 8;
/// The first or last record of a CPU is wrong if it lies further than this from its neighbor and
/// from the records of all other CPUs.
const FAR_NS: u64 = 1_000_000_000;
/// The same where only one CPU was recorded: in lengths of what else was recorded.
const FAR_RATIO: u64 = 10;
/// CPUs that step back more often write into several buffers.
const MOST_STEPS: u32 = 2;

/// Places that are kept apart; more are lost somewhere in the recording.
const MOST: usize = 10_000;

/// In `loss.signalled_by`.
pub(super) const DAMAGED: &str = "damaged";
const NO_FIT: &str = "a record whose time does not fit those around it: left out";
const STEPPED: &str = "the clock went back: records from before the time that had been reached are \
                       left out";

/// A step back that the records after it confirm.
#[derive(Clone, Copy, Debug)]
pub(super) struct Step {
    cpu: i32,
    /// The lane that goes on after it.
    lane: usize,
    /// What had been reached.
    reached: u64,
}

/// What is wrong where a record is much earlier than the one before it.
pub(super) enum Verdict {
    /// The record.
    Record,
    /// Nothing is left of what was wrong before it.
    Mended,
    /// The clock went back, or the CPU writes into several buffers.
    Stepped,
}

/// Where a lane stands.
#[derive(Clone, Copy, Debug)]
pub(super) struct Here<'a> {
    pub(super) segment: u32,
    pub(super) data: &'a [u8],
    pub(super) name: &'a str,
    /// Of the record that steps back, and behind it.
    pub(super) start: usize,
    pub(super) end: usize,
}

impl Index {
    /// Decides what is wrong with a record of a CPU that is much earlier than the last one in the
    /// lane.
    #[inline(never)]
    pub(super) fn judge(
        &mut self,
        events: &Events,
        here: Here<'_>,
        (cpu, ts): (i32, u64),
        lane: usize,
        problems: &mut Problems,
    ) -> Verdict {
        let last = self.lanes[lane].last;
        if self.left_out >= MOST {
            problems.add(format!("{}, offset {}", here.name, here.start), NO_FIT);
            self.lose_anywhere();
            return Verdict::Record;
        }
        let witnesses = witnesses(events, here, cpu);
        let with_last = witnesses.iter().filter(|w| **w + TOLERANCE_NS >= last).count();
        if witnesses.is_empty() || 2 * with_last > witnesses.len() {
            let place = format!("{}, offset {}", here.name, here.start);
            problems.add(place, NO_FIT);
            let after = witnesses.into_iter().find(|w| w + TOLERANCE_NS >= last);
            self.leave_out_of(cpu, Some(last), after);
            return Verdict::Record;
        }
        if self.trim_end(events, here, lane, ts, problems) {
            let before = Some(self.lanes[lane].last).filter(|before| *before > 0);
            self.leave_out_of(cpu, before, Some(ts));
            return Verdict::Mended;
        }
        Verdict::Stepped
    }

    /// Notes that records of a CPU are missing between two times.
    fn leave_out_of(&mut self, cpu: i32, before: Option<u64>, until: Option<u64>) {
        self.left_out += 1;
        if cpu == NO_CPU {
            self.lose_anywhere();
        } else {
            let signalled_by = DAMAGED;
            self.gaps.push(LostRecords { cpu, before, until, events: None, signalled_by });
        }
    }

    /// Notes that a record of a CPU cannot be read: what happened around it is unknown.
    #[inline(never)]
    pub(super) fn miss(&mut self, events: &Events, here: Here<'_>, cpu: i32) {
        if self.left_out >= MOST {
            self.lose_anywhere();
            return;
        }
        let before = self.recent(cpu).map(|lane| self.lanes[lane].last);
        let reached = before.unwrap_or_default();
        let near = |ts: &u64| *ts >= reached && self.is_near(*ts);
        let after = witnesses(events, here, cpu).into_iter().find(near);
        self.leave_out_of(cpu, before, after);
    }

    /// Takes the records at the end of a lane away that are later than a time, if they are few.
    fn trim_end(
        &mut self,
        events: &Events,
        here: Here<'_>,
        lane: usize,
        ts: u64,
        problems: &mut Problems,
    ) -> bool {
        let known = &self.lanes[lane];
        let (Some(run), before) = (known.run, known.before) else { return false };
        if run.segment != here.segment {
            return false;
        }
        // Times of the run's last records, and where they begin.
        let mut tail: Vec<(usize, u64)> = Vec::new();
        let (mut position, mut records) = (run.start as usize, 0);
        while position < run.end as usize
            && let Some(found) = record::at(here.data, position)
        {
            if let Some(placed) = place(events, &found) {
                records += 1;
                if tail.len() > MOST_IN_A_ROW {
                    tail.remove(0);
                }
                tail.push((position, placed.ts));
            }
            position += found.length;
        }
        let late = tail.iter().rev().take_while(|(_, t)| *t > ts + TOLERANCE_NS).count();
        let all = late == records;
        if late == 0 || late > MOST_IN_A_ROW || (all && before > ts + TOLERANCE_NS) {
            return false;
        }
        let (from, _) = tail[tail.len() - late];
        problems.add_many(format!("{}, offset {from}", here.name), NO_FIT, late as i64);
        let lane = &mut self.lanes[lane];
        lane.last = match tail.len().checked_sub(late + 1) {
            Some(kept) if !all => tail[kept].1,
            _ => before,
        };
        lane.cut_end(run.segment, from as u64);
        lane.run = if all { None } else { Some(Span { end: from as u64, ..run }) };
        if lane.spans.is_empty() {
            lane.first = ts;
        }
        self.uncover = true;
        true
    }

    /// Notes a step back of a CPU's clock, after which a lane goes on.
    pub(super) fn stepped(&mut self, cpu: i32, lane: usize, reached: u64) {
        *self.step_counts.entry(cpu).or_default() += 1;
        self.steps.push(Step { cpu, lane, reached });
    }

    /// Whether a CPU steps back so often that it must write into several buffers.
    pub(super) fn has_several_buffers(&self, cpu: i32) -> bool {
        self.step_counts.get(&cpu).is_some_and(|count| *count > MOST_STEPS)
    }

    /// Takes away what no neighbor in the file shows to be wrong: first and last records far from
    /// everything else, and what repeats time after a step back.
    pub(super) fn leave_out<'a>(
        &mut self,
        events: &Events,
        data: impl Fn(u32) -> &'a [u8],
        problems: &mut Problems,
    ) {
        for step in std::mem::take(&mut self.steps) {
            if self.has_several_buffers(step.cpu) {
                continue;
            }
            let (left_out, after) = self.trim_begin(events, &data, step.lane, step.reached);
            if left_out > 0 {
                problems.add_many(format!("CPU {}", step.cpu), STEPPED, left_out);
                let before = Some(step.reached);
                self.leave_out_of(step.cpu, before, after);
                self.uncover = true;
            }
        }
        self.trim_ends(events, &data, problems);
        if self.uncover {
            let lanes = || self.lanes.iter().filter(|lane| !lane.spans.is_empty());
            self.first = lanes().map(|lane| lane.first).min();
            let last = lanes().map(|lane| lane.last).filter(|last| *last != u64::MAX).max();
            self.last = last.or(self.last);
        }
    }

    /// Takes records at the begin of a lane away that are earlier than a time; how many, and the
    /// time of the first that is left.
    fn trim_begin<'a>(
        &mut self,
        events: &Events,
        data: impl Fn(u32) -> &'a [u8],
        lane: usize,
        until: u64,
    ) -> (i64, Option<u64>) {
        let lane = &mut self.lanes[lane];
        let mut left_out = 0;
        while let Some(span) = lane.spans.first_mut() {
            let bytes = data(span.segment);
            let mut position = span.start as usize;
            while position < span.end as usize
                && let Some(found) = record::at(bytes, position)
            {
                if let Some(placed) = place(events, &found)
                    && placed.ts >= until
                {
                    span.start = position as u64;
                    lane.first = placed.ts;
                    return (left_out, Some(placed.ts));
                }
                left_out += 1;
                position += found.length;
            }
            lane.spans.remove(0);
        }
        (left_out, None)
    }

    /// First and last records of CPUs that lie far from everything else.
    fn trim_ends<'a>(
        &mut self,
        events: &Events,
        data: impl Fn(u32) -> &'a [u8],
        problems: &mut Problems,
    ) {
        for number in 0..self.lanes.len() {
            let Some(ends) = self.ends(events, &data, number) else { continue };
            let others = || {
                let lanes = self.lanes.iter().enumerate();
                lanes.filter(|(other, lane)| *other != number && !lane.spans.is_empty())
            };
            let lane = &self.lanes[number];
            let alone = others().next().is_none();
            let core = FAR_NS.max(FAR_RATIO * ends.before_last.abs_diff(ends.second));
            let others_first = others().map(|(_, lane)| lane.first).min();
            let others_last = others().map(|(_, lane)| lane.last).max();
            let late = ends.before_last.saturating_add(FAR_NS.max(if alone { core } else { 0 }));
            let last_is_far = lane.last > late
                && others_last.is_none_or(|last| lane.last > last.saturating_add(FAR_NS));
            let early = lane.first.saturating_add(FAR_NS.max(if alone { core } else { 0 }));
            let first_is_far =
                ends.second > early && others_first.is_none_or(|first| early < first);
            let cpu = lane.cpu;
            if last_is_far {
                problems.add(format!("CPU {cpu}, last record"), NO_FIT);
                let before = Some(ends.before_last);
                self.leave_out_of(cpu, before, None);
                let lane = &mut self.lanes[number];
                lane.cut_end(ends.last_span.segment, ends.last_span.start);
                lane.last = ends.before_last;
                self.uncover = true;
            }
            if first_is_far {
                problems.add(format!("CPU {cpu}, first record"), NO_FIT);
                self.leave_out_of(cpu, None, Some(ends.second));
                self.trim_begin(events, &data, number, ends.second);
                self.uncover = true;
            }
        }
    }

    /// The ends of a lane, if it has at least three records with times.
    fn ends<'a>(
        &self,
        events: &Events,
        data: impl Fn(u32) -> &'a [u8],
        number: usize,
    ) -> Option<Ends> {
        let lane = &self.lanes[number];
        if lane.last == u64::MAX {
            return None;
        }
        let mut first: Vec<u64> = Vec::new();
        for span in &lane.spans {
            let mut position = span.start as usize;
            while position < span.end as usize
                && first.len() < 3
                && let Some(found) = record::at(data(span.segment), position)
            {
                first.extend(place(events, &found).map(|placed| placed.ts));
                position += found.length;
            }
        }
        let [_, second, _] = first.first_chunk()?;
        let run = lane.run?;
        let bytes = data(run.segment);
        let (mut position, mut before_last, mut last) = (run.start as usize, lane.before, None);
        while position < run.end as usize
            && let Some(found) = record::at(bytes, position)
        {
            if let Some(placed) = place(events, &found) {
                if let Some((_, ts)) = last {
                    before_last = ts;
                }
                last = Some((position as u64, placed.ts));
            }
            position += found.length;
        }
        let (start, _) = last?;
        Some(Ends { second: *second, before_last, last_span: Span { start, ..run } })
    }
}

/// Times next to the first and last record of a lane.
struct Ends {
    second: u64,
    before_last: u64,
    last_span: Span,
}

/// Times of the next records of a CPU behind a place.
fn witnesses(events: &Events, here: Here<'_>, cpu: i32) -> Vec<u64> {
    let mut found = Vec::new();
    let mut position = here.end;
    for _ in 0..LOOK_AHEAD {
        let Some(record) = record::at(here.data, position) else { break };
        position += record.length;
        let kernel = record.kind < record::USER_TYPE_START && record.kind != record::LOST;
        if let Some(placed) = place(events, &record).filter(|_| kernel)
            && placed.cpu == cpu
            && placed.ts > 0
        {
            found.push(placed.ts);
        }
        if found.len() >= WITNESSES || position - here.end > LOOK_AHEAD_BYTES {
            break;
        }
    }
    found
}
