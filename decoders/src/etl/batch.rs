//! A batch of records on their way into the order of time.

use super::head::Head;

/// A record that has its place in the order: time, slot, place among the records, size.
#[derive(Clone, Copy, Default)]
pub(super) struct Entry {
    pub(super) ts: i64,
    what: u64,
}

const SIZE_BITS: u32 = 16;
/// Places are multiples of 8.
const AT_BITS: u32 = 21;
const SLOT_SHIFT: u32 = SIZE_BITS + AT_BITS;

impl Entry {
    #[inline(always)]
    pub(super) fn new(slot: u32, at: usize, head: &Head) -> Self {
        let what = u64::from(slot) << SLOT_SHIFT
            | (at as u64 >> 3) << SIZE_BITS
            | u64::from(head.size as u16);
        Self { ts: head.ts, what }
    }

    /// Number of the open buffer that it lies in.
    #[inline(always)]
    pub(super) fn slot(self) -> usize {
        (self.what >> SLOT_SHIFT) as usize
    }

    /// Where it begins among that buffer's records.
    #[inline(always)]
    pub(super) fn at(self) -> usize {
        ((self.what >> SIZE_BITS) as usize & ((1 << AT_BITS) - 1)) << 3
    }

    /// Its bytes.
    #[inline(always)]
    pub(super) fn size(self) -> u16 {
        self.what as u16
    }
}

/// Records of some streams, stream by stream until they are merged. Its memory is used again and
/// again without being cleared.
#[derive(Default)]
pub(super) struct Batch {
    room: Vec<Entry>,
    len: usize,
    /// Where each stream's part ends.
    ends: Vec<usize>,
    spare: Vec<Entry>,
}

impl Batch {
    /// Empties it.
    pub(super) fn clear(&mut self) {
        self.len = 0;
        self.ends.clear();
    }

    /// The records so far.
    #[inline(always)]
    pub(super) fn entries(&self) -> &[Entry] {
        self.room.get(..self.len).unwrap_or_default()
    }

    /// The next record of a stream.
    #[inline(always)]
    pub(super) fn push(&mut self, entry: Entry) {
        match self.room.get_mut(self.len) {
            Some(place) => *place = entry,
            None => self.room.push(entry),
        }
        self.len += 1;
    }

    /// Ends the part of a stream.
    pub(super) fn end_stream(&mut self) {
        if self.ends.last() != Some(&self.len) {
            self.ends.push(self.len);
        }
    }

    /// Merges the streams, two by two until one is left. At equal times the earlier stream comes
    /// first.
    pub(super) fn merge(&mut self) {
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
        // As far as neither can run out; from both ends, since each choice waits for the one
        // before it.
        let steps = first.len().min(second.len());
        if steps == 0 {
            break;
        }
        let (front, rest) = out.split_at_mut(steps);
        let (middle, back) = rest.split_at_mut(rest.len() - steps);
        let (first_end, second_end) = (first.len() - 1, second.len() - 1);
        let (mut taken, mut taken_back) = (0, 0);
        // Which comes next is not to be foretold: it is chosen without a branch.
        for (step, (low, high)) in front.iter_mut().zip(back.iter_mut().rev()).enumerate() {
            let (left, right) = (&first[step - taken], &second[taken]);
            let later = right.ts < left.ts;
            *low = *if later { right } else { left };
            taken += usize::from(later);
            let back = step - taken_back;
            let (left, right) = (&first[first_end - back], &second[second_end - taken_back]);
            let later = right.ts < left.ts;
            *high = *if later { left } else { right };
            taken_back += usize::from(!later);
        }
        first = &first[steps - taken..first.len() - (steps - taken_back)];
        second = &second[taken..second.len() - taken_back];
        out = middle;
    }
    for (place, entry) in out.iter_mut().zip(first.iter().chain(second)) {
        *place = *entry;
    }
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

    /// Merges streams of these times twice over in one batch; both must be a stable sort.
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
        // All pairs of streams of up to three times out of three.
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
