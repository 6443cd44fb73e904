//! All records of a recording in the order of time.

use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::collections::binary_heap::PeekMut;

use super::buffer::HEADER;
use super::chosen::Chosen;
use super::clock::Clock;
use super::lanes::Lane;
use super::record::{Head, Place, Record};
use super::scan::Scan;
use super::unpack::Unpacker;
use super::walk::{Step, Walk};

/// The records of a buffer: in the file, or unpacked.
enum Records<'a> {
    InFile(&'a [u8]),
    Unpacked,
}

/// Where the reading of a lane stands.
struct Cursor<'a> {
    lane: &'a Lane,
    /// The next of the lane's buffers.
    next: usize,
    records: Records<'a>,
    room: Vec<u8>,
    walk: Walk,
    /// Heads of a buffer that is not in order, last one first.
    sorted: Vec<(i64, usize, Head)>,
    place: Place,
    /// The next record.
    at: usize,
    head: Head,
    ts: i64,
    /// Whether that record has not been given yet.
    waits: bool,
}

impl<'a> Cursor<'a> {
    #[inline(always)]
    fn bytes(&self) -> &[u8] {
        match self.records {
            Records::InFile(records) => records,
            Records::Unpacked => &self.room,
        }
    }

    /// Stops at the next record of this buffer or the next; `false` if there is none.
    #[inline(always)]
    fn step(&mut self, merge: &mut Shared<'a>) -> bool {
        loop {
            if !self.sorted.is_empty() {
                return self.step_sorted();
            }
            let records = match self.records {
                Records::InFile(records) => records,
                Records::Unpacked => self.room.as_slice(),
            };
            match self.walk.next(records, &merge.clock) {
                Some(Step::Record { at, head, ts }) => {
                    if !merge.chosen.has(&head, records, at) {
                        continue;
                    }
                    (self.at, self.head, self.ts) = (at, head, ts);
                    return true;
                }
                Some(Step::Damage { .. }) => {}
                None => {
                    if !self.open(merge) {
                        return false;
                    }
                }
            }
        }
    }

    #[inline(never)]
    fn step_sorted(&mut self) -> bool {
        let Some((ts, at, head)) = self.sorted.pop() else { return false };
        (self.at, self.head, self.ts) = (at, head, ts);
        true
    }

    /// Goes on with the lane's next buffer.
    #[inline(never)]
    fn open(&mut self, merge: &mut Shared<'a>) -> bool {
        let files = &merge.scan.log.files;
        if let Some(before) = self.next.checked_sub(1).and_then(|at| self.lane.buffers.get(at)) {
            let file = &files[usize::from(before.file)];
            let buffer = &file.buffers[before.buffer as usize];
            merge.read += u64::from(buffer.there);
            file.source.let_go(file.range(buffer));
        }
        let Some(spot) = self.lane.buffers.get(self.next) else {
            self.records = Records::InFile(&[]);
            self.room = Vec::new();
            return false;
        };
        self.next += 1;
        let file = &files[usize::from(spot.file)];
        let buffer = &file.buffers[spot.buffer as usize];
        file.source.fetch(file.range(buffer));
        self.place = Place { file: spot.file, buffer: spot.buffer, at: 0 };
        self.walk = Walk::default();
        if buffer.packed {
            file.records(buffer, &mut merge.unpacker, &mut self.room);
            self.records = Records::Unpacked;
        } else {
            let want = (buffer.filled as usize).saturating_sub(HEADER);
            let body = file.body(buffer);
            self.records = Records::InFile(body.get(..want).unwrap_or(body));
        }
        if !buffer.sorted {
            self.sort(merge);
        }
        true
    }

    fn sort(&mut self, merge: &Shared<'_>) {
        let mut walk = Walk::default();
        let mut sorted = std::mem::take(&mut self.sorted);
        let records = self.bytes();
        while let Some(step) = walk.next(records, &merge.clock) {
            if let Step::Record { at, head, ts } = step
                && merge.chosen.has(&head, records, at)
            {
                sorted.push((ts, at, head));
            }
        }
        sorted.sort_unstable_by_key(|(ts, at, _)| Reverse((*ts, *at)));
        self.sorted = sorted;
        self.walk = walk;
    }
}

/// What all cursors use.
struct Shared<'a> {
    scan: &'a Scan,
    chosen: &'a Chosen,
    clock: Clock,
    unpacker: Unpacker,
    /// Bytes of the buffers that have been read.
    read: u64,
}

/// Reads records by (time, CPU, sequence of the buffer, place in it).
pub struct Merge<'a> {
    shared: Shared<'a>,
    cursors: Vec<Cursor<'a>>,
    /// Time and number of the lanes that are not read now.
    waiting: BinaryHeap<Reverse<(i64, usize)>>,
    /// The first of them; beyond all times if there is none.
    limit: (i64, usize),
    current: Option<usize>,
}

const BEYOND: (i64, usize) = (i64::MAX, usize::MAX);

impl<'a> Merge<'a> {
    pub(super) fn new(scan: &'a Scan, chosen: &'a Chosen) -> Self {
        let clock = scan.log.clock();
        let shared = Shared { scan, chosen, clock, unpacker: Unpacker::default(), read: 0 };
        let mut waiting = BinaryHeap::new();
        let mut cursors = Vec::new();
        for (number, lane) in scan.lanes.iter().enumerate() {
            // A lane is opened when its time comes: until then it takes no memory.
            let first = lane.buffers.first().map_or(i64::MAX, |spot| spot.first);
            waiting.push(Reverse((first, number)));
            cursors.push(Cursor {
                lane,
                next: 0,
                records: Records::InFile(&[]),
                room: Vec::new(),
                walk: Walk::default(),
                sorted: Vec::new(),
                place: Place { file: 0, buffer: 0, at: 0 },
                at: 0,
                head: Head::EMPTY,
                ts: i64::MIN,
                waits: false,
            });
        }
        Self { shared, cursors, waiting, limit: BEYOND, current: None }
    }

    /// Bytes of the buffers that have been read whole.
    pub fn read(&self) -> u64 {
        self.shared.read
    }

    fn look_ahead(&mut self) {
        self.limit = self.waiting.peek().map_or(BEYOND, |Reverse(first)| *first);
    }

    /// The next record; it can be used until the one after it is asked for.
    #[inline(always)]
    pub fn next_record(&mut self) -> Option<Record<'_>> {
        loop {
            let Some(lane) = self.current else {
                if !self.take_first() {
                    return None;
                }
                continue;
            };
            let cursor = &mut self.cursors[lane];
            if !cursor.waits {
                if !cursor.step(&mut self.shared) {
                    self.current = None;
                    continue;
                }
                cursor.waits = true;
            }
            let here = (cursor.ts, lane);
            if here > self.limit {
                self.change(here);
                continue;
            }
            cursor.waits = false;
            break;
        }
        let cursor = self.current.map(|lane| &self.cursors[lane])?;
        let place = Place { at: (cursor.at + HEADER) as u32, ..cursor.place };
        Some(cursor.head.record(cursor.bytes(), cursor.at, (cursor.lane.cpu, cursor.ts, place)))
    }

    /// Goes on with another lane; the one read so far stands at `here`.
    #[inline(never)]
    fn change(&mut self, here: (i64, usize)) {
        if let Some(mut first) = self.waiting.peek_mut() {
            self.current = Some(first.0.1);
            *first = Reverse(here);
        }
        self.look_ahead();
    }

    #[inline(never)]
    fn take_first(&mut self) -> bool {
        let Some(first) = self.waiting.peek_mut() else { return false };
        self.current = Some(PeekMut::pop(first).0.1);
        self.look_ahead();
        true
    }
}
