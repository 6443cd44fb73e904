//! What must be true of the derived tables, whatever the recording contains.

use std::collections::BTreeMap;

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

/// What threads and CPUs do, as the views of queries/schema/states.sql show it.
#[derive(Default)]
struct States {
    threads: BTreeMap<i64, Vec<Period>>,
    cpus: BTreeMap<i64, Vec<Period>>,
    slices_of_cpus: BTreeMap<i64, Vec<Period>>,
}

impl States {
    fn take(&mut self, table: &str, batch: &RecordBatch, row: usize) {
        let get = |column: &str| number(batch, column, row);
        let (ts, dur) = (get("ts").expect("ts"), get("dur").expect("dur"));
        assert!(dur >= 0, "{table}: a length of {dur}");
        let end = ts.checked_add(dur).expect("the end of a row is not a time");
        let key = |column: &str| get(column).expect(column);
        match table {
            "thread_state_other" => {
                assert_ne!(word(batch, "state", row), "running");
                self.threads.entry(key("utid")).or_default().push((ts, end));
            }
            "cpu_state_other" => {
                assert_ne!(word(batch, "state", row), "thread");
                self.cpus.entry(key("cpu")).or_default().push((ts, end));
            }
            _ => {
                let cpu = key("cpu");
                self.slices_of_cpus.entry(cpu).or_default().push((ts, end));
                if get("is_idle") == Some(1) {
                    return;
                }
                let of_thread = self.threads.entry(key("utid")).or_default();
                of_thread.push((ts, end));
                if let Some(ready) = get("ready_ns") {
                    assert!(ready >= 0, "ready for {ready} ns");
                    of_thread.push((ts.checked_sub(ready).expect("a time"), ts));
                }
                if dur > 0 {
                    self.cpus.entry(cpu).or_default().push((ts, end));
                }
            }
        }
    }
}

/// Checks the outputs of a recording that lasts from `first` to `last`.
pub fn check(outputs: &[Output], (first, last): Period) {
    let mut states = States::default();
    for output in outputs {
        for row in 0..output.batch.num_rows() {
            match output.table {
                "thread_state_other" | "cpu_state_other" | "sched_slice" => {
                    states.take(output.table, &output.batch, row);
                }
                "loss" => loss(&output.batch, row, (first, last)),
                _ => {}
            }
        }
    }
    for (cpu, periods) in &mut states.cpus {
        let found = tiled(periods, "states of a CPU", *cpu);
        assert_eq!(
            found,
            (first, last),
            "CPU {cpu} is not covered from the first to the last time"
        );
    }
    for (thread, periods) in &mut states.threads {
        let (begin, end) = tiled(periods, "states of a thread", *thread);
        assert!(first <= begin && end <= last, "states of {thread} outside the recording");
    }
    for (cpu, periods) in &mut states.slices_of_cpus {
        apart(periods, (first, last), "slices of a CPU", *cpu);
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
