//! Stacks of rows that were put into a table before: they are recorded after their event.

use schedlens_schedule::columns::{Column, Named};

/// The stacks of the rows of a table; most recordings have none.
#[derive(Debug, Default)]
pub(super) struct RowStacks(Vec<Option<i64>>);

impl RowStacks {
    /// The stack of a row; `None` if it has none so far.
    pub(super) fn get(&self, row: usize) -> Option<i64> {
        self.0.get(row).copied().flatten()
    }

    pub(super) fn set(&mut self, row: usize, stack: Option<i64>) {
        if self.0.len() <= row {
            self.0.resize(row + 1, None);
        }
        self.0[row] = stack;
    }

    /// The column of a table with that many rows, if any has a stack.
    pub(super) fn column(mut self, name: &'static str, rows: usize) -> Option<Named> {
        if self.0.is_empty() {
            return None;
        }
        self.0.resize(rows, None);
        let mut column = Column::default();
        self.0.into_iter().for_each(|stack| column.push_option(stack));
        Some((name, column.array()))
    }
}

/// The rows with a time, searched from the end because the match is usually there.
pub(super) fn rows_at(times: &[i64], ts: i64) -> std::ops::Range<usize> {
    let mut step = 1;
    while step < times.len() && times[times.len() - step] >= ts {
        step *= 2;
    }
    let from = times.len().saturating_sub(step);
    let first = from + times[from..].partition_point(|time| *time < ts);
    let behind = times[first..].iter().take_while(|time| **time == ts).count();
    first..first + behind
}

#[cfg(test)]
mod tests {
    use super::rows_at;

    #[test]
    fn rows_of_a_time_are_found_from_the_end() {
        let times = [1, 3, 3, 3, 9, 12];
        assert_eq!(rows_at(&times, 3), 1..4);
        assert_eq!(rows_at(&times, 12), 5..6);
        assert_eq!(rows_at(&times, 1), 0..1);
        assert!(rows_at(&times, 10).is_empty());
        assert!(rows_at(&[], 1).is_empty());
        let many: Vec<i64> = (0..1000).collect();
        assert!((0..1000).all(|ts| rows_at(&many, ts) == (ts as usize..ts as usize + 1)));
    }
}
