//! A batch of records that are being put in time order.

use crate::passes::chosen::Class;
use crate::payload::switching::{CSwitch, ReadyThread};
use crate::records::plain::{HEADER, Opening};

/// A record's sort key: time, slot, position among the records, sort.
#[derive(Clone, Copy, Default)]
pub struct Entry {
    pub(crate) ts: i64,
    what: u64,
}

/// What is known about a record besides its time and position.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Sort {
    /// A plain switch record, with all that [`CSwitch::of_long`] reads.
    Switch,
    /// A plain wakeup record, with all that [`ReadyThread::of`] reads.
    Ready,
    /// Any other record; its size in bytes.
    Other(u16),
}

/// The lower 16 bits of an entry. No record is as short as these values.
const SWITCH: u16 = 0;
const READY: u16 = 1;
const SORT_BITS: u32 = 16;
/// Positions are multiples of 8.
const AT_BITS: u32 = 21;
const SLOT_SHIFT: u32 = SORT_BITS + AT_BITS;

impl Entry {
    /// An entry for any record.
    #[inline(always)]
    pub(crate) fn new(slot: u32, at: usize, ts: i64, size: u16) -> Self {
        Self {
            ts,
            what: u64::from(slot) << SLOT_SHIFT | (at as u64 >> 3) << SORT_BITS | u64::from(size),
        }
    }

    /// An entry for a plain record.
    #[inline(always)]
    pub(crate) fn plain(slot: u32, at: usize, opening: Opening, class: Class) -> Self {
        let size = opening.size();
        let sort = match class {
            Class::Switch if CSwitch::is_long(opening.version(), usize::from(size) - HEADER) => {
                SWITCH
            }
            Class::Ready if usize::from(size) >= HEADER + ReadyThread::BYTES => READY,
            _ => size,
        };
        Self::new(slot, at, opening.ts, sort)
    }

    /// Number of the open buffer that contains it.
    #[inline(always)]
    pub(crate) fn slot(self) -> usize {
        (self.what >> SLOT_SHIFT) as usize
    }

    /// Its position among that buffer's records.
    #[inline(always)]
    pub(crate) fn at(self) -> usize {
        ((self.what >> SORT_BITS) as usize & ((1 << AT_BITS) - 1)) << 3
    }

    /// What is known about it.
    #[inline(always)]
    pub(crate) fn sort(self) -> Sort {
        match self.what as u16 {
            SWITCH => Sort::Switch,
            READY => Sort::Ready,
            size => Sort::Other(size),
        }
    }
}

/// Records of several streams, one stream after another until they are merged. Its memory is reused
/// without being cleared.
#[derive(Default)]
pub(crate) struct Batch {
    room: Vec<Entry>,
    len: usize,
    /// End of each stream's part.
    ends: Vec<usize>,
    spare: Vec<Entry>,
}

impl Batch {
    /// Removes all records.
    pub(crate) fn clear(&mut self) {
        self.len = 0;
        self.ends.clear();
    }

    /// The records so far.
    #[inline(always)]
    pub(crate) fn entries(&self) -> &[Entry] {
        self.room.get(..self.len).unwrap_or_default()
    }

    /// The next record of a stream.
    #[inline(always)]
    pub(crate) fn push(&mut self, entry: Entry) {
        match self.room.get_mut(self.len) {
            Some(place) => *place = entry,
            None => self.room.push(entry),
        }
        self.len += 1;
    }

    /// Room for this many more records of a stream; [`Batch::filled`] sets how many were added.
    pub(crate) fn places(&mut self, records: usize) -> &mut [Entry] {
        if self.room.len() - self.len < records {
            self.room.resize(self.len + records, Entry::default());
        }
        &mut self.room[self.len..]
    }

    /// Sets how many of the positions were filled.
    pub(crate) fn filled(&mut self, records: usize) {
        self.len += records;
    }

    /// Ends the part of a stream.
    pub(crate) fn end_stream(&mut self) {
        if self.ends.last() != Some(&self.len) {
            self.ends.push(self.len);
        }
    }

    /// Merges the streams pairwise until one is left. At equal times the earlier stream comes
    /// first.
    pub(crate) fn merge(&mut self) {
        let Self { room, spare, ends, .. } = self;
        if ends.len() > 1 && spare.len() < self.len {
            spare.resize(room.len(), Entry::default());
        }
        while ends.len() > 1 {
            let mut from = 0;
            let mut kept = 0;
            for pair in 0..ends.len().div_ceil(2) {
                let middle = ends[2 * pair];
                let end = ends.get(2 * pair + 1).copied().unwrap_or(middle);
                merge_two(&room[from..middle], &room[middle..end], &mut spare[from..end]);
                from = end;
                ends[kept] = end;
                kept += 1;
            }
            ends.truncate(kept);
            std::mem::swap(room, spare);
        }
    }
}

/// Merges two sorted runs into `out`, which is as long as both.
#[inline(never)]
fn merge_two(mut first: &[Entry], mut second: &[Entry], mut out: &mut [Entry]) {
    loop {
        // As long as neither can run out; from both ends, because each choice depends on the one
        // before it.
        let steps = first.len().min(second.len());
        if steps == 0 {
            break;
        }
        let (taken, taken_back) = merge_ends(first, second, out, steps);
        first = &first[steps - taken..first.len() - (steps - taken_back)];
        second = &second[taken..second.len() - taken_back];
        let end = out.len() - steps;
        out = &mut out[steps..end];
    }
    for (place, entry) in out.iter_mut().zip(first.iter().chain(second)) {
        *place = *entry;
    }
}

/// Writes the `steps` earliest and the `steps` latest entries of two sorted runs that both have at
/// least this length; returns how many of each came from the second run.
#[inline(always)]
fn merge_ends(
    first: &[Entry],
    second: &[Entry],
    out: &mut [Entry],
    steps: usize,
) -> (usize, usize) {
    assert!(steps <= first.len() && steps <= second.len() && 2 * steps <= out.len());
    let (taken, taken_back);
    // SAFETY: each step takes one entry from the front of one run and one from the back of one run.
    // Before each step, fewer than `steps` have been taken from either end of either run, and both
    // are at least that long, so every read is within its slice. `out` has room for all.
    unsafe {
        let (mut low, mut high) = (out.as_mut_ptr(), out.as_mut_ptr().add(out.len()));
        let (mut left, mut right) = (first.as_ptr(), second.as_ptr());
        let (mut left_end, mut right_end) = (left.add(first.len()), right.add(second.len()));
        for _ in 0..steps {
            // The branch would be unpredictable, so the choice is made without one.
            let later = (*right).ts < (*left).ts;
            *low = *if later { right } else { left };
            low = low.add(1);
            right = right.add(usize::from(later));
            left = left.add(usize::from(!later));
            let (left_last, right_last) = (left_end.sub(1), right_end.sub(1));
            let later = (*right_last).ts < (*left_last).ts;
            high = high.sub(1);
            *high = *if later { left_last } else { right_last };
            left_end = left_end.sub(usize::from(later));
            right_end = right_end.sub(usize::from(!later));
        }
        taken = right.offset_from_unsigned(second.as_ptr());
        taken_back = second.as_ptr().add(second.len()).offset_from_unsigned(right_end);
    }
    (taken, taken_back)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Entries with these times; `what` numbers them.
    fn run(from: u64, times: &[i64]) -> Vec<Entry> {
        let numbered = (from..).zip(times);
        numbered.map(|(what, ts)| Entry { ts: *ts, what }).collect()
    }

    fn plain(entries: &[Entry]) -> Vec<(i64, u64)> {
        entries.iter().map(|entry| (entry.ts, entry.what)).collect()
    }

    /// Merges streams of these times twice in one batch; both must be a stable sort.
    fn check(streams: &[Vec<i64>]) {
        let mut batch = Batch::default();
        for _ in 0..2 {
            batch.clear();
            let mut all = Vec::new();
            for times in streams {
                let entries = run(all.len() as u64, times);
                entries.iter().for_each(|entry| batch.push(*entry));
                batch.end_stream();
                all.extend(entries);
            }
            batch.merge();
            all.sort_by_key(|entry| entry.ts);
            assert_eq!(plain(batch.entries()), plain(&all), "{streams:?}");
        }
    }

    #[test]
    fn streams_are_merged_and_at_equal_times_keep_their_order() {
        check(&[]);
        check(&[vec![]]);
        check(&[vec![1, 2], vec![], vec![1, 1, 2, 9], vec![0]]);
        check(&[vec![5, 6, 7], vec![1]]);
        check(&[vec![1], vec![1, 1, 1, 1], vec![1, 1]]);
        // All pairs of streams with up to three times out of three.
        let some: Vec<Vec<i64>> = (0..64)
            .map(|code: i64| {
                let mut times: Vec<i64> =
                    [code & 3, code >> 2 & 3, code >> 4].into_iter().filter(|t| *t < 3).collect();
                times.sort_unstable();
                times
            })
            .collect();
        for first in &some {
            for second in &some {
                check(&[first.clone(), second.clone()]);
            }
        }
    }

    #[test]
    fn many_long_streams_are_merged() {
        for streams in 1..20_usize {
            let of = |stream: usize| -> Vec<i64> {
                (0..97 * stream as i64 % 250).map(|n| n * (stream as i64 % 5) / 3).collect()
            };
            check(&(0..streams).map(of).collect::<Vec<_>>());
        }
    }
}
