//! Skips records whose time does not fit, once the whole recording has been read.

use std::collections::{HashMap, HashSet};

use schedlens_input::problem::Problems;

use crate::ids::Events;
use crate::index::Index;
use crate::misfit::Misfit;
use crate::misfits::{NO_FIT, gap_of};
use crate::record;
use crate::streams::{Span, place};

/// The first or last record of a CPU is wrong if it is further than this from its neighbor and from
/// the records of all other CPUs.
const FAR_NS: u64 = 1_000_000_000;
/// The same if only one CPU was recorded, in multiples of the length of the rest.
const FAR_RATIO: u64 = 10;
/// Maximum records of one position that are searched for elsewhere in the file.
const MOST_COMPARED: usize = 1 << 16;

const BEFORE_STEP: &str = "records earlier than the time already reached: left out";
const STEPPED: &str = "the clock went back and stayed there: its later records are left out";
const TWICE: &str = "records that are in the file twice: left out once";
const DISORDER: &str = "records that are not in time order: sorted";

impl Index {
    /// Skips wrong records that their neighbors in the file did not reveal: first and last records
    /// far from everything else, and records that repeat a time after a step back. A skipped record
    /// may belong at its file position or at its time, so both become gaps. A file that contains
    /// records twice is sorted instead, and nothing is skipped.
    pub(crate) fn leave_out<'a>(
        &mut self,
        events: &Events,
        data: impl Fn(u32) -> &'a [u8],
        problems: &mut Problems,
    ) {
        if self.is_disordered && !self.is_overwritten {
            problems.add("the data", DISORDER);
        }
        self.put_back(events, &data);
        for step in std::mem::take(&mut self.steps) {
            if self.is_disordered || self.has_several_buffers(step.cpu) {
                continue;
            }
            let misfit = self.trim_begin(events, &data, step.lane, step.reached);
            if misfit.count > 0 {
                self.misfits.push(misfit);
                self.uncover = true;
            }
        }
        let near = self.near(events, &data, &self.misfits);
        // A single record may equal another one by chance.
        let is_copy = |(misfit, near): (&Misfit, &Near)| 2 * near.twice > misfit.records.len();
        if self.misfits.iter().zip(&near).any(is_copy) {
            problems.add("the data", TWICE);
            self.is_disordered = true;
            self.put_back(events, &data);
        } else {
            self.settle_misfits(near, problems);
        }
        self.trim_ends(events, &data, problems);
        if self.uncover {
            let lanes = || self.lanes.iter().filter(|lane| !lane.spans.is_empty());
            self.first = lanes().map(|lane| lane.first).min();
            // A lane of LOST records alone has no last record of another kind.
            let last = lanes().map(|lane| lane.last).filter(|last| *last != u64::MAX).max();
            let last = last.max(self.first);
            self.last = last.or(self.last);
        }
        if self.has_several_lanes() {
            self.tasks.sort_by_key(|(ts, _)| *ts);
            let bytes =
                |span: &Span| data(span.segment).get(span.start as usize..span.end as usize);
            self.tasks.dedup_by(|a, b| a.0 == b.0 && bytes(&a.1) == bytes(&b.1));
        }
    }

    /// Reports the skipped misfits.
    fn settle_misfits(&mut self, near: Vec<Near>, problems: &mut Problems) {
        let misfits = std::mem::take(&mut self.misfits);
        if misfits.is_empty() {
            return;
        }
        let apart: HashSet<(u32, u64)> = misfits
            .iter()
            .flat_map(|misfit| misfit.records.iter().map(|(_, span)| (span.segment, span.start)))
            .collect();
        self.tasks.retain(|(_, span)| !apart.contains(&(span.segment, span.start)));
        let lanes = || self.lanes.iter().filter(|lane| !lane.spans.is_empty());
        let first = lanes().map(|lane| lane.first).min().unwrap_or(0);
        let last = lanes().map(|lane| lane.last).filter(|last| *last != u64::MAX).max();
        for (misfit, near) in misfits.into_iter().zip(near) {
            problems.add_many(misfit.place.clone(), misfit.what, misfit.count);
            if let Some(lane) = misfit.stepped {
                problems.add(misfit.place, STEPPED);
                // Another order of the records in the file looks the same: then they belong at
                // their time.
                if !near.is_between && misfit.latest >= first {
                    self.gaps.push(gap_of(misfit.gap.cpu, near.before, near.after));
                }
                self.drop_lane(lane);
                self.gaps.push(gap_of(misfit.gap.cpu, misfit.gap.before, None));
                continue;
            }
            self.gaps.push(misfit.gap);
            if misfit.latest >= first && last.is_none_or(|last| misfit.earliest <= last) {
                self.gaps.push(gap_of(misfit.gap.cpu, near.before, near.after));
            }
        }
    }

    /// Skips all records of a lane.
    fn drop_lane(&mut self, number: usize) {
        let lane = &mut self.lanes[number];
        let spans = std::mem::take(&mut lane.spans);
        (lane.run, lane.last) = (None, 0);
        let dropped = |task: &Span| {
            let mut segment = spans.iter().filter(|span| span.segment == task.segment);
            segment.any(|span| span.start <= task.start && task.start < span.end)
        };
        self.tasks.retain(|(_, task)| !dropped(task));
        self.uncover = true;
    }

    /// The CPU's other records at the times of each misfit.
    fn near<'a>(
        &self,
        events: &Events,
        data: impl Fn(u32) -> &'a [u8],
        misfits: &[Misfit],
    ) -> Vec<Near> {
        let mut found: Vec<Near> = misfits.iter().map(|_| Near::default()).collect();
        let mut copies: HashMap<&[u8], usize> = HashMap::new();
        for (number, misfit) in misfits.iter().enumerate() {
            for (_, span) in &misfit.records {
                let bytes = data(span.segment).get(span.start as usize..span.end as usize);
                let Some(bytes) = bytes else { continue };
                if copies.insert(bytes, number).is_some() {
                    found[number].twice += 1;
                }
            }
        }
        let cpus: HashSet<i32> = misfits.iter().map(|misfit| misfit.gap.cpu).collect();
        for lane in self.lanes.iter().filter(|lane| cpus.contains(&lane.cpu)) {
            for span in &lane.spans {
                let bytes = data(span.segment);
                let mut position = span.start as usize;
                while position < span.end as usize
                    && let Some(record) = record::at(bytes, position)
                {
                    let end = position + record.length;
                    let copy = bytes.get(position..end).and_then(|copy| copies.remove(copy));
                    position = end;
                    if let Some(number) = copy {
                        found[number].twice += 1;
                    }
                    let Some(placed) = place(events, &record) else { continue };
                    for (near, misfit) in found.iter_mut().zip(misfits) {
                        if misfit.gap.cpu == lane.cpu {
                            near.take(placed.ts, misfit);
                        }
                    }
                }
            }
        }
        found
    }

    /// Removes records at the start of a lane that are earlier than a time.
    fn trim_begin<'a>(
        &mut self,
        events: &Events,
        data: impl Fn(u32) -> &'a [u8],
        number: usize,
        until: u64,
    ) -> Misfit {
        let lane = &mut self.lanes[number];
        let mut misfit = Misfit {
            place: format!("CPU {}", lane.cpu),
            what: BEFORE_STEP,
            count: 0,
            records: Vec::new(),
            earliest: lane.first,
            latest: 0,
            gap: gap_of(lane.cpu, Some(until), None),
            stepped: Some(number),
        };
        while let Some(span) = lane.spans.first_mut() {
            let bytes = data(span.segment);
            let mut position = span.start as usize;
            while position < span.end as usize
                && let Some(found) = record::at(bytes, position)
            {
                let start = position as u64;
                if found.kind == record::LOST {
                    // Its time may be later than that of the record after it, and its gap is known.
                    position += found.length;
                    continue;
                }
                let ts = place(events, &found).map(|placed| placed.ts);
                if let Some(ts) = ts.filter(|ts| *ts >= until) {
                    span.start = start;
                    lane.first = ts;
                    misfit.gap.until = Some(ts);
                    return misfit;
                }
                position += found.length;
                misfit.count += 1;
                misfit.latest = misfit.latest.max(ts.unwrap_or(0));
                if misfit.count as usize > MOST_COMPARED {
                    misfit.records.clear();
                } else {
                    let own = Span { segment: span.segment, start, end: position as u64 };
                    misfit.records.push((ts.unwrap_or(0), own));
                }
            }
            lane.spans.remove(0);
        }
        misfit
    }

    /// Removes first and last records of CPUs that are far from everything else.
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
                self.gaps.push(gap_of(cpu, before, None));
                let lane = &mut self.lanes[number];
                lane.cut_end(ends.last_span.segment, ends.last_span.start);
                lane.last = ends.before_last;
                self.uncover = true;
            }
            if first_is_far {
                problems.add(format!("CPU {cpu}, first record"), NO_FIT);
                self.gaps.push(gap_of(cpu, None, Some(ends.second)));
                self.trim_begin(events, &data, number, ends.second);
                self.uncover = true;
            }
        }
    }

    /// The ends of a lane, if it has at least three records with times besides LOST.
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
                let is_lost = found.kind == record::LOST;
                first.extend(place(events, &found).filter(|_| !is_lost).map(|placed| placed.ts));
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

/// What a CPU's other records show about its misfits.
#[derive(Default)]
struct Near {
    /// How many of them occur in the file a second time.
    twice: usize,
    /// The nearest times around those of the misfits.
    before: Option<u64>,
    after: Option<u64>,
    /// Other records of the CPU are between them.
    is_between: bool,
}

impl Near {
    fn take(&mut self, ts: u64, misfit: &Misfit) {
        self.is_between |= misfit.earliest < ts && ts < misfit.latest;
        if ts <= misfit.earliest {
            self.before = Some(self.before.map_or(ts, |before| before.max(ts)));
        }
        if ts >= misfit.latest {
            self.after = Some(self.after.map_or(ts, |after| after.min(ts)));
        }
    }
}

/// Times next to the first and last record of a lane.
struct Ends {
    second: u64,
    before_last: u64,
    last_span: Span,
}
