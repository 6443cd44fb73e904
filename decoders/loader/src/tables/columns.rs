//! Columns of a file: checked against the declared table, and converted to its types.

use std::sync::Arc;

use arrow_array::{Array, ArrayRef, Int64Array, ListArray, RecordBatch};
use arrow_schema::{ArrowError, DataType, Field, Schema};
use arrow_select::concat::concat;

use super::error::TableFault;
use super::texts;

/// Columns with numbers of threads and processes.
const IDS: [&str; 5] = ["utid", "prev_utid", "next_utid", "waker_utid", "upid"];
/// The state machine allocates an entry per thread, so implausibly large numbers are refused.
const MOST_LIVES: i64 = 1 << 22;

/// Checks that a file has the columns of a table, each once and of an accepted type.
pub(super) fn check(found: &Schema, wanted: &'static Schema) -> Result<(), TableFault> {
    for field in wanted.fields() {
        let column = field.name().as_str();
        let mut places = found.fields().iter().filter(|other| other.name() == column);
        let (first, more) = (places.next(), places.count());
        if more > 0 || (first.is_none() && !field.is_nullable()) {
            let count = more + usize::from(first.is_some());
            return Err(TableFault::Columns { column, count });
        }
        if let Some(first) = first.filter(|first| !fits(first.data_type(), field.data_type())) {
            return Err(TableFault::ColumnType {
                column,
                found: first.data_type().to_string().escape_debug().to_string(),
                wanted: field.data_type().to_string(),
            });
        }
    }
    let unknown = found.fields().iter().find(|field| wanted.index_of(field.name()).is_err());
    match unknown {
        Some(field) => {
            Err(TableFault::UnknownColumn { column: field.name().escape_debug().to_string() })
        }
        None => Ok(()),
    }
}

/// Whether a type is accepted: texts may be dictionaries, lists may name items in any way.
fn fits(found: &DataType, wanted: &DataType) -> bool {
    match (found, wanted) {
        (_, DataType::Dictionary(..) | DataType::Utf8) => texts::plain_type(found).is_some(),
        (DataType::List(found), DataType::List(wanted)) => found.data_type() == wanted.data_type(),
        _ => found == wanted,
    }
}

/// Checks that required columns have no NULL.
pub(super) fn check_nulls(batch: &RecordBatch, wanted: &'static Schema) -> Result<(), TableFault> {
    for field in wanted.fields().iter().filter(|field| !field.is_nullable()) {
        let column = field.name().as_str();
        let count = batch.column_by_name(column).map_or(0, |column| column.logical_null_count());
        if count > 0 {
            return Err(TableFault::Nulls { column, count });
        }
    }
    Ok(())
}

/// A column of several batches in its declared type.
///
/// `own` is the recording of the file; numbers of threads and processes become those of `trace_id`.
pub(super) fn joined(
    parts: &[ArrayRef],
    field: &'static Field,
    (own, trace_id): (i64, i64),
) -> Result<ArrayRef, TableFault> {
    let column = field.name().as_str();
    let unfit = |error: ArrowError| TableFault::Unfit {
        why: error.to_string().lines().next().unwrap_or_default().to_owned(),
    };
    let all = || match parts {
        [part] => Ok(Arc::clone(part)),
        parts => {
            let parts: Vec<&dyn Array> = parts.iter().map(|part| part.as_ref()).collect();
            concat(&parts).map_err(unfit)
        }
    };
    match field.data_type() {
        DataType::Dictionary(..) => texts::words(parts, column),
        DataType::Utf8 if parts.iter().all(|part| part.data_type() == &DataType::Utf8) => all(),
        DataType::Utf8 => texts::unpacked(parts, column),
        DataType::List(item) => {
            let all = all()?;
            let list: &ListArray = all
                .as_any()
                .downcast_ref()
                .ok_or_else(|| TableFault::Unfit { why: format!("{column} is no list") })?;
            let (_, offsets, values, nulls) = list.clone().into_parts();
            let list = ListArray::try_new(Arc::clone(item), offsets, values, nulls);
            Ok(Arc::new(list.map_err(unfit)?))
        }
        _ if IDS.contains(&column) => moved(&all()?, column, own, trace_id),
        _ => all(),
    }
}

/// The lowest and the highest known number.
pub(super) fn bounds(numbers: &Int64Array) -> Option<(i64, i64)> {
    let known = || numbers.iter().flatten();
    known().min().zip(known().max())
}

/// Numbers of threads or processes of the recording `own` as those of `trace_id`.
fn moved(
    ids: &ArrayRef,
    column: &'static str,
    own: i64,
    trace_id: i64,
) -> Result<ArrayRef, TableFault> {
    let unfit = || TableFault::Unfit { why: format!("{column} is not of type Int64") };
    let numbers: &Int64Array = ids.as_any().downcast_ref().ok_or_else(unfit)?;
    let Some((low, high)) = bounds(numbers) else { return Ok(Arc::clone(ids)) };
    let first = own << 32;
    let last = first + MOST_LIVES - 1;
    if low < first || high > last {
        return Err(TableFault::Ids { column, low, high, recording: own, first, last });
    }
    let shift = (trace_id << 32) - first;
    Ok(Arc::new(numbers.unary::<_, arrow_array::types::Int64Type>(|id| id.wrapping_add(shift))))
}
