//! All records of a recording in the order of time.
//!
//! Records are put in order by batches: up to the moment at which the first of the open buffers
//! ends, every stream gives what it has, and these runs are merged. So a batch is never longer
//! than the buffers that are open.

use std::cmp::Reverse;
use std::collections::BinaryHeap;

use super::buffer::HEADER;
use super::chosen::Chosen;
use super::clock::Clock;
use super::head::Head;
use super::lanes::Lane;
use super::log::LogFile;
use super::record::{Place, Record};
use super::scan::Scan;
use super::unpack::Unpacker;
use super::walk::Walk;

/// A record that has its place in the order: time, slot, place among the records, head.
#[derive(Clone, Copy)]
struct Entry {
    ts: i64,
    what: u64,
}

const SIZE_BITS: u32 = 16;
const FORM_BITS: u32 = 5;
/// Places are multiples of 8.
const AT_BITS: u32 = 21;
const AT_SHIFT: u32 = SIZE_BITS + FORM_BITS;
const SLOT_SHIFT: u32 = AT_SHIFT + AT_BITS;

impl Entry {
    #[inline(always)]
    fn new(slot: u32, at: usize, head: &Head) -> Self {
        let (form, size) = head.form_and_size();
        let what = u64::from(slot) << SLOT_SHIFT
            | (at as u64 >> 3) << AT_SHIFT
            | u64::from(form) << SIZE_BITS
            | u64::from(size);
        Self { ts: head.ts, what }
    }

    #[inline(always)]
    fn slot(self) -> usize {
        (self.what >> SLOT_SHIFT) as usize
    }

    #[inline(always)]
    fn at(self) -> usize {
        ((self.what >> AT_SHIFT) as usize & ((1 << AT_BITS) - 1)) << 3
    }

    #[inline(always)]
    fn head(self) -> Head {
        let form = (self.what >> SIZE_BITS) as u8 & ((1 << FORM_BITS) - 1);
        Head::of(form, self.what as u16, self.ts)
    }
}

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

/// Merges sorted runs, whose ends are given, two by two until one is left. At equal times the
/// earlier run comes first.
fn merge_runs(batch: &mut Vec<Entry>, spare: &mut Vec<Entry>, ends: &mut Vec<usize>) {
    ends.dedup();
    while ends.len() > 1 {
        spare.resize(batch.len(), Entry { ts: 0, what: 0 });
        let mut from = 0;
        let mut kept = 0;
        for pair in 0..ends.len().div_ceil(2) {
            let middle = ends[2 * pair];
            let end = ends.get(2 * pair + 1).copied().unwrap_or(middle);
            merge_two(&batch[from..middle], &batch[middle..end], &mut spare[from..end]);
            from = end;
            ends[kept] = end;
            kept += 1;
        }
        ends.truncate(kept);
        std::mem::swap(batch, spare);
    }
}

/// Merges two sorted runs into `out`, which is as long as both.
fn merge_two(first: &[Entry], second: &[Entry], out: &mut [Entry]) {
    let (mut a, mut b) = (0, 0);
    let mut places = out.iter_mut();
    // Which of them comes first is not to be foretold, so it is chosen without a branch.
    while a < first.len() && b < second.len() {
        let (left, right) = (first[a], second[b]);
        let later = right.ts < left.ts;
        let Some(place) = places.next() else { return };
        place.ts = if later { right.ts } else { left.ts };
        place.what = if later { right.what } else { left.what };
        a += usize::from(!later);
        b += usize::from(later);
    }
    for (place, entry) in places.zip(first[a..].iter().chain(&second[b..])) {
        *place = *entry;
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
    batch: Vec<Entry>,
    /// Where each lane's part of the batch ends.
    runs: Vec<usize>,
    spare: Vec<Entry>,
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
            batch: Vec::new(),
            runs: Vec::new(),
            spare: Vec::new(),
            given: 0,
            read: 0,
        }
    }

    /// Bytes of the buffers that have been read whole.
    pub fn read(&self) -> u64 {
        self.read
    }

    /// The next record; it can be used until the one after it is asked for.
    #[inline(always)]
    pub fn next_record(&mut self) -> Option<Record<'_>> {
        self.advance()?;
        self.record()
    }

    /// Goes to the next record; its raw time, or `None` at the end.
    #[inline(always)]
    pub(super) fn advance(&mut self) -> Option<i64> {
        while self.given >= self.batch.len() {
            if !self.fill() {
                return None;
            }
        }
        let entry = self.batch[self.given];
        self.given += 1;
        Some(entry.ts)
    }

    /// The record gone to.
    #[inline(always)]
    pub(super) fn record(&self) -> Option<Record<'_>> {
        let (entry, slot, place) = self.here()?;
        Some(entry.head().record(slot.records(), entry.at(), (slot.cpu, place)))
    }

    /// The record gone to and its hook, if it has the header that most kernel records have.
    #[inline(always)]
    pub(super) fn perfinfo(&self) -> Option<(u16, Record<'_>)> {
        let (entry, slot, place) = self.here()?;
        entry.head().perfinfo(slot.records(), entry.at(), (slot.cpu, place))
    }

    #[inline(always)]
    fn here(&self) -> Option<(Entry, &Slot<'a>, Place)> {
        let entry = *self.batch.get(self.given.checked_sub(1)?)?;
        let slot = &self.slots[entry.slot()];
        Some((entry, slot, Place { at: (entry.at() + HEADER) as u32, ..slot.place }))
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
        self.runs.clear();
        for lane in &picked {
            if let Some(ts) = self.collect(*lane, until) {
                self.waiting.push(Reverse((ts, *lane)));
            }
            self.runs.push(self.batch.len());
        }
        self.picked = picked;
        merge_runs(&mut self.batch, &mut self.spare, &mut self.runs);
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
                self.batch.extend(cursor.sorted.drain(from..).rev());
                if let Some(next) = cursor.sorted.last() {
                    return Some(next.ts);
                }
            }
            // What is damaged has been told by the scan.
            while let Some((at, head)) = cursor.walk.next(records, &self.clock, |_, _| {}) {
                if self.chosen.has(&head, records, at) {
                    let entry = Entry::new(number, at, &head);
                    if head.ts > until {
                        cursor.ahead = Some(entry);
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
