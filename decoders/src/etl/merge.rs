//! All records of a recording in the order of time.
//!
//! Records are put in order by batches: up to the moment at which the first of the open buffers
//! ends, every stream gives what it has, and these runs are merged. So a batch is never longer
//! than the buffers that are open.

use std::cmp::Reverse;
use std::collections::BinaryHeap;

use super::batch::{Batch, Entry};
use super::buffer::HEADER;
use super::chosen::Chosen;
use super::clock::Clock;
use super::head::{Brief, Head};
use super::lanes::Lane;
use super::log::LogFile;
use super::record::{Place, Record};
use super::scan::Scan;
use super::unpack::Unpacker;
use super::walk::Walk;

/// An open buffer.
struct Slot<'a> {
    file: &'a LogFile,
    place: Place,
    cpu: Option<u16>,
    /// Its records in the file; else they are in `room`.
    in_file: Option<&'a [u8]>,
    room: Vec<u8>,
}

impl Slot<'_> {
    #[inline(always)]
    fn records(&self) -> &[u8] {
        self.in_file.unwrap_or(&self.room)
    }
}

/// Where the reading of a lane stands.
#[derive(Default)]
struct Cursor {
    /// The next of the lane's buffers.
    next: usize,
    /// The open buffer.
    slot: Option<u32>,
    walk: Walk,
    /// A record that has been read but lies beyond the batch.
    ahead: Option<Entry>,
    /// Records of a buffer that is not in order, the last one first.
    sorted: Vec<Entry>,
}

/// Records of a [`Stretch`], at most.
const STRETCH: usize = 1 << 12;

/// Records that follow each other in the order of time.
pub(super) struct Stretch<'m> {
    entries: &'m [Entry],
    slots: &'m [Slot<'m>],
}

impl<'m> Stretch<'m> {
    /// Raw times.
    #[inline(always)]
    pub(super) fn times(&self) -> impl Iterator<Item = i64> {
        self.entries.iter().map(|entry| entry.ts)
    }

    /// A record.
    #[inline(always)]
    pub(super) fn record(&self, number: usize) -> Option<Record<'m>> {
        let entry = self.entries.get(number)?;
        let slot = self.slots.get(entry.slot())?;
        let place = Place { at: (entry.at() + HEADER) as u32, ..slot.place };
        let head = Head::known(slot.records(), entry.at(), entry.size(), entry.ts)?;
        Some(head.record(slot.records(), entry.at(), (slot.cpu, place)))
    }

    /// The parts of a record, if it has the header that most kernel records have.
    #[inline(always)]
    pub(super) fn brief(&self, number: usize) -> Option<Brief<'m>> {
        let entry = self.entries.get(number)?;
        let slot = self.slots.get(entry.slot())?;
        Brief::of(slot.records().get(entry.at()..)?, entry.size(), slot.cpu)
    }
}

/// Reads records by (time, CPU, sequence of the buffer, place in it).
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
    /// Earliest time that each lane may still have, and its number.
    waiting: BinaryHeap<Reverse<(i64, u32)>>,
    picked: Vec<u32>,
    batch: Batch,
    given: usize,
    read: u64,
}

impl<'a> Merge<'a> {
    pub(super) fn new(scan: &'a Scan, chosen: &'a Chosen) -> Self {
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
            batch: Batch::default(),
            given: 0,
            read: 0,
        }
    }

    /// Bytes of the buffers that have been read whole.
    pub fn read(&self) -> u64 {
        self.read
    }

    /// The next record; it can be used until the one after it is asked for.
    pub fn next_record(&mut self) -> Option<Record<'_>> {
        self.ahead()?;
        self.given += 1;
        Stretch { entries: self.batch.entries(), slots: &self.slots }.record(self.given - 1)
    }

    /// Some of the next records, as many as are already in order: at least one, or `None` at the
    /// end.
    #[inline(always)]
    pub(super) fn ahead(&mut self) -> Option<Stretch<'_>> {
        while self.given >= self.batch.entries().len() {
            if !self.fill() {
                return None;
            }
        }
        let entries = self.batch.entries().get(self.given..)?;
        let entries = entries.get(..STRETCH).unwrap_or(entries);
        Some(Stretch { entries, slots: &self.slots })
    }

    /// Passes over so many of the records ahead.
    pub(super) fn pass(&mut self, records: usize) {
        self.given += records;
    }

    /// Makes the next batch, which may be empty; `false` at the end.
    #[inline(never)]
    fn fill(&mut self) -> bool {
        self.batch.clear();
        self.given = 0;
        self.release();
        let Some(Reverse((_, first))) = self.waiting.pop() else { return false };
        let mut picked = std::mem::take(&mut self.picked);
        picked.clear();
        picked.push(first);
        let mut until = self.end_of(first);
        while let Some(Reverse((ts, lane))) = self.waiting.peek().copied()
            && ts <= until
        {
            self.waiting.pop();
            until = until.min(self.end_of(lane));
            picked.push(lane);
        }
        // At equal times the order of the lanes counts, which is that of the CPUs.
        picked.sort_unstable();
        for lane in &picked {
            if let Some(ts) = self.collect(*lane, until) {
                self.waiting.push(Reverse((ts, *lane)));
            }
            self.batch.end_stream();
        }
        self.picked = picked;
        self.batch.merge();
        true
    }

    fn lane(&self, lane: u32) -> &'a Lane {
        &self.scan.lanes[lane as usize]
    }

    /// Latest time in the buffer that a lane stands in or before.
    fn end_of(&self, lane: u32) -> i64 {
        let cursor = &self.cursors[lane as usize];
        let at = if cursor.slot.is_some() { cursor.next - 1 } else { cursor.next };
        let spot = self.lane(lane).buffers.get(at);
        let files = &self.scan.log.files;
        spot.and_then(|spot| files[usize::from(spot.file)].buffers[spot.buffer as usize].window)
            .map_or(i64::MAX, |(_, last)| last)
    }

    /// Puts the records of a lane up to a time into the batch; the time from which on it has more.
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
            let (mut walk, clock) = (cursor.walk, self.clock);
            // What is damaged has been told by the scan.
            while let Some((at, head)) = walk.next(records, &clock, |_, _| {}) {
                if self.chosen.has(&head, records, at) {
                    let entry = Entry::new(number, at, &head);
                    if head.ts > until {
                        cursor.ahead = Some(entry);
                        cursor.walk = walk;
                        return Some(head.ts);
                    }
                    self.batch.push(entry);
                }
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
            file.source.let_go(file.range(buffer));
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
            while let Some((at, head)) = cursor.walk.next(records, &self.clock, |_, _| {}) {
                if self.chosen.has(&head, records, at) {
                    cursor.sorted.push(Entry::new(number, at, &head));
                }
            }
            cursor.sorted.sort_unstable_by_key(|entry| Reverse((entry.ts, entry.at())));
        }
    }

    /// Lets go of the buffers whose records have been given.
    fn release(&mut self) {
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
