//! All records of a recording in time order.
//!
//! Records are sorted in batches. A batch ends no later than the first of the open buffers; every
//! stream adds its records up to that time, and these runs are merged. A batch is therefore never
//! longer than the open buffers.

use std::cmp::Reverse;
use std::collections::BinaryHeap;

use crate::compression::Unpacker;
use crate::container::buffer::HEADER;
use crate::container::clock::Clock;
use crate::container::log::{self, LogFile};
use crate::passes::batch::{Batch, Entry, Sort};
use crate::passes::chosen::{Chosen, Class};
use crate::passes::lanes::Lane;
use crate::passes::scan::Scan;
use crate::passes::walk::Walk;
use crate::payload::switching::{CSwitch, ReadyThread};
use crate::records::head::Head;
use crate::records::plain::{self, Brief, Opening};
use crate::records::{Place, Record};

/// An open buffer.
struct Slot<'a> {
    file: &'a LogFile,
    place: Place,
    cpu: Option<u16>,
    /// Its records in the file; otherwise they are in `room`.
    in_file: Option<&'a [u8]>,
    room: Vec<u8>,
}

impl Slot<'_> {
    #[inline(always)]
    fn records(&self) -> &[u8] {
        self.in_file.unwrap_or(&self.room)
    }
}

/// The read position in a lane.
#[derive(Default)]
struct Cursor {
    /// The next of the lane's buffers.
    next: usize,
    /// The open buffer.
    slot: Option<u32>,
    walk: Walk,
    /// A record that has been read but belongs to a later batch.
    ahead: Option<Entry>,
    /// Records of an unordered buffer, the last one first.
    sorted: Vec<Entry>,
}

/// Minimum target for the records of a batch; the maximum is four times as many. The data read for
/// sorting is then still in the CPU cache when the records become rows.
const LEAST_BATCH: usize = 1 << 9;
/// The same for each stream, since each restarts in each batch.
const LEAST_RUN: usize = 32;
/// Maximum records in a [`Stretch`].
const STRETCH: usize = 1 << 12;

/// Consecutive records in time order.
pub struct Stretch<'m> {
    entries: &'m [Entry],
    slots: &'m [Slot<'m>],
}

impl<'m> Stretch<'m> {
    /// Raw time of the first.
    pub fn begin(&self) -> i64 {
        self.entries.first().map_or(i64::MIN, |entry| entry.ts)
    }

    /// Number of records before the first raw time for which `holds` is true.
    pub fn before(&self, holds: impl Fn(i64) -> bool) -> usize {
        self.entries.partition_point(|entry| !holds(entry.ts))
    }

    /// The first records, up to a number: raw times and entries.
    #[inline(always)]
    pub fn first(&self, records: usize) -> impl Iterator<Item = (i64, Entry)> + use<'m> {
        let entries = self.entries.get(..records).unwrap_or_default();
        entries.iter().map(|entry| (entry.ts, *entry))
    }

    /// What is known about a record.
    #[inline(always)]
    pub fn found(&self, entry: Entry) -> Found<'m> {
        let slot = self.slots.get(entry.slot());
        let Some((slot, cpu)) = slot.and_then(|slot| Some((slot, slot.cpu?))) else {
            return Found::Other;
        };
        let payload = slot.records().get(entry.at() + plain::HEADER..);
        match entry.sort() {
            Sort::Switch => match payload.and_then(|bytes| bytes.first_chunk()) {
                Some(begin) => Found::Switch(cpu, begin),
                None => Found::Other,
            },
            Sort::Ready => match payload.and_then(|bytes| bytes.first_chunk()) {
                Some(begin) => Found::Ready(cpu, begin),
                None => Found::Other,
            },
            Sort::Other(_) => Found::Other,
        }
    }

    /// A record.
    pub fn record(&self, entry: Entry) -> Option<Record<'m>> {
        let slot = self.slots.get(entry.slot())?;
        let (records, at) = (slot.records(), entry.at());
        let place = Place { at: (at + HEADER) as u32, ..slot.place };
        let size = match entry.sort() {
            Sort::Other(size) => size,
            Sort::Switch | Sort::Ready => Opening::at(records, at)?.size(),
        };
        let head = Head::known(records, at, size, entry.ts)?;
        Some(head.record(records, at, (slot.cpu, place)))
    }

    /// The parts of a record, if it has the header that most kernel records have.
    #[inline(always)]
    pub fn brief(&self, entry: Entry) -> Option<Brief<'m>> {
        let slot = self.slots.get(entry.slot())?;
        Brief::at(slot.records(), entry.at(), slot.cpu)
    }
}

/// A record found in time order.
pub enum Found<'m> {
    /// A switch on a CPU: the first bytes of its payload, for [`CSwitch::of_long`].
    ///
    /// [`CSwitch::of_long`]: crate::payload::switching::CSwitch::of_long
    Switch(u16, &'m [u8; CSwitch::LONG]),
    /// A wakeup on a CPU: the first bytes of its payload.
    Ready(u16, &'m [u8; ReadyThread::BYTES]),
    /// Any record.
    Other,
}

/// Reads records by (time, CPU, sequence number of the buffer, position in it).
pub struct Merge<'a> {
    scan: &'a Scan,
    chosen: &'a Chosen,
    clock: Clock,
    unpacker: Unpacker,
    cursors: Vec<Cursor>,
    slots: Vec<Slot<'a>>,
    free: Vec<u32>,
    /// Slots whose records are all in the batch.
    emptied: Vec<u32>,
    /// Earliest remaining time of each lane, and its number.
    waiting: BinaryHeap<Reverse<(i64, u32)>>,
    picked: Vec<u32>,
    /// Maximum ticks of a batch, adjusted so that batches have the target length.
    span: i64,
    batch: Batch,
    /// Bytes of packed buffers read since their pages were last released.
    unpacked: u64,
    given: usize,
    read: u64,
}

impl Scan {
    /// The chosen records in the order (time, CPU, sequence number of the buffer, position in it).
    pub fn merge<'a>(&'a self, chosen: &'a Chosen) -> Merge<'a> {
        Merge::new(self, chosen)
    }
}

impl<'a> Merge<'a> {
    fn new(scan: &'a Scan, chosen: &'a Chosen) -> Self {
        let lanes = scan.lanes.iter().enumerate();
        let waiting = lanes
            .filter_map(|(number, lane)| {
                Some(Reverse((lane.buffers.first()?.first, number as u32)))
            })
            .collect();
        Self {
            scan,
            chosen,
            clock: scan.log.clock(),
            unpacker: Unpacker::default(),
            cursors: scan.lanes.iter().map(|_| Cursor::default()).collect(),
            slots: Vec::new(),
            free: Vec::new(),
            emptied: Vec::new(),
            waiting,
            picked: Vec::new(),
            span: 1,
            batch: Batch::default(),
            unpacked: 0,
            given: 0,
            read: 0,
        }
    }

    /// Bytes of the buffers that have been read completely.
    pub fn read(&self) -> u64 {
        self.read
    }

    /// The next record; it is valid until the next call.
    pub fn next_record(&mut self) -> Option<Record<'_>> {
        self.ahead()?;
        let entry = *self.batch.entries().get(self.given)?;
        self.given += 1;
        Stretch { entries: &[], slots: &self.slots }.record(entry)
    }

    /// Some of the next records, as many as are already in order: at least one, or `None` at the
    /// end.
    #[inline(always)]
    pub fn ahead(&mut self) -> Option<Stretch<'_>> {
        while self.given >= self.batch.entries().len() {
            if !self.fill() {
                return None;
            }
        }
        let entries = self.batch.entries().get(self.given..)?;
        let entries = entries.get(..STRETCH).unwrap_or(entries);
        Some(Stretch { entries, slots: &self.slots })
    }

    /// Skips this many of the records ahead.
    pub fn pass(&mut self, records: usize) {
        self.given += records;
    }

    /// Makes the next batch, which may be empty; `false` at the end.
    #[inline(never)]
    fn fill(&mut self) -> bool {
        self.batch.clear();
        self.given = 0;
        self.release();
        let Some(Reverse((begin, first))) = self.waiting.pop() else { return false };
        let mut picked = std::mem::take(&mut self.picked);
        picked.clear();
        picked.push(first);
        let mut until = self.end_of(first).min(begin.saturating_add(self.span));
        while let Some(Reverse((ts, lane))) = self.waiting.peek().copied()
            && ts <= until
        {
            self.waiting.pop();
            until = until.min(self.end_of(lane));
            picked.push(lane);
        }
        // At equal times the order of the lanes decides, which is that of the CPUs.
        picked.sort_unstable();
        for lane in &picked {
            if let Some(ts) = self.collect(*lane, until) {
                self.waiting.push(Reverse((ts, *lane)));
            }
            self.batch.end_stream();
        }
        let wanted = LEAST_BATCH.max(picked.len() * LEAST_RUN);
        match self.batch.entries().len() {
            few if few < wanted => self.span = self.span.saturating_mul(2),
            many if many > 4 * wanted => self.span = (self.span / 2).max(1),
            _ => {}
        }
        self.picked = picked;
        self.batch.merge();
        true
    }

    fn lane(&self, lane: u32) -> &'a Lane {
        &self.scan.lanes[lane as usize]
    }

    /// Latest time in the current or next buffer of a lane.
    fn end_of(&self, lane: u32) -> i64 {
        let cursor = &self.cursors[lane as usize];
        let at = if cursor.slot.is_some() { cursor.next - 1 } else { cursor.next };
        let spot = self.lane(lane).buffers.get(at);
        let files = &self.scan.log.files;
        spot.and_then(|spot| files[usize::from(spot.file)].buffers[spot.buffer as usize].window)
            .map_or(i64::MAX, |(_, last)| last)
    }

    /// Adds the records of a lane up to a time to the batch; returns the time of its next one.
    fn collect(&mut self, lane: u32, until: i64) -> Option<i64> {
        if let Some(ahead) = self.cursors[lane as usize].ahead.take() {
            self.batch.push(ahead);
        }
        loop {
            let cursor = &mut self.cursors[lane as usize];
            let Some(number) = cursor.slot else {
                let spot = self.scan.lanes[lane as usize].buffers.get(cursor.next)?;
                if spot.first > until {
                    return Some(spot.first);
                }
                self.open(lane);
                continue;
            };
            let records = self.slots[number as usize].records();
            if !cursor.sorted.is_empty() {
                let from = cursor.sorted.partition_point(|entry| entry.ts > until);
                cursor.sorted.drain(from..).rev().for_each(|entry| self.batch.push(entry));
                if let Some(next) = cursor.sorted.last() {
                    return Some(next.ts);
                }
            }
            let (mut walk, clock, chosen) = (cursor.walk, self.clock, self.chosen);
            let places = self.batch.places(walk.most(records));
            let all = places.len();
            let mut places = places.iter_mut();
            let beyond = loop {
                let entry = if let Some((at, plain)) = walk.plain(records, &clock) {
                    match chosen.class(plain.hook()) {
                        Class::None => continue,
                        class => Entry::plain(number, at, plain, class),
                    }
                // The scan has already reported the damage.
                } else if let Some((at, head)) = walk.next(records, &clock, |_, _| {}) {
                    if !chosen.has(&head, records, at) {
                        continue;
                    }
                    Entry::new(number, at, head.ts, head.size as u16)
                } else {
                    break None;
                };
                if entry.ts > until {
                    break Some(entry);
                }
                let Some(place) = places.next() else { break None };
                *place = entry;
            };
            let filled = all - places.len();
            self.batch.filled(filled);
            if let Some(entry) = beyond {
                cursor.ahead = Some(entry);
                cursor.walk = walk;
                return Some(entry.ts);
            }
            cursor.slot = None;
            self.emptied.push(number);
        }
    }

    /// Opens the next buffer of a lane.
    fn open(&mut self, lane: u32) {
        let Some(spot) = self.lane(lane).buffers.get(self.cursors[lane as usize].next) else {
            return;
        };
        let file = &self.scan.log.files[usize::from(spot.file)];
        let buffer = &file.buffers[spot.buffer as usize];
        file.source.fetch(file.range(buffer));
        let place = Place { file: spot.file, buffer: spot.buffer, at: 0 };
        let number = self.free.pop().unwrap_or(self.slots.len() as u32);
        let mut room = match self.slots.get_mut(number as usize) {
            Some(slot) => std::mem::take(&mut slot.room),
            None => Vec::new(),
        };
        let in_file = if buffer.packed {
            file.records(buffer, &mut self.unpacker, &mut room);
            self.unpacked += u64::from(buffer.there);
            None
        } else {
            let want = (buffer.filled as usize).saturating_sub(HEADER);
            let body = file.body(buffer);
            Some(body.get(..want).unwrap_or(body))
        };
        let slot = Slot { file, place, cpu: buffer.cpu, in_file, room };
        match self.slots.get_mut(number as usize) {
            Some(old) => *old = slot,
            None => self.slots.push(slot),
        }
        let cursor = &mut self.cursors[lane as usize];
        cursor.next += 1;
        cursor.slot = Some(number);
        cursor.walk = Walk::new(&self.clock);
        if !buffer.sorted {
            let records = self.slots[number as usize].records();
            let left_out = file.left_out.get(&spot.buffer).map_or(&[][..], Vec::as_slice);
            while let Some((at, head)) = cursor.walk.next(records, &self.clock, |_, _| {}) {
                let believed = left_out.binary_search(&(at as u32)).is_err();
                if believed && self.chosen.has(&head, records, at) {
                    cursor.sorted.push(Entry::new(number, at, head.ts, head.size as u16));
                }
            }
            cursor.sorted.sort_unstable_by_key(|entry| Reverse((entry.ts, entry.at())));
        }
    }

    /// Releases the buffers whose records have been returned.
    fn release(&mut self) {
        // Packed buffers are not page-aligned, and the system maps extra pages around each. Release
        // all of them now and then.
        if self.unpacked > log::STRETCH as u64 {
            self.unpacked = 0;
            for file in &self.scan.log.files {
                file.source.let_go(0..file.source.bytes().len());
            }
        }
        for number in self.emptied.drain(..) {
            let slot = &self.slots[number as usize];
            let buffer = &slot.file.buffers[slot.place.buffer as usize];
            self.read += u64::from(buffer.there);
            if slot.in_file.is_some() {
                slot.file.source.let_go(slot.file.range(buffer));
            }
            self.free.push(number);
        }
    }
}
