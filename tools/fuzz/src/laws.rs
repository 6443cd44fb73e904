//! What must be true of the derived tables, whatever the recording contains.

use std::collections::{BTreeMap, BTreeSet};

use arrow_array::cast::AsArray;
use arrow_array::types::{Int32Type, Int64Type, UInt8Type};
use arrow_array::{Array, RecordBatch};
use arrow_schema::DataType;
use schedlens_schedule::chunk::Output;

/// A period: begin and end.
type Period = (i64, i64);

/// A number, a flag as 0 or 1, or `None` if it is NULL.
pub fn number(batch: &RecordBatch, column: &str, row: usize) -> Option<i64> {
    let array = batch.column_by_name(column).expect(column);
    if array.is_null(row) {
        return None;
    }
    Some(match array.data_type() {
        DataType::Int32 => array.as_primitive::<Int32Type>().value(row).into(),
        DataType::Boolean => array.as_boolean().value(row).into(),
        _ => array.as_primitive::<Int64Type>().value(row),
    })
}

/// A text of a column with few different ones.
pub fn word<'a>(batch: &'a RecordBatch, column: &str, row: usize) -> &'a str {
    let words = batch.column_by_name(column).expect(column).as_dictionary::<UInt8Type>();
    words.values().as_string::<i32>().value(words.keys().value(row).into())
}

/// The derived tables, by thread and by CPU.
#[derive(Default)]
struct Tables {
    states: BTreeMap<i64, Vec<Period>>,
    cpus: BTreeMap<i64, Vec<Period>>,
    slices_of_threads: BTreeMap<i64, Vec<Period>>,
    slices_of_cpus: BTreeMap<i64, Vec<Period>>,
    /// Running time by thread: by its states, by the CPUs, and by its slices.
    running: [BTreeMap<i64, i128>; 3],
}

impl Tables {
    fn take(&mut self, table: &str, batch: &RecordBatch, row: usize) {
        let get = |column: &str| number(batch, column, row);
        let (ts, dur) = (get("ts").expect("ts"), get("dur").expect("dur"));
        assert!(dur >= 0, "{table}: a length of {dur}");
        let period = (ts, ts.checked_add(dur).expect("the end of a row is not a time"));
        let mut runs = |kind: usize| {
            let thread = get("utid").expect("utid");
            *self.running[kind].entry(thread).or_default() += i128::from(dur);
        };
        match table {
            "thread_state" => {
                if word(batch, "state", row) == "running" {
                    runs(0);
                }
                self.states.entry(get("utid").expect("utid")).or_default().push(period);
            }
            "cpu_state" => {
                if word(batch, "state", row) == "thread" {
                    runs(1);
                }
                self.cpus.entry(get("cpu").expect("cpu")).or_default().push(period);
            }
            _ => {
                let (thread, cpu) = (get("utid").expect("utid"), get("cpu").expect("cpu"));
                self.slices_of_cpus.entry(cpu).or_default().push(period);
                if get("is_idle") == Some(0) {
                    runs(2);
                    self.slices_of_threads.entry(thread).or_default().push(period);
                }
            }
        }
    }
}

/// Checks the outputs of a recording that lasts from `first` to `last`.
pub fn check(outputs: &[Output], (first, last): Period) {
    let mut tables = Tables::default();
    for output in outputs {
        for row in 0..output.batch.num_rows() {
            match output.table {
                "thread_state" | "cpu_state" | "sched_slice" => {
                    tables.take(output.table, &output.batch, row);
                }
                "loss" => loss(&output.batch, row, (first, last)),
                _ => {}
            }
        }
    }
    for (cpu, periods) in &mut tables.cpus {
        let found = tiled(periods, "states of a CPU", *cpu);
        assert_eq!(
            found,
            (first, last),
            "CPU {cpu} is not covered from the first to the last time"
        );
    }
    for (thread, periods) in &mut tables.states {
        let (begin, end) = tiled(periods, "states of a thread", *thread);
        assert!(first <= begin && end <= last, "states of {thread} outside the recording");
    }
    for (thread, periods) in &mut tables.slices_of_threads {
        apart(periods, (first, last), "slices of a thread", *thread);
    }
    for (cpu, periods) in &mut tables.slices_of_cpus {
        apart(periods, (first, last), "slices of a CPU", *cpu);
    }
    let threads: BTreeSet<i64> =
        tables.running.iter().flat_map(|map| map.keys().copied()).collect();
    for thread in threads {
        let sums = tables.running.each_ref().map(|map| map.get(&thread).copied().unwrap_or(0));
        assert!(sums.iter().all(|sum| *sum == sums[0]), "running time of {thread}: {sums:?}");
    }
}

/// Where periods begin and end that follow each other without a gap and without an overlap.
fn tiled(periods: &mut [Period], what: &str, number: i64) -> Period {
    periods.sort_unstable();
    for pair in periods.windows(2) {
        assert_eq!(pair[0].1, pair[1].0, "{what} {number}: {periods:?}");
    }
    let begin = periods.first().map_or(0, |period| period.0);
    (begin, periods.last().map_or(0, |period| period.1))
}

/// Checks that periods do not overlap and are within the recording.
fn apart(periods: &mut [Period], (first, last): Period, what: &str, number: i64) {
    periods.sort_unstable();
    for pair in periods.windows(2) {
        assert!(pair[0].1 <= pair[1].0, "{what} {number} overlap: {pair:?}");
    }
    for (begin, end) in periods.iter() {
        assert!(first <= *begin && *end <= last, "{what} {number}: outside the recording");
    }
}

/// Lost records are within the recording, and are not lost before they could be written.
fn loss(batch: &RecordBatch, row: usize, (first, last): Period) {
    let (start, end) = (number(batch, "start_ns", row), number(batch, "end_ns", row));
    for time in [start, end].into_iter().flatten() {
        let signal = word(batch, "signalled_by", row);
        assert!(
            (first..=last).contains(&time),
            "{signal} at {time}, the recording lasts from {first} to {last}"
        );
    }
    if let (Some(start), Some(end)) = (start, end) {
        assert!(start <= end, "a loss from {start} to {end}");
    }
}
