//! The position of each record of a recording, by the CPU that wrote it, and counts.

use std::collections::{BTreeMap, HashMap, HashSet};

use schedlens_input::bytes::{CPU_LIMIT, u64_at};
use schedlens_input::files::Pages;
use schedlens_input::problem::Problems;

use crate::ids::Events;
use crate::lane::Lane;
use crate::loss::{DAMAGED, LostRecords};
use crate::misfit::{Here, Misfit, Step, TOLERANCE_NS, Verdict};
use crate::record::{self, Record};
use crate::streams::{NO_CPU, Placed, Span, place};

/// Times further than this from the others count as damage (30 days in ns).
const FAR_NS: u64 = 30 * 86_400 * 1_000_000_000;
/// Records examined to find the approximate time.
const CLOCK_RECORDS: usize = 101;
/// The value of `loss.signalled_by` for a gap shown by a `LOST` record.
const LOST: &str = "PERF_RECORD_LOST";
/// Maximum buffers of one CPU that are merged; records that fit none are sorted one by one.
const LANES_A_CPU: usize = 32;

#[derive(Debug, Default)]
pub(crate) struct CpuLanes {
    lanes: Vec<u32>,
    recent: usize,
    /// Records that fit into no lane, in the order of the file.
    pub(crate) strays: Vec<(u64, Span)>,
}

/// The position of each record, and counts.
#[derive(Debug, Default)]
pub struct Index {
    pub(crate) lanes: Vec<Lane>,
    pub(crate) cpus: Vec<CpuLanes>,
    /// Records without a time, about what existed before the recording.
    pub early: Vec<Span>,
    /// `COMM`, `FORK` and `EXIT` by time.
    pub tasks: Vec<(u64, Span)>,
    /// Number of records by kind.
    pub kinds: BTreeMap<u32, u64>,
    few_kinds: [u64; 32],
    /// Number of samples by event.
    pub samples: Vec<u64>,
    /// Number of records.
    pub records: u64,
    /// Time of the earliest sample or switch; of the earliest record if there is none.
    pub first: Option<u64>,
    /// Time of the latest record.
    pub last: Option<u64>,
    /// Records lost according to `PERF_RECORD_LOST`.
    pub lost: u64,
    /// Samples lost according to `PERF_RECORD_LOST_SAMPLES`.
    pub lost_samples: u64,
    /// Ranges that could not be read at all.
    pub damaged: u64,
    /// Records that cannot be read.
    pub(crate) unreadable: usize,
    /// Records whose times do not fit their position in the file.
    pub(crate) misfits: Vec<Misfit>,
    /// There are so many of them that the records must be sorted.
    pub(crate) is_disordered: bool,
    /// The buffers kept only the newest records.
    pub(crate) is_overwritten: bool,
    pub(crate) steps: Vec<Step>,
    pub(crate) step_counts: HashMap<i32, u32>,
    /// The window no longer includes all records that were seen.
    pub(crate) uncover: bool,
    clock: Option<u64>,
    /// Where `LOST` records report missing records.
    pub gaps: Vec<LostRecords>,
    /// Number of CPUs that the machine can have, if the file contains it.
    pub(crate) cpu_limit: Option<i32>,
}

impl Index {
    /// Indexes the records of a segment; `other` receives those written by the recorder itself.
    pub(crate) fn add(
        &mut self,
        events: &Events,
        (number, name, data): (u32, &str, &[u8]),
        (start, mut pages): (usize, Pages<'_>),
        problems: &mut Problems,
        mut other: impl FnMut(&Record<'_>, &mut Problems),
    ) {
        self.samples.resize(events.attrs.len(), 0);
        if self.clock.is_none() {
            self.clock = median_time(events, data, start);
        }
        let mut position = start;
        while position < data.len() {
            let resting = position;
            let end = data.len().min(position.saturating_add(Pages::STEP));
            pages.advance(position, end);
            position = self.run(events, number, data.get(..end).unwrap_or_default(), position);
            if position > resting {
                continue;
            }
            let Some(found) = known_record(data, position) else {
                let resumed = record::resume(data, position, |record| {
                    record.kind >= record::USER_TYPE_START
                        || place(events, record).is_some_and(|placed| self.is_near(placed.ts))
                });
                self.damage(name, position, resumed, data.len(), problems);
                position = resumed;
                continue;
            };
            let span = Span {
                segment: number,
                start: position as u64,
                end: (position + found.length) as u64,
            };
            position += found.length;
            self.records += 1;
            match self.few_kinds.get_mut(found.kind as usize) {
                Some(count) => *count += 1,
                None => *self.kinds.entry(found.kind).or_default() += 1,
            }
            if found.kind >= record::USER_TYPE_START {
                other(&found, problems);
            } else {
                self.kernel_record(events, &found, (span, data), name, problems);
            }
        }
    }

    /// Records are missing here, and their CPU is unknown.
    pub(crate) fn lose_anywhere(&mut self) {
        self.damaged += 1;
        for lane in &mut self.lanes {
            lane.lose(None, DAMAGED);
        }
    }

    fn damage(&mut self, name: &str, from: usize, to: usize, end: usize, problems: &mut Problems) {
        self.lose_anywhere();
        let what = if to == end { "the rest cannot be read" } else { "bytes that are no record" };
        problems.add(format!("{name}, bytes {from} to {to}"), what);
    }

    pub(crate) fn is_near(&self, ts: u64) -> bool {
        ts == 0 || self.clock.is_none_or(|clock| ts.abs_diff(clock) < FAR_NS)
    }

    #[inline]
    fn kernel_record(
        &mut self,
        events: &Events,
        found: &Record<'_>,
        (span, data): (Span, &[u8]),
        name: &str,
        problems: &mut Problems,
    ) {
        let Some(placed) = place(events, found) else {
            let what = if found.kind == record::SAMPLE {
                "a sample of an unknown event"
            } else {
                "a record without time"
            };
            problems.add(format!("{name}, offset {}", span.start), what);
            return;
        };
        match found.kind {
            record::SAMPLE => {
                if let Some(count) = self.samples.get_mut(usize::from(placed.event)) {
                    *count += 1;
                }
            }
            record::LOST => {
                let more = u64_at(found.bytes, 16).unwrap_or_default();
                self.lost = self.lost.saturating_add(more);
            }
            record::LOST_SAMPLES if found.misc & record::MISC_LOST_SAMPLES_BPF == 0 => {
                let more = u64_at(found.bytes, 8).unwrap_or_default();
                self.lost_samples = self.lost_samples.saturating_add(more);
            }
            _ => {}
        }
        let (start, end) = (span.start as usize, span.end as usize);
        let here = Here { segment: span.segment, data, name, start, end };
        let limit = self.cpu_limit.unwrap_or(CPU_LIMIT);
        let known_cpu = (NO_CPU..limit).contains(&placed.cpu);
        // Records about what existed before the recording have no time, but they are never samples.
        let early = placed.ts == 0 && found.kind != record::SAMPLE;
        if !early && (!known_cpu || placed.ts == 0 || !self.is_near(placed.ts)) {
            problems.add(format!("{name}, offset {}", span.start), "an impossible time or CPU");
            if known_cpu {
                self.miss(events, here, placed.cpu);
            } else {
                self.lose_anywhere();
            }
            return;
        }
        if early {
            if is_task(found) {
                self.tasks.push((0, span));
            }
            self.early.push(span);
            return;
        }
        let lost = found.kind == record::LOST;
        let mut reached = None;
        if let Some((lane, last)) = self.conflict(placed.cpu, placed.ts).filter(|_| !lost) {
            match self.judge(events, here, (placed.cpu, placed.ts), lane) {
                Verdict::Record => return,
                Verdict::Fixed => {}
                Verdict::Stepped => reached = Some(last),
            }
        }
        // What follows the step may be left out, so it must not be in a lane with other records.
        let stepped =
            reached.and_then(|reached| Some((self.new_lane(placed.cpu, placed.ts)?, reached)));
        self.place_record(placed, found, (placed.ts, span));
        if let Some((lane, reached)) = stepped {
            self.stepped(placed.cpu, lane, reached);
        }
    }

    /// Adds a record at the position given by its time.
    pub(crate) fn place_record(
        &mut self,
        placed: Placed,
        found: &Record<'_>,
        (ts, span): (u64, Span),
    ) {
        if is_task(found) {
            self.tasks.push((ts, span));
        }
        self.cover(ts, ts);
        let lost = found.kind == record::LOST;
        let events = lost.then(|| u64_at(found.bytes, 16).unwrap_or_default());
        self.append(placed, span, events);
    }

    /// Whether some CPU has several lanes.
    pub(crate) fn has_several_lanes(&self) -> bool {
        self.cpus.iter().any(|cpu| cpu.lanes.len() > 1 || !cpu.strays.is_empty())
    }

    /// The lane of a CPU that was extended last.
    pub(crate) fn recent(&self, cpu: i32) -> Option<usize> {
        let of_cpu = self.cpus.get(usize::try_from(cpu - NO_CPU).ok()?)?;
        of_cpu.lanes.get(of_cpu.recent).map(|lane| *lane as usize)
    }

    /// The lane and its last time, if a time is much earlier than that.
    fn conflict(&self, cpu: i32, ts: u64) -> Option<(usize, u64)> {
        let lane = self.recent(cpu)?;
        let last = self.lanes[lane].last;
        let steps_back = last > ts.saturating_add(TOLERANCE_NS);
        let is_judged = !self.is_disordered && !self.has_several_buffers(cpu);
        (steps_back && cpu != NO_CPU && is_judged).then_some((lane, last))
    }

    /// The first times of all lanes, and the times of records without one, by CPU.
    pub(crate) fn first_times(&self) -> impl Iterator<Item = (i32, u64)> {
        let lanes = self.lanes.iter().filter(|lane| !lane.spans.is_empty());
        let strays = self
            .cpus
            .iter()
            .zip(NO_CPU..)
            .flat_map(|(of_cpu, cpu)| of_cpu.strays.iter().map(move |(ts, _)| (cpu, *ts)));
        lanes.map(|lane| (lane.cpu, lane.first)).chain(strays)
    }

    fn cover(&mut self, first: u64, last: u64) {
        self.first = Some(self.first.map_or(first, |known| known.min(first)));
        self.last = Some(self.last.map_or(last, |known| known.max(last)));
    }

    /// The lane of a CPU into which a record with that time fits; `None` if there are too many
    /// lanes.
    #[inline]
    fn lane_for(&mut self, cpu: i32, ts: u64, lost: bool) -> Option<usize> {
        let at = (cpu - NO_CPU) as usize;
        if self.cpus.len() <= at {
            self.cpus.resize_with(at + 1, CpuLanes::default);
        }
        if self.is_overwritten {
            // The newest come first in the file, also among records with the same time: all are
            // sorted at the end.
            return None;
        }
        let of_cpu = &mut self.cpus[at];
        let recent = of_cpu.lanes.get(of_cpu.recent).map(|lane| *lane as usize);
        if let Some(lane) = recent
            && (lost || self.lanes[lane].last <= ts)
        {
            return Some(lane);
        }
        for (rank, lane) in of_cpu.lanes.iter().enumerate() {
            if self.lanes[*lane as usize].last <= ts {
                of_cpu.recent = rank;
                return Some(*lane as usize);
            }
        }
        self.new_lane(cpu, ts)
    }

    /// An empty lane of a CPU that has one already or whose place is made, which becomes its recent
    /// one; `None` if there are too many.
    fn new_lane(&mut self, cpu: i32, ts: u64) -> Option<usize> {
        let of_cpu = self.cpus.get_mut((cpu - NO_CPU) as usize)?;
        if of_cpu.lanes.len() >= LANES_A_CPU {
            return None;
        }
        of_cpu.recent = of_cpu.lanes.len();
        of_cpu.lanes.push(self.lanes.len() as u32);
        let (spans, first) = (Vec::new(), ts);
        self.lanes.push(Lane { cpu, spans, first, last: 0, run: None, before: 0, lost: None });
        Some(self.lanes.len() - 1)
    }

    fn append(&mut self, placed: Placed, span: Span, lost: Option<u64>) {
        let Some(lane) = self.lane_for(placed.cpu, placed.ts, lost.is_some()) else {
            self.cpus[(placed.cpu - NO_CPU) as usize].strays.push((placed.ts, span));
            return;
        };
        let lane = &mut self.lanes[lane];
        // The time of a LOST record is that of the record after it, or slightly later.
        match lost {
            Some(events) => lane.lose(Some(events), LOST),
            None => {
                lane.end_gap(placed.ts, &mut self.gaps);
                (lane.before, lane.run) = (lane.last, Some(span));
                lane.first = lane.first.min(placed.ts);
                lane.last = placed.ts;
            }
        }
        lane.extend(span);
    }

    /// Call this when all segments are indexed; `cut_off`: the file ends before its data does.
    pub(crate) fn finish(&mut self, cut_off: bool) {
        // Losses at the very end are only counted: no later record shows where they are. For a lane
        // whose records are all skipped, the gap is known.
        let overflowed: HashSet<i32> =
            self.gaps.iter().filter(|gap| gap.signalled_by == LOST).map(|gap| gap.cpu).collect();
        for lane in self.lanes.iter_mut().filter(|lane| !lane.spans.is_empty()) {
            if cut_off {
                lane.lose(None, "truncated");
                // The partial record at the cut is not separate damage.
                if let Some(lost) = &mut lane.lost {
                    lost.signalled_by = "truncated";
                }
            } else if self.lost_samples > self.lost {
                lane.lose(None, "PERF_RECORD_LOST_SAMPLES");
            } else if overflowed.contains(&lane.cpu) {
                // A buffer that overflowed earlier may also have overflowed at the end.
                lane.lose(None, "stream_end");
            }
        }
        for (kind, count) in self.few_kinds.iter().enumerate().filter(|(_, count)| **count > 0) {
            *self.kinds.entry(kind as u32).or_default() += count;
        }
        self.few_kinds = [0; 32];
        self.tasks.sort_by_key(|(ts, _)| *ts);
        self.gaps.extend(self.lanes.iter_mut().filter_map(|lane| lane.lost.take()));
        self.gaps.extend(self.overwritten());
        self.gaps.retain(|gap| gap.cpu != NO_CPU);
        self.limit_gaps();
        self.gaps.sort_by_key(|gap| (gap.before, gap.cpu));
        for (at, cpu) in self.cpus.iter_mut().enumerate() {
            if self.is_overwritten {
                // The newest first, also among records with the same time.
                cpu.strays.reverse();
            }
            cpu.strays.sort_by_key(|(ts, _)| *ts);
            if !cpu.strays.is_empty() {
                let first = cpu.strays.first().map_or(u64::MAX, |(ts, _)| *ts);
                let spans = cpu.strays.drain(..).map(|(_, span)| span).collect();
                let cpu = at as i32 + NO_CPU;
                let (last, run, before, lost) = (u64::MAX, None, 0, None);
                self.lanes.push(Lane { cpu, spans, first, last, run, before, lost });
            }
        }
    }

    /// Moves the bounds of gaps into the recording, and the earlier one first. The record at a bound
    /// may have been skipped after the gap was found, because its time is impossible; and times around
    /// damaged records may be in the wrong order.
    fn limit_gaps(&mut self) {
        let (Some(first), Some(last)) = (self.first, self.last) else { return };
        let mut gaps = std::mem::take(&mut self.gaps);
        for gap in &mut gaps {
            if gap.before.is_some_and(|before| before > last) {
                gap.before = Some(self.last_of(gap.cpu).unwrap_or(last).clamp(first, last));
            }
            gap.before = gap.before.filter(|before| *before >= first);
            gap.until = gap.until.filter(|until| *until <= last).map(|until| until.max(first));
            if let (Some(before), Some(until)) = (gap.before, gap.until)
                && until < before
            {
                (gap.before, gap.until) = (Some(until), Some(before));
            }
        }
        self.gaps = gaps;
    }

    /// Time of the last record of a CPU, if its records are in order.
    pub(crate) fn last_of(&self, cpu: i32) -> Option<u64> {
        let lanes = self.lanes.iter().filter(|lane| lane.cpu == cpu);
        lanes.map(|lane| lane.last).max().filter(|last| *last != u64::MAX)
    }

    /// Whether no record has a time.
    pub fn is_empty(&self) -> bool {
        self.lanes.is_empty()
    }

    /// CPUs that wrote records, by number.
    pub fn cpus(&self) -> Vec<i32> {
        let mut cpus: Vec<i32> =
            self.lanes.iter().map(|lane| lane.cpu).filter(|cpu| *cpu != NO_CPU).collect();
        cpus.sort_unstable();
        cpus.dedup();
        cpus
    }
}

/// The record at a position, if it has a documented type and size.
fn known_record(data: &[u8], position: usize) -> Option<Record<'_>> {
    record::at(data, position).filter(|found| {
        let aligned = found.kind >= record::USER_TYPE_START || found.bytes.len() % 8 == 0;
        aligned
            && record::is_known(found.kind)
            && !record::is_too_long(found.kind, found.bytes.len())
    })
}

fn is_task(found: &Record<'_>) -> bool {
    matches!(found.kind, record::COMM | record::FORK | record::EXIT)
}

/// The median time of the first records that can be read. Damage at the start must not decide which
/// times are possible.
fn median_time(events: &Events, data: &[u8], start: usize) -> Option<u64> {
    let mut times = Vec::new();
    let mut position = start;
    while times.len() < CLOCK_RECORDS && position < data.len() {
        let Some(found) = known_record(data, position) else {
            position = record::resume(data, position, |record| {
                record.kind >= record::USER_TYPE_START || place(events, record).is_some()
            });
            continue;
        };
        position += found.length;
        if found.kind < record::USER_TYPE_START
            && let Some(placed) = place(events, &found)
            && placed.ts != 0
        {
            times.push(placed.ts);
        }
    }
    times.sort_unstable();
    times.get(times.len() / 2).copied()
}

mod run;
#[cfg(test)]
mod tests;
