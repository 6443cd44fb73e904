//! The records of all CPUs in time order.

use std::cmp::Reverse;
use std::collections::binary_heap::PeekMut;
use std::collections::{BinaryHeap, HashSet, VecDeque};

use schedlens_input::bytes::prefetch;
use schedlens_input::files::{Pages, Segment};

use crate::ids::Events;
use crate::lane::Lane;
use crate::merged::Merged;
use crate::recording::Recording;
use crate::streams::{NO_EVENT, Span, place};
use crate::{record, ties};

/// The read position in a lane.
struct Cursor<'a> {
    cpu: i32,
    spans: &'a [Span],
    segment: u32,
    data: &'a [u8],
    /// Start of the next record.
    start: usize,
    end: usize,
    /// Position after it and its payload.
    position: usize,
    ts: u64,
    event: u16,
}

impl<'a> Cursor<'a> {
    /// Advances to the next record with a time; `false` if there is none.
    #[inline(always)]
    fn advance(&mut self, events: &Events, segments: &'a [Segment]) -> bool {
        loop {
            if self.position >= self.data.len() && !self.next_span(segments) {
                return false;
            }
            let Some(record) = record::at(self.data, self.position) else {
                self.position = usize::MAX;
                continue;
            };
            prefetch(self.data, self.position);
            (self.start, self.end) = (self.position, self.position + record.bytes.len());
            self.position += record.length;
            let Some(placed) = place(events, &record) else { continue };
            // See `Index::append`.
            if record.kind != record::LOST || self.ts == 0 {
                self.ts = placed.ts;
            }
            self.event = placed.event;
            return true;
        }
    }

    /// The next record.
    #[inline(always)]
    fn merged(&self) -> Merged<'a> {
        let bytes = self.data.get(self.start..self.end).unwrap_or_default();
        Merged { bytes, cpu: self.cpu, event: usize::from(self.event) }
    }

    #[inline(never)]
    fn next_span(&mut self, segments: &'a [Segment]) -> bool {
        let Some((span, rest)) = self.spans.split_first() else { return false };
        let data = segments.get(span.segment as usize);
        let data = data.map(|segment| (**segment).as_ref()).unwrap_or_default();
        self.segment = span.segment;
        self.data = data.get(..span.end as usize).unwrap_or_default();
        self.position = span.start as usize;
        self.spans = rest;
        true
    }
}

/// Records with one time, in their most likely order.
#[derive(Default)]
struct Settled<'a> {
    ts: u64,
    /// Nearly all records are alone: these need no memory.
    first: Option<Merged<'a>>,
    others: VecDeque<Merged<'a>>,
}

impl<'a> Settled<'a> {
    fn is_empty(&self) -> bool {
        self.first.is_none() && self.others.is_empty()
    }

    #[inline(always)]
    fn take(&mut self) -> Option<Merged<'a>> {
        self.first.take().or_else(|| self.others.pop_front())
    }
}

/// The records of all CPUs by (time, CPU).
pub struct Merge<'a> {
    recording: &'a Recording,
    cursors: Vec<Cursor<'a>>,
    /// Time and number of the lanes that are not being read.
    waiting: BinaryHeap<Reverse<(u64, usize)>>,
    /// The first of them; later than all times if there is none.
    limit: (u64, usize),
    current: Option<usize>,
    /// Some CPU has several lanes: records may occur twice, and the order of records with one time
    /// is unknown.
    is_disordered: bool,
    /// In that case, the next records.
    settled: Settled<'a>,
    entered: ties::Entered,
    /// Of each segment.
    pages: Vec<Pages<'a>>,
}

impl<'a> Merge<'a> {
    /// Starts at the first record.
    pub fn new(recording: &'a Recording) -> Self {
        let (events, segments) = (&recording.events, recording.segments.as_slice());
        let index = &recording.index;
        let mut lanes: Vec<&Lane> = index.lanes.iter().collect();
        lanes.sort_by_key(|lane| lane.cpu);
        let mut cursors = Vec::new();
        let mut waiting = BinaryHeap::new();
        for lane in lanes {
            let mut cursor = Cursor {
                cpu: lane.cpu,
                spans: &lane.spans,
                segment: 0,
                data: &[],
                position: 0,
                start: 0,
                end: 0,
                ts: 0,
                event: NO_EVENT,
            };
            if cursor.advance(events, segments) {
                waiting.push(Reverse((cursor.ts, cursors.len())));
                cursors.push(cursor);
            }
        }
        let current = waiting.pop().map(|Reverse((_, lane))| lane);
        let mut merge = Self {
            recording,
            cursors,
            waiting,
            limit: (u64::MAX, usize::MAX),
            current,
            is_disordered: index.has_several_lanes(),
            settled: Settled::default(),
            entered: ties::Entered::new(),
            pages: segments.iter().map(|segment| Pages::new(segment)).collect(),
        };
        merge.look_ahead();
        if merge.is_disordered {
            merge.settle();
        }
        merge
    }

    /// Releases what has been read of large files. Call it now and then.
    pub fn release(&mut self) {
        for (segment, pages) in self.pages.iter_mut().enumerate() {
            let open = self.cursors.iter().filter(|cursor| cursor.segment as usize == segment);
            let starts = open.map(|cursor| cursor.start).filter(|start| *start < usize::MAX);
            let (from, to) =
                starts.fold((usize::MAX, 0), |(from, to), start| (from.min(start), to.max(start)));
            if from <= to {
                pages.advance(from, to);
            }
        }
    }

    fn look_ahead(&mut self) {
        self.limit = self.waiting.peek().map_or((u64::MAX, usize::MAX), |Reverse(first)| *first);
    }

    /// Time of the next record.
    #[inline(always)]
    pub fn next_time(&self) -> Option<u64> {
        if self.is_disordered {
            return (!self.settled.is_empty()).then_some(self.settled.ts);
        }
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

impl<'a> Merge<'a> {
    /// Takes all records of the next time.
    #[inline(never)]
    fn settle(&mut self) {
        let Some(lane) = self.current else { return };
        let ts = self.cursors[lane].ts;
        let first = self.cursors[lane].merged();
        self.go_on(lane);
        self.settled.ts = ts;
        if self.lane_at(ts).is_some() {
            self.settle_several(first, ts);
        } else {
            ties::enter(&first, self.recording, &mut self.entered);
            self.settled.first = Some(first);
        }
    }

    /// Takes the other records of that time, in their most likely order. Duplicates are dropped,
    /// because a CPU never writes the same record twice at one time.
    #[cold]
    fn settle_several(&mut self, first: Merged<'a>, ts: u64) {
        // A damaged file may give the same time to all records.
        let mut seen: HashSet<&[u8]> = HashSet::from([first.bytes]);
        let mut found = vec![first];
        while let Some(lane) = self.lane_at(ts) {
            let merged = self.cursors[lane].merged();
            if seen.insert(merged.bytes) {
                found.push(merged);
            }
            self.go_on(lane);
        }
        ties::sort(&mut found, self.recording, &mut self.entered);
        self.settled.others = found.into();
    }

    /// The lane of the next record if that has this time.
    #[inline(always)]
    fn lane_at(&self, ts: u64) -> Option<usize> {
        self.current.filter(|lane| self.cursors[*lane].ts == ts)
    }

    /// Advances to the record after the next one, which is in that lane.
    #[inline(always)]
    fn go_on(&mut self, lane: usize) {
        let cursor = &mut self.cursors[lane];
        if cursor.advance(&self.recording.events, &self.recording.segments) {
            let here = (cursor.ts, lane);
            if here > self.limit {
                self.change(here);
            }
        } else {
            self.exhausted();
        }
    }
}

impl<'a> Iterator for Merge<'a> {
    type Item = Merged<'a>;

    #[inline(always)]
    fn next(&mut self) -> Option<Merged<'a>> {
        if self.is_disordered {
            let merged = self.settled.take();
            if self.settled.is_empty() {
                self.settle();
            }
            return merged;
        }
        let lane = self.current?;
        let merged = self.cursors[lane].merged();
        self.go_on(lane);
        Some(merged)
    }
}
