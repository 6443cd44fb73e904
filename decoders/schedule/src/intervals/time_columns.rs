//! The time of each lane of a timeline and of each state on it, in columns of several widths.
//!
//! A column's time is split between the states to the ns: a part that crosses the edge of a column
//! counts in both, and one that fills several columns is one row for all of them. Where a recording
//! has no columns, `split_sql` in `timeline/columns.py` does the same for a range.

use std::collections::{HashMap, VecDeque};
use std::hash::BuildHasherDefault;
use std::sync::Arc;

use arrow_array::{ArrayRef, Int64Array, RecordBatch};

use super::input::{Batches, IntervalError, PartRow, Row};
use super::threads::UtidHasher;

/// Sums of one width that are kept until they are passed on. A later part of the same column has a
/// row of its own then, so rows of one column are to be added up.
const MOST: usize = if cfg!(test) { 64 } else { 1 << 21 };
/// Rows of a batch: the size of a DuckDB row group.
const BATCH: usize = 122_880;

/// What one state of one lane takes of a column, or of several that it fills.
#[derive(Clone, Copy, Debug)]
struct Sum {
    first: i64,
    columns: i64,
    ns: i64,
    begins: i64,
}

impl Sum {
    /// Together with another sum of the same columns.
    fn plus(self, other: Self) -> Self {
        Self { ns: self.ns.saturating_add(other.ns), begins: self.begins + other.begins, ..self }
    }
}

/// The sums of one width, for each state of each lane.
#[derive(Debug)]
struct Level {
    /// The width is 2 to this power.
    shift: u32,
    sums: Vec<Vec<Sum>>,
    number: usize,
}

impl Level {
    fn of(width_ns: i64) -> Result<Self, IntervalError> {
        match width_ns {
            1.. if width_ns.count_ones() == 1 => {
                Ok(Self { shift: width_ns.trailing_zeros(), sums: Vec::new(), number: 0 })
            }
            _ => Err(IntervalError::Width(width_ns)),
        }
    }

    /// Adds a sum to the last one if that is of the same columns.
    #[inline]
    fn push(&mut self, state: usize, sum: Sum) {
        if self.sums.len() <= state {
            self.sums.resize_with(state + 1, Vec::new);
        }
        let sums = &mut self.sums[state];
        match sums.last_mut() {
            Some(last) if (last.first, last.columns) == (sum.first, sum.columns) => {
                *last = last.plus(sum);
            }
            _ => {
                sums.push(sum);
                self.number += 1;
            }
        }
    }

    /// Splits a part from `begin` to `end`, from the start of the recording, at the columns.
    #[inline]
    fn add(&mut self, state: usize, begin: i64, end: i64, begins: i64) {
        let (width, first, last) = (1 << self.shift, begin >> self.shift, (end - 1) >> self.shift);
        if first == last {
            self.push(state, Sum { first, columns: 1, ns: end - begin, begins });
            return;
        }
        let ns = (first + 1) * width - begin;
        self.push(state, Sum { first, columns: 1, ns, begins });
        let columns = last - first - 1;
        if columns > 0 {
            let ns = columns * width;
            self.push(state, Sum { first: first + 1, columns, ns, begins: 0 });
        }
        self.push(state, Sum { first: last, columns: 1, ns: end - last * width, begins: 0 });
    }

    /// Takes all sums, by state in the order of their columns.
    fn take(&mut self) -> Vec<Vec<Sum>> {
        self.number = 0;
        let mut taken = std::mem::take(&mut self.sums);
        for sums in &mut taken {
            sums.sort_by_key(|sum| (sum.first, sum.columns));
            sums.dedup_by(|next, kept| {
                let same = (kept.first, kept.columns) == (next.first, next.columns);
                if same {
                    *kept = kept.plus(*next);
                }
                same
            });
        }
        taken
    }
}

/// Sums up the parts of lanes, and returns rows of each width.
pub struct TimeColumns {
    parts: Batches,
    start_ns: i64,
    /// Lane and key of each state, and their places.
    states: Vec<(i64, i64)>,
    places: HashMap<(i64, i64), usize, BuildHasherDefault<UtidHasher>>,
    levels: Vec<Level>,
    rows: Vec<PartRow>,
    finished: VecDeque<RecordBatch>,
    ended: bool,
}

impl TimeColumns {
    /// Columns of these widths from `start_ns` on. Each is a power of two, and a multiple of the one
    /// before it. Parts may come in any order; those in time order need the least memory.
    ///
    /// # Errors
    /// A width is not as described.
    pub fn new(parts: Batches, start_ns: i64, widths: &[i64]) -> Result<Self, IntervalError> {
        if let Some(pair) = widths.windows(2).find(|pair| pair[0] >= pair[1]) {
            return Err(IntervalError::Width(pair[1]));
        }
        Ok(Self {
            parts,
            start_ns,
            states: Vec::new(),
            places: HashMap::default(),
            levels: widths.iter().map(|&width| Level::of(width)).collect::<Result<_, _>>()?,
            rows: Vec::new(),
            finished: VecDeque::new(),
            ended: false,
        })
    }

    fn next_batch(&mut self) -> Result<Option<RecordBatch>, IntervalError> {
        loop {
            if let Some(batch) = self.finished.pop_front() {
                return Ok(Some(batch));
            }
            if self.ended {
                return Ok(None);
            }
            if let Some(batch) = self.parts.next() {
                self.take_parts(&batch?)?;
            } else {
                self.ended = true;
                for level in 0..self.levels.len() {
                    self.pass_on(level)?;
                }
            }
        }
    }

    fn take_parts(&mut self, batch: &RecordBatch) -> Result<(), IntervalError> {
        let mut rows = std::mem::take(&mut self.rows);
        rows.clear();
        PartRow::read(batch, &mut rows)?;
        let mut before = ((0, 0), usize::MAX);
        for row in &rows {
            let begin = row.ts.saturating_sub(self.start_ns).max(0);
            let end = row.end_ns.saturating_sub(self.start_ns);
            if begin >= end {
                continue;
            }
            if before.1 == usize::MAX || before.0 != (row.lane, row.key) {
                before = ((row.lane, row.key), self.place(row.lane, row.key));
            }
            let Some(narrowest) = self.levels.first_mut() else { continue };
            narrowest.add(before.1, begin, end, 1);
        }
        self.rows = rows;
        for level in 0..self.levels.len() {
            if self.levels[level].number > MOST {
                self.pass_on(level)?;
            }
        }
        Ok(())
    }

    fn place(&mut self, lane: i64, key: i64) -> usize {
        *self.places.entry((lane, key)).or_insert_with(|| {
            self.states.push((lane, key));
            self.states.len() - 1
        })
    }

    /// Makes rows of the sums of a level, and adds them to those of the next one.
    fn pass_on(&mut self, level: usize) -> Result<(), IntervalError> {
        let shift = self.levels[level].shift;
        let taken = self.levels[level].take();
        if let Some(wider) = self.levels.get_mut(level + 1) {
            let narrower = wider.shift - shift;
            for (state, sums) in taken.iter().enumerate() {
                for sum in sums {
                    if sum.columns == 1 {
                        wider.push(state, Sum { first: sum.first >> narrower, ..*sum });
                    } else {
                        let (begin, end) = (sum.first << shift, (sum.first + sum.columns) << shift);
                        // Parts of one lane may overlap: then several fill these columns.
                        for _ in 0..sum.ns / (end - begin) {
                            wider.add(state, begin, end, 0);
                        }
                    }
                }
            }
        }
        let mut rows: Vec<OfState> = Vec::new();
        for (state, sums) in taken.into_iter().enumerate() {
            let (lane, key) = self.states[state];
            rows.extend(sums.into_iter().map(|sum| OfState { lane, key, sum }));
        }
        // A range of time reads few row groups.
        rows.sort_unstable_by_key(|row| (row.sum.first, row.lane, row.key, row.sum.columns));
        for some in rows.chunks(BATCH) {
            self.finished.push_back(batch(1 << shift, some)?);
        }
        Ok(())
    }
}

impl Iterator for TimeColumns {
    type Item = Result<RecordBatch, IntervalError>;

    fn next(&mut self) -> Option<Self::Item> {
        let next = self.next_batch();
        self.ended |= next.is_err();
        next.transpose()
    }
}

/// The sum of a state of a lane.
struct OfState {
    lane: i64,
    key: i64,
    sum: Sum,
}

/// Rows of width_ns, lane, first, columns, key, ns, begins.
fn batch(width_ns: i64, rows: &[OfState]) -> Result<RecordBatch, IntervalError> {
    let column = |of: fn(&OfState) -> i64| -> ArrayRef {
        Arc::new(Int64Array::from_iter_values(rows.iter().map(of)))
    };
    Ok(RecordBatch::try_from_iter([
        ("width_ns", Arc::new(Int64Array::from_value(width_ns, rows.len())) as ArrayRef),
        ("lane", column(|row| row.lane)),
        ("first", column(|row| row.sum.first)),
        ("columns", column(|row| row.sum.columns)),
        ("key", column(|row| row.key)),
        ("ns", column(|row| row.sum.ns)),
        ("begins", column(|row| row.sum.begins)),
    ])?)
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use arrow_array::cast::AsArray;
    use arrow_array::types::Int64Type;

    use super::*;

    const WIDTHS: [i64; 3] = [4, 16, 64];

    /// Lane, ts, end_ns, key.
    type Part = (i64, i64, i64, i64);

    fn parts(rows: &[Part]) -> Batches {
        let column = |of: fn(&Part) -> i64| -> ArrayRef {
            Arc::new(Int64Array::from_iter_values(rows.iter().map(of)))
        };
        let batch = RecordBatch::try_from_iter([
            ("lane", column(|row| row.0)),
            ("ts", column(|row| row.1)),
            ("end_ns", column(|row| row.2)),
            ("key", column(|row| row.3)),
        ]);
        Box::new(std::iter::once(batch))
    }

    /// ns and begins of each width, column, lane and key; and how many rows they were in.
    type Found = BTreeMap<(i64, i64, i64, i64), (i64, i64)>;

    fn sums(parts: Batches, start_ns: i64) -> (Found, usize) {
        let (mut found, mut rows) = (Found::new(), 0);
        for batch in TimeColumns::new(parts, start_ns, &WIDTHS).expect("widths") {
            let batch = batch.expect("rows");
            let at = |name: &str, row: usize| batch[name].as_primitive::<Int64Type>().value(row);
            rows += batch.num_rows();
            for row in 0..batch.num_rows() {
                let (first, columns) = (at("first", row), at("columns", row));
                assert_eq!(at("ns", row) % columns, 0);
                for column in first..first + columns {
                    let key = (at("width_ns", row), column, at("lane", row), at("key", row));
                    let sum = found.entry(key).or_default();
                    sum.0 += at("ns", row) / columns;
                    sum.1 += if column == first { at("begins", row) } else { 0 };
                }
            }
        }
        (found, rows)
    }

    /// The same ns by ns.
    fn expected(rows: &[Part], start_ns: i64) -> Found {
        let mut found = Found::new();
        for width in WIDTHS {
            for &(lane, ts, end_ns, key) in rows {
                for at in ts..end_ns {
                    let column = (at - start_ns) / width;
                    let sum = found.entry((width, column, lane, key)).or_default();
                    sum.0 += 1;
                    sum.1 += i64::from(at == ts);
                }
            }
        }
        found
    }

    #[test]
    fn every_column_has_the_time_and_begins_of_its_parts() {
        let mut seed = 7_u64;
        let mut random = |below: u64| {
            seed = seed.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
            ((seed >> 33) % below).cast_signed()
        };
        for round in 0..60 {
            // More than are kept at once in half of the rounds; in some in the order of time.
            let number = if round % 2 == 0 { 20 } else { 200 };
            let mut rows: Vec<_> = (0..number)
                .map(|_| {
                    let ts = 100 + random(900);
                    (random(3), ts, ts + random(if round % 3 == 0 { 300 } else { 9 }), random(3))
                })
                .collect();
            if round % 4 < 2 {
                rows.sort_by_key(|row| row.1);
            }
            assert_eq!(sums(parts(&rows), 100).0, expected(&rows, 100), "round {round}");
        }
    }

    #[test]
    fn a_long_part_is_a_few_rows_of_each_width() {
        // One for the columns that it fills, and those at its edges.
        let long = [(1, 1_000_001, 2_000_001, 5)];
        assert!(sums(parts(&long), 0).1 <= 5 * WIDTHS.len());
    }

    #[test]
    fn times_at_the_limits_are_summed_without_overflow() {
        let rows = [(1, i64::MIN, i64::MAX, 1), (1, 0, i64::MAX, 1), (1, 5, 5, 1), (1, 9, 2, 1)];
        let columns = TimeColumns::new(parts(&rows), 0, &[1 << 40, 1 << 62]).expect("widths");
        let wide: i64 = columns
            .map(|batch| batch.expect("rows"))
            .filter(|batch| batch["width_ns"].as_primitive::<Int64Type>().value(0) == 1 << 62)
            .map(|batch| batch["begins"].as_primitive::<Int64Type>().values().iter().sum::<i64>())
            .sum();
        assert_eq!(wide, 2);
    }

    #[test]
    fn other_widths_are_refused() {
        for widths in [&[3][..], &[0], &[-4], &[i64::MIN], &[8, 8], &[8, 4]] {
            assert!(TimeColumns::new(parts(&[]), 0, widths).is_err(), "{widths:?}");
        }
    }
}
