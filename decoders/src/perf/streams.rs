//! The streams of the CPUs: which records belong to which, and their merge by time.

use std::cmp::Reverse;
use std::collections::binary_heap::PeekMut;
use std::collections::{BTreeMap, BinaryHeap};

use super::attrs::{CPU_LIMIT, Events};
use super::record::{self, Record};
use crate::bytes::{u32_at, u64_at};
use crate::input::Segment;
use crate::problem::Problems;

/// Times further than this from the others are taken for damage (30 days in ns).
const FAR_NS: u64 = 30 * 86_400 * 1_000_000_000;
/// Records that are looked at to know what time it was.
const CLOCK_RECORDS: usize = 101;
/// Buffers of one CPU that are merged; what fits into none is sorted one by one.
const LANES_A_CPU: usize = 32;
/// Stands for the CPU of records that do not carry one.
pub(super) const NO_CPU: i32 = -1;
const NO_EVENT: u16 = u16::MAX;

/// A stretch of records in one segment.
#[derive(Clone, Copy, Debug)]
pub(super) struct Span {
    segment: u32,
    start: u64,
    end: u64,
}

/// When and where a record was written, and by which event.
#[derive(Clone, Copy, Debug)]
pub(super) struct Placed {
    pub(super) ts: u64,
    pub(super) cpu: i32,
    /// For samples: number of the event.
    event: u16,
}

/// The records of one buffer of one CPU: their times do not go back.
#[derive(Debug)]
struct Lane {
    cpu: i32,
    spans: Vec<Span>,
    last: u64,
}

#[derive(Debug, Default)]
struct CpuLanes {
    lanes: Vec<u32>,
    recent: usize,
    strays: Vec<(u64, Span)>,
}

/// Where each record lies, and what was counted on the way.
#[derive(Debug, Default)]
pub(super) struct Index {
    lanes: Vec<Lane>,
    cpus: Vec<CpuLanes>,
    /// Records without a time, of what existed before the recording.
    pub(super) early: Vec<Span>,
    /// `COMM`, `FORK` and `EXIT` by time.
    pub(super) tasks: Vec<(u64, Span)>,
    pub(super) kinds: BTreeMap<u32, u64>,
    few_kinds: [u64; 32],
    pub(super) samples: Vec<u64>,
    pub(super) records: u64,
    pub(super) first: Option<u64>,
    pub(super) last: Option<u64>,
    pub(super) lost: u64,
    pub(super) lost_samples: u64,
    /// Stretches that could not be read at all.
    pub(super) damaged: u64,
    clock: Option<u64>,
    /// CPUs that the machine can have, where the file tells.
    pub(super) cpu_limit: Option<i32>,
}

/// When and where a record was written; `None` if it does not say.
#[inline(always)]
fn place(events: &Events, record: &Record<'_>) -> Option<Placed> {
    if record.kind == record::SAMPLE
        && let Some(common) = &events.common
    {
        let bytes = record.bytes;
        let event = events.by_id(u64_at(bytes, common.id)?)? as u16;
        let ts = u64_at(bytes, common.time)?;
        return Some(Placed { ts, cpu: u32_at(bytes, common.cpu)?.cast_signed(), event });
    }
    place_by_layout(events, record)
}

#[inline(never)]
fn place_by_layout(events: &Events, record: &Record<'_>) -> Option<Placed> {
    let bytes = record.bytes;
    if record.kind == record::SAMPLE {
        let event = events.of_sample(bytes)?;
        let layout = &events.attrs.get(event)?.sample;
        let ts = u64_at(bytes, layout.time?)?;
        let cpu = match layout.cpu {
            Some(at) => u32_at(bytes, at)?.cast_signed(),
            None => NO_CPU,
        };
        return Some(Placed { ts, cpu, event: event as u16 });
    }
    let trailer = events.trailer(bytes)?;
    let start = bytes.len().checked_sub(trailer.size).filter(|start| *start >= 8)?;
    let ts = u64_at(bytes, start + trailer.time?)?;
    let cpu = match trailer.cpu {
        Some(at) => u32_at(bytes, start + at)?.cast_signed(),
        None => NO_CPU,
    };
    Some(Placed { ts, cpu, event: NO_EVENT })
}

/// Process and thread at the end of a record other than a sample.
pub(super) fn trailer_ids(events: &Events, bytes: &[u8]) -> Option<(i32, i32)> {
    let trailer = events.trailer(bytes)?;
    let at = bytes.len().checked_sub(trailer.size)? + trailer.tid?;
    Some((u32_at(bytes, at)?.cast_signed(), u32_at(bytes, at + 4)?.cast_signed()))
}

impl Index {
    /// Goes over the records of a segment; `other` gets those that the recorder itself wrote.
    pub(super) fn add(
        &mut self,
        events: &Events,
        (number, name, data): (u32, &str, &[u8]),
        start: usize,
        problems: &mut Problems,
        mut other: impl FnMut(&Record<'_>, &mut Problems),
    ) {
        self.samples.resize(events.attrs.len(), 0);
        if self.clock.is_none() {
            self.clock = median_time(events, data, start);
        }
        let mut position = start;
        while position < data.len() {
            let found = record::at(data, position).filter(|r| {
                let aligned = r.kind >= record::USER_TYPE_START || r.bytes.len() % 8 == 0;
                aligned && record::is_known(r.kind)
            });
            let Some(found) = found else {
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
                self.kernel_record(events, &found, span, name, problems);
            }
        }
    }

    fn damage(&mut self, name: &str, from: usize, to: usize, end: usize, problems: &mut Problems) {
        self.damaged += 1;
        let what = if to == end { "the rest cannot be read" } else { "bytes that are no record" };
        problems.add(format!("{name}, bytes {from} to {to}"), what);
    }

    fn is_near(&self, ts: u64) -> bool {
        ts == 0 || self.clock.is_none_or(|clock| ts.abs_diff(clock) < FAR_NS)
    }

    #[inline]
    fn kernel_record(
        &mut self,
        events: &Events,
        found: &Record<'_>,
        span: Span,
        name: &str,
        problems: &mut Problems,
    ) {
        let Some(placed) = place(events, found) else {
            let what = if found.kind == record::SAMPLE {
                "a sample of no known event"
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
            record::LOST => self.lost += u64_at(found.bytes, 16).unwrap_or_default(),
            record::LOST_SAMPLES if found.misc & record::MISC_LOST_SAMPLES_BPF == 0 => {
                self.lost_samples += u64_at(found.bytes, 8).unwrap_or_default();
            }
            record::COMM | record::FORK | record::EXIT => self.tasks.push((placed.ts, span)),
            _ => {}
        }
        if placed.ts == 0 {
            self.early.push(span);
            return;
        }
        let limit = self.cpu_limit.unwrap_or(CPU_LIMIT);
        if !(NO_CPU..limit).contains(&placed.cpu) || !self.is_near(placed.ts) {
            problems.add(format!("{name}, offset {}", span.start), "a time or CPU that cannot be");
            return;
        }
        self.first = Some(self.first.map_or(placed.ts, |first| first.min(placed.ts)));
        self.last = Some(self.last.map_or(placed.ts, |last| last.max(placed.ts)));
        self.append(placed, span, found.kind == record::LOST);
    }

    #[inline]
    fn append(&mut self, placed: Placed, span: Span, lost: bool) {
        let at = (placed.cpu - NO_CPU) as usize;
        if self.cpus.len() <= at {
            self.cpus.resize_with(at + 1, CpuLanes::default);
        }
        let cpu = &mut self.cpus[at];
        let recent = cpu.lanes.get(cpu.recent).copied();
        let mut chosen = None;
        if let Some(lane) = recent.map(|lane| lane as usize)
            && (lost || self.lanes[lane].last <= placed.ts)
        {
            chosen = Some(lane);
        } else {
            for (rank, lane) in cpu.lanes.iter().enumerate() {
                if self.lanes[*lane as usize].last <= placed.ts {
                    cpu.recent = rank;
                    chosen = Some(*lane as usize);
                    break;
                }
            }
        }
        if chosen.is_none() {
            if cpu.lanes.len() >= LANES_A_CPU {
                cpu.strays.push((placed.ts, span));
                return;
            }
            cpu.recent = cpu.lanes.len();
            cpu.lanes.push(self.lanes.len() as u32);
            chosen = Some(self.lanes.len());
            self.lanes.push(Lane { cpu: placed.cpu, spans: Vec::new(), last: 0 });
        }
        let Some(lane) = chosen.and_then(|lane| self.lanes.get_mut(lane)) else { return };
        // The time of a LOST record is that of the record after it, or a little later.
        if !lost {
            lane.last = placed.ts;
        }
        match lane.spans.last_mut() {
            Some(last) if last.segment == span.segment && last.end == span.start => {
                last.end = span.end;
            }
            _ => lane.spans.push(span),
        }
    }

    /// To be called when all segments are in.
    pub(super) fn finish(&mut self) {
        for (kind, count) in self.few_kinds.iter().enumerate().filter(|(_, count)| **count > 0) {
            *self.kinds.entry(kind as u32).or_default() += count;
        }
        self.few_kinds = [0; 32];
        self.tasks.sort_by_key(|(ts, _)| *ts);
        for (at, cpu) in self.cpus.iter_mut().enumerate() {
            cpu.strays.sort_by_key(|(ts, _)| *ts);
            if !cpu.strays.is_empty() {
                let spans = cpu.strays.drain(..).map(|(_, span)| span).collect();
                self.lanes.push(Lane { cpu: at as i32 + NO_CPU, spans, last: u64::MAX });
            }
        }
    }

    /// CPUs that wrote records, by number.
    pub(super) fn cpus(&self) -> Vec<i32> {
        let mut cpus: Vec<i32> =
            self.lanes.iter().map(|lane| lane.cpu).filter(|cpu| *cpu != NO_CPU).collect();
        cpus.sort_unstable();
        cpus.dedup();
        cpus
    }
}

fn median_time(events: &Events, data: &[u8], start: usize) -> Option<u64> {
    let mut times = Vec::new();
    let mut position = start;
    while let Some(found) = record::at(data, position) {
        position += found.length;
        if found.kind < record::USER_TYPE_START
            && let Some(placed) = place(events, &found)
            && placed.ts != 0
        {
            times.push(placed.ts);
            if times.len() == CLOCK_RECORDS {
                break;
            }
        }
    }
    times.sort_unstable();
    times.get(times.len() / 2).copied()
}

/// All records of a span, in the order of the file.
pub(super) fn records<'a>(
    segments: &'a [Segment],
    span: &Span,
) -> impl Iterator<Item = Record<'a>> + use<'a> {
    let data = segments.get(span.segment as usize).map(|s| (**s).as_ref()).unwrap_or_default();
    let data = data.get(..span.end as usize).unwrap_or_default();
    let mut position = span.start as usize;
    std::iter::from_fn(move || {
        let found = record::at(data, position)?;
        position += found.length;
        Some(found)
    })
}

/// A record with its place.
#[derive(Clone, Copy, Debug)]
pub(super) struct Merged<'a> {
    pub(super) record: Record<'a>,
    pub(super) cpu: i32,
    /// For samples: number of the event.
    pub(super) event: usize,
}

/// Where reading stands in a lane: its next record lies at `position`.
struct Cursor<'a> {
    cpu: i32,
    spans: &'a [Span],
    data: &'a [u8],
    position: usize,
    /// Of the next record.
    ts: u64,
    event: u16,
}

impl<'a> Cursor<'a> {
    /// Stops at the next record that says when it was written; `false` if there is none.
    #[inline(always)]
    fn seek(&mut self, events: &Events, segments: &'a [Segment]) -> bool {
        loop {
            if self.position >= self.data.len() {
                let Some((span, rest)) = self.spans.split_first() else { return false };
                let data = segments.get(span.segment as usize);
                let data = data.map(|segment| (**segment).as_ref()).unwrap_or_default();
                self.data = data.get(..span.end as usize).unwrap_or_default();
                self.position = span.start as usize;
                self.spans = rest;
            }
            let Some(record) = record::at(self.data, self.position) else {
                self.position = usize::MAX;
                continue;
            };
            let Some(placed) = place(events, &record) else {
                self.position += record.length;
                continue;
            };
            // See `Index::append`.
            if record.kind != record::LOST || self.ts == 0 {
                self.ts = placed.ts;
            }
            self.event = placed.event;
            return true;
        }
    }
}

/// The records of all CPUs by (time, CPU).
pub(super) struct Merge<'a> {
    events: &'a Events,
    segments: &'a [Segment],
    cursors: Vec<Cursor<'a>>,
    /// Time and number of the lanes that are not read now.
    waiting: BinaryHeap<Reverse<(u64, usize)>>,
    /// The first of them; beyond all times if there is none.
    limit: (u64, usize),
    current: Option<usize>,
}

impl<'a> Merge<'a> {
    /// From the begin.
    pub(super) fn new(events: &'a Events, segments: &'a [Segment], index: &'a Index) -> Self {
        let mut lanes: Vec<&Lane> = index.lanes.iter().collect();
        lanes.sort_by_key(|lane| lane.cpu);
        let mut cursors = Vec::new();
        let mut waiting = BinaryHeap::new();
        for lane in lanes {
            let mut cursor = Cursor {
                cpu: lane.cpu,
                spans: &lane.spans,
                data: &[],
                position: 0,
                ts: 0,
                event: NO_EVENT,
            };
            if cursor.seek(events, segments) {
                waiting.push(Reverse((cursor.ts, cursors.len())));
                cursors.push(cursor);
            }
        }
        let current = waiting.pop().map(|Reverse((_, lane))| lane);
        let mut merge =
            Self { events, segments, cursors, waiting, limit: (u64::MAX, usize::MAX), current };
        merge.look_ahead();
        merge
    }

    fn look_ahead(&mut self) {
        self.limit = self.waiting.peek().map_or((u64::MAX, usize::MAX), |Reverse(first)| *first);
    }

    /// Time of the next record.
    #[inline(always)]
    pub(super) fn next_time(&self) -> Option<u64> {
        self.current.map(|lane| self.cursors[lane].ts)
    }

    #[inline(never)]
    fn change(&mut self, here: (u64, usize)) {
        if let Some(mut first) = self.waiting.peek_mut() {
            self.current = Some(first.0.1);
            *first = Reverse(here);
        }
        self.look_ahead();
    }

    #[inline(never)]
    fn exhausted(&mut self) {
        self.current = self.waiting.peek_mut().map(|first| PeekMut::pop(first).0.1);
        self.look_ahead();
    }
}

impl<'a> Iterator for Merge<'a> {
    type Item = Merged<'a>;

    #[inline(always)]
    fn next(&mut self) -> Option<Merged<'a>> {
        let lane = self.current?;
        let cursor = &mut self.cursors[lane];
        let record = record::at(cursor.data, cursor.position)?;
        let event = usize::from(cursor.event);
        let merged = Merged { record, cpu: cursor.cpu, event };
        cursor.position += record.length;
        if cursor.seek(self.events, self.segments) {
            let here = (cursor.ts, lane);
            if here > self.limit {
                self.change(here);
            }
        } else {
            self.exhausted();
        }
        Some(merged)
    }
}
