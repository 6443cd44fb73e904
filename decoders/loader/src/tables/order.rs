//! Checks the order of rows: times, and positions in the stream of a CPU.

use std::collections::HashMap;

use arrow_array::{Array, Int32Array, Int64Array, RecordBatch};

use super::error::{Error, TableFault};

/// Tables whose rows are identified by CPU and position, for corrections.
const PLACED: [&str; 2] = ["context_switch", "wakeup"];

/// The column `name` as numbers.
pub(super) fn column<'a, A: Array + 'static>(
    batch: &'a RecordBatch,
    name: &str,
) -> Result<&'a A, TableFault> {
    let found = batch.column_by_name(name).and_then(|column| column.as_any().downcast_ref());
    found.ok_or_else(|| TableFault::Unfit { why: format!("no column {name} of its type") })
}

/// Checks that times do not decrease; `row` is the number of the first. Returns the last time.
pub(super) fn in_time(
    times: &[i64],
    before: Option<i64>,
    row: u64,
) -> Result<Option<i64>, TableFault> {
    let fault = |place: usize, before: i64| TableFault::Order {
        row: row + place as u64,
        time: times[place],
        before,
    };
    let (Some(first), Some(last)) = (times.first(), times.last()) else { return Ok(before) };
    if let Some(before) = before.filter(|before| first < before) {
        return Err(fault(0, before));
    }
    match times.windows(2).position(|pair| pair[1] < pair[0]) {
        Some(place) => Err(fault(place + 1, times[place])),
        None => Ok(Some(*last)),
    }
}

/// The highest position of each CPU so far.
#[derive(Debug, Default)]
pub(super) struct Positions(HashMap<(&'static str, i32), i64>);

impl Positions {
    /// Checks that each row of a chunk has its own CPU and position, after those of earlier chunks.
    pub(super) fn check(&mut self, table: &'static str, rows: &RecordBatch) -> Result<(), Error> {
        if !PLACED.contains(&table) {
            return Ok(());
        }
        let columns = || Ok((column(rows, "cpu")?, column(rows, "seq")?));
        let (cpus, seqs): (&Int32Array, &Int64Array) =
            columns().map_err(|fault: TableFault| fault.of(table))?;
        let mut streams: HashMap<i32, Vec<i64>> = HashMap::new();
        for (cpu, seq) in cpus.values().iter().zip(seqs.values()) {
            streams.entry(*cpu).or_default().push(*seq);
        }
        for (cpu, mut stream) in streams {
            // Rows at one time may be in any order.
            if !stream.is_sorted() {
                stream.sort_unstable();
            }
            let last = self.0.entry((table, cpu));
            let (Some(first), Some(highest)) = (stream.first(), stream.last()) else { continue };
            let repeats = stream.windows(2).any(|pair| pair[0] == pair[1]);
            let falls = matches!(&last, std::collections::hash_map::Entry::Occupied(before)
                if first <= before.get());
            if repeats || falls {
                return Err(TableFault::Positions { cpu }.of(table));
            }
            last.insert_entry(*highest);
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use schedlens_schedule::batcher::Batcher;
    use schedlens_schedule::columns::Column;

    use super::*;

    #[test]
    fn time_that_decreases_is_found_within_and_between_batches() {
        let place = |times: &[i64], before| match in_time(times, before, 100) {
            Err(TableFault::Order { row, time, before }) => Some((row, time, before)),
            _ => None,
        };
        assert_eq!(place(&[1, 1, 5, 4, 3], None), Some((103, 4, 5)));
        assert_eq!(place(&[4, 5], Some(6)), Some((100, 4, 6)));
        assert_eq!(place(&[6, 6], Some(6)), None);
        assert_eq!(in_time(&[], Some(6), 0).expect("in order"), Some(6));
        assert_eq!(in_time(&[7], Some(6), 0).expect("in order"), Some(7));
    }

    #[test]
    fn positions_are_unique_per_cpu_and_increase_between_chunks() {
        let rows = |rows: &[(i32, i64)]| {
            let (mut cpu, mut seq, mut ts) =
                (Column::default(), Column::default(), Column::default());
            cpu.extend_with(rows.iter().map(|row| row.0));
            seq.extend_with(rows.iter().map(|row| row.1));
            ts.extend_with(rows.iter().map(|_| 0_i64));
            let kinds = schedlens_schedule::columns::Words::default();
            let mut kinds = kinds;
            rows.iter().for_each(|_| kinds.push(Some("ready")));
            let columns = vec![
                ("ts", ts.array()),
                ("cpu", cpu.array()),
                ("seq", seq.array()),
                ("kind", kinds.array().expect("built")),
            ];
            Batcher::new(1).batch("wakeup", rows.len(), columns).expect("declared")
        };
        let refused = |chunks: &[&[(i32, i64)]]| {
            let mut positions = Positions::default();
            chunks.iter().any(|chunk| positions.check("wakeup", &rows(chunk)).is_err())
        };
        assert!(!refused(&[&[(0, 2), (1, 1), (0, 1)], &[(0, 3), (1, 2)]]));
        assert!(refused(&[&[(0, 1), (0, 2), (0, 1)]]));
        assert!(refused(&[&[(0, 1), (0, 5)], &[(0, 4)]]));
        assert!(refused(&[&[(0, 1)], &[(0, 1)]]));
    }
}
