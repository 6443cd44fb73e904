//! Rows of `cpu` for the times at which a CPU goes offline or comes back online.

use std::sync::Arc;

use arrow_array::{
    Array, ArrayRef, BooleanArray, Int32Array, Int64Array, RecordBatch, StringArray,
};
use arrow_schema::DataType;

use crate::error::DecodeError;
use crate::reader::Offline;

fn internal(what: impl ToString) -> DecodeError {
    DecodeError::Internal { what: what.to_string() }
}

fn typed<'a, A: Array + 'static>(batch: &'a RecordBatch, name: &str) -> Result<&'a A, DecodeError> {
    let column = batch.column_by_name(name).and_then(|column| column.as_any().downcast_ref());
    column.ok_or_else(|| internal(format!("cpu has no column {name} of its type")))
}

/// An output row: index of the input row it copies; for a new version, also whether the CPU is
/// online and the start time.
type Row = (usize, Option<(bool, i64)>);

/// The given rows of `cpu`, and two more for each time a CPU was offline: the row in force before,
/// first with `online` false, then with `online` true.
///
/// CPUs whose rows already contain their offline times are left unchanged.
///
/// # Errors
/// Fails only if a value contradicts the schema.
pub(crate) fn with_offline(
    cpus: &RecordBatch,
    offline: &[Offline],
) -> Result<RecordBatch, DecodeError> {
    if offline.is_empty() {
        return Ok(cpus.clone());
    }
    let numbers: &Int32Array = typed(cpus, "cpu")?;
    let online: &BooleanArray = typed(cpus, "online")?;
    let from: &Int64Array = typed(cpus, "valid_from_ns")?;
    let given = |row: usize| numbers.value(row);
    let said = |cpu: i32| {
        let mut rows = (0..cpus.num_rows()).filter(|row| given(*row) == cpu);
        rows.any(|row| from.is_valid(row) && online.is_valid(row) && !online.value(row))
    };
    let mut rows: Vec<Row> = (0..cpus.num_rows()).map(|row| (row, None)).collect();
    for span in offline.iter().filter(|span| !said(span.cpu)) {
        let begins = |row: usize| if from.is_valid(row) { from.value(row) } else { i64::MIN };
        let before = (0..cpus.num_rows()).filter(|row| given(*row) == span.cpu);
        let Some(in_force) =
            before.filter(|row| begins(*row) <= span.from_ns).max_by_key(|r| begins(*r))
        else {
            continue;
        };
        rows.push((in_force, Some((false, span.from_ns))));
        rows.extend(span.until_ns.map(|until| (in_force, Some((true, until)))));
    }
    rows.sort_by_key(|(row, version)| {
        let own = from.is_valid(*row).then(|| from.value(*row));
        (given(*row), version.map(|(_, from)| from).or(own))
    });
    let schema = cpus.schema();
    let columns = schema.fields().iter().zip(cpus.columns()).map(|(field, column)| {
        match field.name().as_str() {
            "online" => Ok(Arc::new(BooleanArray::from_iter(rows.iter().map(|(row, version)| {
                let own = online.is_valid(*row).then(|| online.value(*row));
                version.map(|(online, _)| online).or(own)
            }))) as ArrayRef),
            "valid_from_ns" => {
                Ok(Arc::new(Int64Array::from_iter(rows.iter().map(|(row, version)| {
                    let own = from.is_valid(*row).then(|| from.value(*row));
                    version.map(|(_, from)| from).or(own)
                }))) as ArrayRef)
            }
            _ => repeated(column, &rows),
        }
    });
    let columns: Vec<ArrayRef> = columns.collect::<Result<_, _>>()?;
    RecordBatch::try_new(cpus.schema(), columns).map_err(internal)
}

/// A column with rows repeated for the new versions.
fn repeated(column: &ArrayRef, rows: &[Row]) -> Result<ArrayRef, DecodeError> {
    let wrong = || internal(format!("cpu has a column of type {}", column.data_type()));
    macro_rules! pick {
        ($array:ty) => {{
            let all: &$array = column.as_any().downcast_ref().ok_or_else(wrong)?;
            let kept = rows.iter().map(|(row, _)| all.is_valid(*row).then(|| all.value(*row)));
            Ok(Arc::new(kept.collect::<$array>()))
        }};
    }
    match column.data_type() {
        DataType::Int32 => pick!(Int32Array),
        DataType::Int64 => pick!(Int64Array),
        DataType::Utf8 => pick!(StringArray),
        DataType::Boolean => pick!(BooleanArray),
        _ => Err(wrong()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use schedlens_schedule::batcher::Batcher;
    use schedlens_schedule::columns::Column;

    /// CPU, whether it is online, start of validity.
    fn table(rows: &[(i32, bool, Option<i64>)]) -> RecordBatch {
        let (mut cpu, mut online, mut from) =
            (Column::default(), Column::default(), Column::default());
        let mut core = Column::default();
        for (number, is_online, valid_from) in rows {
            cpu.push(*number);
            core.push(number / 2 * 2);
            online.push(*is_online);
            from.push_option(*valid_from);
        }
        let columns = vec![
            ("cpu", cpu.array()),
            ("core", core.array()),
            ("online", online.array()),
            ("valid_from_ns", from.array()),
        ];
        Batcher::new(1).batch("cpu", rows.len(), columns).expect("declared")
    }

    /// CPU, core, whether it is online, start of validity.
    type Seen = (i32, i32, bool, Option<i64>);

    fn seen(batch: &RecordBatch) -> Vec<Seen> {
        let (cpu, core): (&Int32Array, &Int32Array) =
            (typed(batch, "cpu").expect("cpu"), typed(batch, "core").expect("core"));
        let online: &BooleanArray = typed(batch, "online").expect("online");
        let from: &Int64Array = typed(batch, "valid_from_ns").expect("from");
        let from = |row: usize| from.is_valid(row).then(|| from.value(row));
        let row = |row: usize| (cpu.value(row), core.value(row), online.value(row), from(row));
        (0..batch.num_rows()).map(row).collect()
    }

    #[test]
    fn an_offline_cpu_gets_a_row_for_each_change() {
        let cpus = table(&[(0, true, None), (1, true, None)]);
        let offline = [
            Offline { cpu: 1, from_ns: 50, until_ns: Some(90) },
            Offline { cpu: 1, from_ns: 120, until_ns: None },
        ];
        assert_eq!(
            seen(&with_offline(&cpus, &offline).expect("built")),
            [
                (0, 0, true, None),
                (1, 0, true, None),
                (1, 0, false, Some(50)),
                (1, 0, true, Some(90)),
                (1, 0, false, Some(120)),
            ]
        );
    }

    #[test]
    fn rows_that_already_have_offline_times_are_kept() {
        let cpus = table(&[(1, true, None), (1, false, Some(40)), (1, true, Some(95))]);
        let offline = [Offline { cpu: 1, from_ns: 50, until_ns: Some(90) }];
        assert_eq!(seen(&with_offline(&cpus, &offline).expect("built")), seen(&cpus));
    }
}
