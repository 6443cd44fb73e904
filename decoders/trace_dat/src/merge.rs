//! The records of all CPUs in time order.

use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::collections::binary_heap::PeekMut;

use schedlens_input::bytes::u16_at;

use crate::clock::Clock;
use crate::lane::{Lane, Wanted};
use crate::packing::Unpacker;
use crate::page::{Position, Step};
use crate::pages::Pages;
use crate::recording::Recording;
use crate::scan::UNKNOWN;
use crate::slots::{NO_SLOT, Slots};

/// A record with its time and CPU.
#[derive(Clone, Copy, Debug)]
pub struct Merged<'a> {
    /// Its time, ns.
    pub ts: u64,
    /// Logical CPU that wrote it.
    pub cpu: i32,
    /// Index of its event.
    pub event: usize,
    /// The data of the tracepoint, common fields included.
    pub raw: &'a [u8],
    /// Records of this CPU are missing before it.
    pub after_gap: bool,
}

/// Which records are read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Scope {
    /// Those that schedules consist of, each from one buffer.
    Schedule,
    /// Those of all events and buffers.
    All,
}

/// The read position in a lane.
struct Cursor<'a> {
    lane: &'a Lane,
    pages: Pages<'a>,
    position: Position,
    /// The data of the next record in the page.
    data: (usize, usize),
    ts: u64,
    event: u16,
    after_gap: bool,
    /// Pages of the lane that are left out or after gaps, as far as not passed.
    left_out: &'a [u32],
    gaps: &'a [u32],
}

/// What all cursors need.
struct Reading<'a> {
    recording: &'a Recording,
    clock: &'a Clock,
    ids: &'a [u16],
    slots: &'a Slots,
    unpacker: Unpacker,
    scope: Scope,
}

impl Cursor<'_> {
    /// Advances to the next record that is read; `false` if there is none.
    #[inline(always)]
    fn advance(&mut self, reading: &mut Reading<'_>) -> bool {
        self.after_gap = false;
        loop {
            let page = self.pages.page();
            let Step::Record(from, to) = self.position.step(page) else {
                if !self.next_page(reading) {
                    return false;
                }
                continue;
            };
            let id = usize::from(u16_at(page, from).unwrap_or_default());
            let event = match reading.scope {
                Scope::Schedule => {
                    let slot = reading.slots.by_id.get(id).copied().unwrap_or(NO_SLOT);
                    let Some(wanted) = self.lane.wanted.get(usize::from(slot)) else { continue };
                    if matches!(wanted, Wanted::Never) {
                        continue;
                    }
                    let ts = reading.clock.ns(self.position.ts, self.lane.cpu);
                    if !wanted.has(ts) {
                        continue;
                    }
                    reading.slots.events.get(usize::from(slot)).copied().unwrap_or(UNKNOWN)
                }
                Scope::All => reading.ids.get(id).copied().unwrap_or(UNKNOWN),
            };
            if event != UNKNOWN {
                let ts = reading.clock.ns(self.position.ts, self.lane.cpu);
                // A correction of a guest's clock does not change the order of its records.
                self.ts = ts.max(self.ts);
                (self.data, self.event) = ((from, to), event);
                return true;
            }
        }
    }

    #[inline(never)]
    fn next_page(&mut self, reading: &mut Reading<'_>) -> bool {
        while self.pages.advance(&mut reading.unpacker) {
            let number = self.pages.number();
            if let [first, rest @ ..] = self.gaps
                && *first <= number
            {
                self.gaps = rest;
                // It remains until the first record that is read.
                self.after_gap = true;
            }
            if let [first, rest @ ..] = self.left_out
                && *first == number
            {
                self.left_out = rest;
                continue;
            }
            if let Some(header) = reading.recording.layout.header(self.pages.page()) {
                self.position = header.position;
                return true;
            }
        }
        false
    }
}

/// The records of all CPUs by (time, CPU).
pub struct Merge<'a> {
    reading: Reading<'a>,
    cursors: Vec<Cursor<'a>>,
    /// Time and number of the lanes that are not being read.
    waiting: BinaryHeap<Reverse<(u64, usize)>>,
    /// The first of them; later than all times if there is none.
    limit: (u64, usize),
    current: Option<usize>,
}

impl<'a> Merge<'a> {
    /// Starts at the first record.
    ///
    /// # Errors
    /// The decompressor cannot be created.
    pub fn new(recording: &'a Recording, scope: Scope) -> std::io::Result<Self> {
        let mut reading = Reading {
            recording,
            clock: &recording.clock,
            ids: &recording.ids,
            slots: &recording.slots,
            unpacker: Unpacker::new(recording.packing)?,
            scope,
        };
        let mut cursors = Vec::new();
        let mut waiting = BinaryHeap::new();
        let is_read = |lane: &&Lane| match scope {
            Scope::Schedule => lane.is_read(),
            Scope::All => lane.is_usable,
        };
        for lane in recording.lanes.iter().filter(is_read) {
            let mut cursor = Cursor {
                lane,
                pages: recording.pages(lane),
                position: Position::default(),
                data: (0, 0),
                // A page may begin a little earlier than the one before it ended.
                ts: lane.first,
                event: UNKNOWN,
                after_gap: false,
                left_out: &lane.left_out,
                gaps: &lane.after_gap,
            };
            if cursor.advance(&mut reading) {
                waiting.push(Reverse((cursor.ts, cursors.len())));
                cursors.push(cursor);
            }
        }
        let current = waiting.pop().map(|Reverse((_, lane))| lane);
        let limit = (u64::MAX, usize::MAX);
        let mut merge = Self { reading, cursors, waiting, limit, current };
        merge.look_ahead();
        Ok(merge)
    }

    fn look_ahead(&mut self) {
        self.limit = self.waiting.peek().map_or((u64::MAX, usize::MAX), |Reverse(first)| *first);
    }

    /// Time of the next record.
    #[inline(always)]
    pub fn next_time(&self) -> Option<u64> {
        self.current.map(|lane| self.cursors[lane].ts)
    }

    /// The next record; `None` after the last.
    #[inline(always)]
    pub fn peek(&self) -> Option<Merged<'_>> {
        let cursor = &self.cursors[self.current?];
        let raw = cursor.pages.page().get(cursor.data.0..cursor.data.1)?;
        Some(Merged {
            ts: cursor.ts,
            cpu: cursor.lane.cpu,
            event: usize::from(cursor.event),
            raw,
            after_gap: cursor.after_gap,
        })
    }

    /// Advances behind the next record.
    #[inline(always)]
    pub fn advance(&mut self) {
        let Some(lane) = self.current else { return };
        let cursor = &mut self.cursors[lane];
        if cursor.advance(&mut self.reading) {
            let here = (cursor.ts, lane);
            if here > self.limit {
                self.change(here);
            }
        } else {
            self.exhausted();
        }
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
