//! Records whose time does not fit those around it on their CPU: damage, or a clock that stepped.
//!
//! The records of a CPU are in time order, except those that an interrupt delayed. If one is much
//! earlier than the record before it, the records after it decide which of the two is wrong. A file
//! with many such positions is disordered: its records are sorted and none is skipped.

use crate::ids::Events;
use crate::index::Index;
use crate::loss::{DAMAGED, LostRecords};
use crate::misfit::{Here, Misfit, Step, TOLERANCE_NS, Verdict};
use crate::record;
use crate::streams::{NO_CPU, Span, place};

/// Records after a step back that decide what is wrong.
const WITNESSES: usize = 5;
/// Records and bytes searched for them.
const LOOK_AHEAD: usize = 4096;
const LOOK_AHEAD_BYTES: usize = 1 << 20;
/// Consecutive records that may be wrong; after more of them the clock stepped back.
const MOST_IN_A_ROW: usize = 1;
/// CPUs that step back more often write into several buffers.
const MOST_STEPS: u32 = 2;

/// With more misfit positions than this, a file is disordered.
const MOST_MISFITS: usize = 16;
/// Unreadable records; with more, the location of the loss is unknown.
const MOST_UNREADABLE: usize = 10_000;

/// The text reported for them.
pub(crate) const NO_FIT: &str = "a record whose time does not fit those around it: left out";
impl Index {
    /// Decides what is wrong with a record that is much earlier than the last one in its CPU's
    /// lane.
    #[inline(never)]
    pub(crate) fn judge(
        &mut self,
        events: &Events,
        here: Here<'_>,
        (cpu, ts): (i32, u64),
        lane: usize,
    ) -> Verdict {
        let last = self.lanes[lane].last;
        let witnesses = witnesses(events, here, cpu);
        let agrees = |witness: &u64| witness.saturating_add(TOLERANCE_NS) >= last;
        let with_last = witnesses.iter().filter(|witness| agrees(witness)).count();
        if witnesses.is_empty() || 2 * with_last > witnesses.len() {
            let place = format!("{}, offset {}", here.name, here.start);
            let after = witnesses.into_iter().find(agrees);
            let (start, end) = (here.start as u64, here.end as u64);
            let record = (ts, Span { segment: here.segment, start, end });
            self.set_apart(place, vec![record], gap_of(cpu, Some(last), after));
            return Verdict::Record;
        }
        let late = self.trim_end(events, here, lane, ts);
        if late.is_empty() {
            return Verdict::Stepped;
        }
        let before = Some(self.lanes[lane].last).filter(|before| *before > 0);
        let place = late.first().map_or(here.start as u64, |(_, span)| span.start);
        let place = format!("{}, offset {place}", here.name);
        self.set_apart(place, late, gap_of(cpu, before, Some(ts)));
        Verdict::Fixed
    }

    /// Keeps records of one position in the file separately until the whole file has been read.
    fn set_apart(&mut self, place: String, records: Vec<(u64, Span)>, gap: LostRecords) {
        let times = || records.iter().map(|(ts, _)| *ts);
        let (earliest, latest) = (times().min().unwrap_or(0), times().max().unwrap_or(0));
        let count = records.len() as i64;
        self.misfits.push(Misfit {
            place,
            what: NO_FIT,
            count,
            records,
            earliest,
            latest,
            gap,
            stepped: None,
        });
        if self.misfits.len() > MOST_MISFITS {
            self.is_disordered = true;
        }
    }

    /// Restores separated records if the file, or their CPU, is disordered.
    pub(crate) fn put_back<'a>(&mut self, events: &Events, data: impl Fn(u32) -> &'a [u8]) {
        for misfit in std::mem::take(&mut self.misfits) {
            if !self.is_disordered && !self.has_several_buffers(misfit.gap.cpu) {
                self.misfits.push(misfit);
                continue;
            }
            for (ts, span) in misfit.records {
                let Some(found) = record::at(data(span.segment), span.start as usize) else {
                    continue;
                };
                let Some(placed) = place(events, &found) else { continue };
                self.place_record(placed, &found, (ts, span));
            }
        }
    }

    /// Notes that a record of a CPU cannot be read: what happened around it is unknown.
    #[inline(never)]
    pub(crate) fn miss(&mut self, events: &Events, here: Here<'_>, cpu: i32) {
        self.unreadable += 1;
        if self.unreadable > MOST_UNREADABLE || cpu == NO_CPU {
            self.lose_anywhere();
            return;
        }
        let before = self.recent(cpu).map(|lane| self.lanes[lane].last);
        let reached = before.unwrap_or_default();
        let near = |ts: &u64| *ts >= reached && self.is_near(*ts);
        let after = witnesses(events, here, cpu).into_iter().find(near);
        self.gaps.push(gap_of(cpu, before, after));
    }

    /// Removes the records at the end of a lane that are later than a time, if they are few;
    /// returns their times and positions.
    fn trim_end(
        &mut self,
        events: &Events,
        here: Here<'_>,
        lane: usize,
        ts: u64,
    ) -> Vec<(u64, Span)> {
        let known = &self.lanes[lane];
        let (Some(run), before) = (known.run, known.before) else { return Vec::new() };
        if run.segment != here.segment {
            return Vec::new();
        }
        // The run's last records.
        let mut tail: Vec<(u64, Span)> = Vec::new();
        let (mut position, mut records) = (run.start as usize, 0);
        while position < run.end as usize
            && let Some(found) = record::at(here.data, position)
        {
            let end = position + found.length;
            if let Some(placed) = place(events, &found) {
                records += 1;
                if tail.len() > MOST_IN_A_ROW {
                    tail.remove(0);
                }
                tail.push((placed.ts, Span { start: position as u64, end: end as u64, ..run }));
            }
            position = end;
        }
        let late =
            tail.iter().rev().take_while(|(t, _)| *t > ts.saturating_add(TOLERANCE_NS)).count();
        let all = late == records;
        if late == 0 || late > MOST_IN_A_ROW || (all && before > ts.saturating_add(TOLERANCE_NS)) {
            return Vec::new();
        }
        let cut = tail.split_off(tail.len() - late);
        let from = cut.first().map_or(run.end, |(_, span)| span.start);
        let lane = &mut self.lanes[lane];
        lane.last = match tail.last() {
            Some((kept, _)) if !all => *kept,
            _ => before,
        };
        lane.cut_end(run.segment, from);
        lane.run = if all { None } else { Some(Span { end: from, ..run }) };
        if lane.spans.is_empty() {
            lane.first = ts;
        }
        self.uncover = true;
        cut
    }

    /// Notes a step back of a CPU's clock, after which a lane continues.
    pub(crate) fn stepped(&mut self, cpu: i32, lane: usize, reached: u64) {
        *self.step_counts.entry(cpu).or_default() += 1;
        self.steps.push(Step { cpu, lane, reached });
    }

    /// Whether a CPU steps back so often that it must write into several buffers.
    pub(crate) fn has_several_buffers(&self, cpu: i32) -> bool {
        self.step_counts.get(&cpu).is_some_and(|count| *count > MOST_STEPS)
    }
}

/// Times of the next records of a CPU after a position.
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

/// A period of a CPU in which the file's records are wrong.
pub(crate) fn gap_of(cpu: i32, before: Option<u64>, until: Option<u64>) -> LostRecords {
    LostRecords { cpu, before, until, events: None, signalled_by: DAMAGED }
}
