//! What a session folder adds to the trace: tables with raw times and thread ids, and the batches
//! of the workers.

use std::sync::Arc;

use arrow_array::types::Int32Type;
use arrow_array::{
    Array, ArrayRef, Int32Array, Int64Array, ListArray, RecordBatch, StringArray, new_null_array,
};
use schedlens_schedule::schema;

use crate::error::DecodeError;

/// Columns with times of the session's clock.
const TIMES: [&str; 4] = ["ts", "start_ns", "end_ns", "valid_from_ns"];
/// Magic bytes of `samples.bin`.
const SAMPLES_MAGIC: &[u8; 8] = b"SLSAMP1\0";
const SAMPLE_SIZE: usize = 48;

fn wrong(table: &str, what: impl Into<String>) -> DecodeError {
    DecodeError::Context { table: table.to_owned(), what: what.into() }
}

fn longs<'a>(
    table: &str,
    batch: &'a RecordBatch,
    name: &str,
) -> Result<Option<&'a Int64Array>, DecodeError> {
    let Some(column) = batch.column_by_name(name) else { return Ok(None) };
    let found = column.as_any().downcast_ref::<Int64Array>();
    found.map(Some).ok_or_else(|| {
        wrong(table, format!("column {name} has type {}, not Int64", column.data_type()))
    })
}

/// A table of the session as rows of the database: times from ns 0, threads by utid.
///
/// `start_clock` is the raw time of ns 0; `utid_at` finds the thread that had an id at a time from
/// ns 0 or, without a time, at the start.
///
/// # Errors
/// A table or column does not match its declaration.
pub fn rows(
    table: &str,
    batch: &RecordBatch,
    (trace_id, start_clock): (i64, i64),
    utid_at: impl Fn(i64, Option<i64>) -> Option<i64>,
) -> Result<RecordBatch, DecodeError> {
    let declared =
        schema::table(table).ok_or_else(|| wrong(table, "this table is not declared"))?;
    let count = batch.num_rows();
    let shifted = |name: &str| -> Result<Option<Int64Array>, DecodeError> {
        let found = longs(table, batch, name)?;
        Ok(found.map(|times| times.iter().map(|t| Some(t?.saturating_sub(start_clock))).collect()))
    };
    let mut columns: Vec<ArrayRef> = Vec::new();
    for field in declared.fields() {
        let name = field.name().as_str();
        let column: ArrayRef = if name == "trace_id" {
            Arc::new(Int64Array::from(vec![trace_id; count]))
        } else if let Some(times) =
            TIMES.contains(&name).then(|| shifted(name)).transpose()?.flatten()
        {
            Arc::new(times)
        } else if name == "utid"
            && let Some(tids) = longs(table, batch, "tid")?
        {
            let mut when = None;
            for time in ["ts", "start_ns", "valid_from_ns"] {
                when = when.or(shifted(time)?);
            }
            let times = |row: usize| {
                when.as_ref().filter(|t| t.is_valid(row)).map(|times| times.value(row))
            };
            let find = |row: usize| {
                tids.is_valid(row).then(|| utid_at(tids.value(row), times(row))).flatten()
            };
            Arc::new((0..count).map(find).collect::<Int64Array>())
        } else if let Some(given) = batch.column_by_name(name) {
            Arc::clone(given)
        } else {
            new_null_array(field.data_type(), count)
        };
        columns.push(column);
    }
    if table == "affinity" {
        columns = without_unknown_threads(columns)?;
    }
    RecordBatch::try_new(declared, columns).map_err(|error| wrong(table, error.to_string()))
}

/// Rows of `affinity` whose thread is in the trace.
fn without_unknown_threads(columns: Vec<ArrayRef>) -> Result<Vec<ArrayRef>, DecodeError> {
    let odd = || wrong("affinity", "columns differ from the declaration");
    let mut columns = columns.into_iter();
    let mut next = || columns.next().ok_or_else(odd);
    let (trace, utid, from, cpus, source) = (next()?, next()?, next()?, next()?, next()?);
    let known: Vec<usize> = (0..utid.len()).filter(|row| utid.is_valid(*row)).collect();
    let pick = |column: &ArrayRef| -> Result<ArrayRef, DecodeError> {
        let all: &Int64Array = column.as_any().downcast_ref().ok_or_else(odd)?;
        let kept = known.iter().map(|row| all.is_valid(*row).then(|| all.value(*row)));
        Ok(Arc::new(kept.collect::<Int64Array>()))
    };
    let lists: &ListArray = cpus.as_any().downcast_ref().ok_or_else(odd)?;
    let texts: &StringArray = source.as_any().downcast_ref().ok_or_else(odd)?;
    let mut kept = Vec::new();
    for row in &known {
        let list = lists.value(*row);
        let list: &Int32Array = list.as_any().downcast_ref().ok_or_else(odd)?;
        kept.push(Some(list.iter().collect::<Vec<_>>()));
    }
    let sources = known.iter().map(|row| texts.is_valid(*row).then(|| texts.value(*row)));
    Ok(vec![
        pick(&trace)?,
        pick(&utid)?,
        pick(&from)?,
        Arc::new(ListArray::from_iter_primitive::<Int32Type, _, _>(kept)),
        Arc::new(sources.collect::<StringArray>()),
    ])
}

/// The batches in `samples.bin` as rows of `run_sample`, and the number of bytes in an incomplete
/// batch at its end.
///
/// # Errors
/// The bytes are not those of `samples.bin`.
pub fn run_samples(
    bytes: &[u8],
    (trace_id, start_clock): (i64, i64),
) -> Result<(RecordBatch, usize), DecodeError> {
    let table = "run_sample";
    let body = bytes
        .strip_prefix(SAMPLES_MAGIC)
        .ok_or_else(|| wrong(table, "samples.bin does not start with SLSAMP1"))?;
    let records = body.chunks_exact(SAMPLE_SIZE);
    let torn = records.remainder().len();
    let word = |record: &[u8], at: usize, size: usize| -> u64 {
        let field = record.get(at..at + size).unwrap_or_default();
        field.iter().rev().fold(0, |sum, byte| sum << 8 | u64::from(*byte))
    };
    let count = records.len();
    let ints = |at: usize, size: usize| -> ArrayRef {
        let all = records.clone().map(|r| i32::try_from(word(r, at, size)).unwrap_or(i32::MAX));
        Arc::new(Int32Array::from(all.collect::<Vec<_>>()))
    };
    let longs = |at: usize, shift: i64| -> ArrayRef {
        let all = records.clone().map(|r| word(r, at, 8).cast_signed().saturating_sub(shift));
        Arc::new(Int64Array::from(all.collect::<Vec<_>>()))
    };
    let columns: Vec<ArrayRef> = vec![
        Arc::new(Int64Array::from(vec![trace_id; count])),
        ints(0, 4),
        longs(16, start_clock),
        longs(24, start_clock),
        ints(4, 2),
        ints(6, 2),
        longs(32, 0),
        longs(40, 0),
    ];
    let declared = schema::table(table).ok_or_else(|| wrong(table, "is not declared"))?;
    let batch =
        RecordBatch::try_new(declared, columns).map_err(|error| wrong(table, error.to_string()))?;
    Ok((batch, torn))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn batches_are_read_field_by_field() {
        let mut bytes = SAMPLES_MAGIC.to_vec();
        bytes.extend(3_u32.to_le_bytes());
        bytes.extend([5, 0, 6, 0]);
        bytes.extend(1_u32.to_le_bytes());
        bytes.extend(0_u32.to_le_bytes());
        for word in [1_000_i64, 1_500, 77, 88] {
            bytes.extend(word.to_le_bytes());
        }
        bytes.extend([0; 7]);
        let (batch, torn) = run_samples(&bytes, (9, 400)).expect("read");
        assert_eq!(torn, 7);
        let longs = |at: usize| -> i64 {
            let column: &Int64Array = batch.column(at).as_any().downcast_ref().expect("long");
            column.value(0)
        };
        let ints = |at: usize| -> i32 {
            let column: &Int32Array = batch.column(at).as_any().downcast_ref().expect("int");
            column.value(0)
        };
        assert_eq!((longs(0), ints(1), longs(2), longs(3)), (9, 3, 600, 1_100));
        assert_eq!((ints(4), ints(5), longs(6), longs(7)), (5, 6, 77, 88));
        assert!(run_samples(b"SLSAMP", (1, 0)).is_err());
    }

    #[test]
    fn times_are_shifted_and_threads_found_at_their_time() {
        let fields = vec![
            arrow_schema::Field::new("tid", arrow_schema::DataType::Int64, true),
            arrow_schema::Field::new("valid_from_ns", arrow_schema::DataType::Int64, true),
            arrow_schema::Field::new(
                "cpus",
                arrow_schema::DataType::new_list(arrow_schema::DataType::Int32, true),
                true,
            ),
            arrow_schema::Field::new("source", arrow_schema::DataType::Utf8, true),
        ];
        let lists = vec![Some(vec![Some(0)]), Some(vec![Some(1), Some(2)])];
        let batch = RecordBatch::try_new(
            Arc::new(arrow_schema::Schema::new(fields)),
            vec![
                Arc::new(Int64Array::from(vec![10, 11])),
                Arc::new(Int64Array::from(vec![None, Some(150)])),
                Arc::new(ListArray::from_iter_primitive::<Int32Type, _, _>(lists)),
                Arc::new(StringArray::from(vec!["pin", "snapshot"])),
            ],
        )
        .expect("built");
        let found = rows("affinity", &batch, (4, 100), |tid, ts| {
            (tid == 11 && ts == Some(50)).then_some(77)
        })
        .expect("resolved");
        assert_eq!(found.num_rows(), 1);
        let utid: &Int64Array = found.column(1).as_any().downcast_ref().expect("utid");
        assert_eq!(utid.value(0), 77);
        assert!(rows("no_table", &batch, (4, 100), |_, _| None).is_err());
    }
}
