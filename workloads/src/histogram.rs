//! Durations, counted in buckets whose width grows with the duration.

/// Buckets per power of two: a bucket's width is at most 1/64 of the durations in it.
const PARTS: u64 = 64;
const PART_BITS: u32 = PARTS.trailing_zeros();
/// Up to `PARTS` ns, each value has its own bucket; above, there are `PARTS` per power of two.
const BUCKETS: usize = ((64 - PART_BITS as usize) + 1) * PARTS as usize;

/// The number of durations in each bucket.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Histogram {
    counts: Vec<u64>,
}

impl Histogram {
    /// Empty, with its memory already allocated.
    pub fn new() -> Histogram {
        let mut counts = vec![1; BUCKETS];
        counts.fill(0);
        Histogram { counts }
    }

    /// Counts a duration; ignores negative ones.
    pub fn add(&mut self, ns: i64) {
        self.counts[bucket(ns.max(0) as u64)] += 1;
    }

    /// Clears all counts.
    pub fn clear(&mut self) {
        self.counts.fill(0);
    }

    /// The number of counted durations.
    pub fn total(&self) -> u64 {
        self.counts.iter().sum()
    }

    /// The longest duration and the count of each bucket that is not empty.
    pub fn buckets(&self) -> impl Iterator<Item = (u64, u64)> {
        let filled = self.counts.iter().enumerate().filter(|(_, count)| **count > 0);
        filled.map(|(index, count)| (upper_ns(index), *count))
    }
}

fn bucket(ns: u64) -> usize {
    let Some(power) = ns.checked_ilog2().filter(|power| *power >= PART_BITS) else {
        return ns as usize;
    };
    let shift = power - PART_BITS;
    ((u64::from(shift) + 1) * PARTS + ((ns >> shift) - PARTS)) as usize
}

fn upper_ns(index: usize) -> u64 {
    let (row, part) = (index as u64 / PARTS, index as u64 % PARTS);
    match row.checked_sub(1) {
        None => part,
        Some(shift) => (((u128::from(PARTS + part) + 1) << shift) - 1) as u64,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_bucket_holds_what_it_says_and_is_narrow() {
        for ns in [0, 1, 63, 64, 65, 127, 128, 129, 1_000, 54_321, 1 << 40, u64::MAX / 3, u64::MAX]
        {
            let index = bucket(ns);
            let upper = upper_ns(index);
            assert!(ns <= upper && upper - ns <= ns / PARTS, "{ns}: {upper}");
            assert_eq!(bucket(upper), index);
            if upper < u64::MAX {
                assert_eq!(bucket(upper + 1), index + 1);
            }
        }
        assert_eq!(bucket(u64::MAX), BUCKETS - 1);
    }

    #[test]
    fn every_length_is_counted_once() {
        let mut histogram = Histogram::new();
        for ns in [-5, 0, 70, 71, 1_000_000, 1_000_000] {
            histogram.add(ns);
        }
        let found: Vec<(u64, u64)> = histogram.buckets().collect();
        assert_eq!(found, [(0, 2), (70, 1), (71, 1), (1_007_615, 2)]);
        assert_eq!(histogram.total(), 6);
        histogram.clear();
        assert_eq!(histogram.total(), 0);
    }
}
