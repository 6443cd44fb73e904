//! The `context_switch` rows that pass through: without duplicates, with planned switch-ins
//! corrected.

use std::collections::VecDeque;
use std::sync::Arc;

use arrow_array::builder::{Int32Builder, Int64Builder};
use arrow_array::types::{Int32Type, Int64Type, UInt8Type};
use arrow_array::{
    Array, ArrayRef, ArrowPrimitiveType, BooleanArray, DictionaryArray, Int64Array, PrimitiveArray,
    RecordBatch, StringArray, new_null_array,
};
use arrow_buffer::{BooleanBuffer, NullBuffer};
use arrow_schema::{DataType, Field, Schema};

use super::StateError;
use crate::chunk::Output;

/// Schema of `context_switch_mend`: corrections to switch-ins whose row was already written when it
/// turned out that another thread ran. The store sets `next_utid` and makes `next_priority` NULL in
/// the `context_switch` row with the same trace_id, cpu and seq.
pub fn context_switch_mend_schema() -> Schema {
    Schema::new(vec![
        Field::new("trace_id", DataType::Int64, false),
        Field::new("cpu", DataType::Int32, false),
        Field::new("seq", DataType::Int64, false),
        Field::new("next_utid", DataType::Int64, true),
    ])
}

struct Pending {
    first: u64,
    batch: RecordBatch,
    dropped: Vec<u32>,
    corrections: Vec<(usize, i64)>,
}

/// Batches of `context_switch` not yet handed out.
#[derive(Default)]
pub(super) struct Records {
    pending: VecDeque<Pending>,
    next_row: u64,
    cpu: Int32Builder,
    seq: Int64Builder,
    next: Int64Builder,
    corrections: usize,
}

impl Records {
    /// Adds a batch.
    pub(super) fn push(&mut self, batch: &RecordBatch) {
        let (dropped, corrections) = (Vec::new(), Vec::new());
        self.pending.push_back(Pending {
            first: self.next_row,
            batch: batch.clone(),
            dropped,
            corrections,
        });
        self.next_row += batch.num_rows() as u64;
    }

    /// Number, across all batches, of a row of the latest batch.
    pub(super) fn number(&self, row: usize) -> u64 {
        self.pending.back().map_or(self.next_row, |entry| entry.first) + row as u64
    }

    /// Drops a row of the latest batch.
    pub(super) fn drop_row(&mut self, row: usize) {
        if let Some(entry) = self.pending.back_mut() {
            entry.dropped.push(row as u32);
        }
    }

    /// Replaces the planned thread with another one.
    pub(super) fn correct(&mut self, number: u64, cpu: i32, seq: i64, next_utid: i64) {
        for entry in self.pending.iter_mut().rev() {
            if number >= entry.first {
                entry.corrections.push(((number - entry.first) as usize, next_utid));
                return;
            }
        }
        self.cpu.append_value(cpu);
        self.seq.append_value(seq);
        self.next.append_value(next_utid);
        self.corrections += 1;
    }

    /// Hands out all batches except the last `keep`, and the corrections so far.
    pub(super) fn take(
        &mut self,
        trace_id: i64,
        keep: usize,
        out: &mut Vec<Output>,
    ) -> Result<(), StateError> {
        while self.pending.len() > keep {
            let Some(entry) = self.pending.pop_front() else { break };
            let batch = without(corrected(entry.batch, &entry.corrections)?, entry.dropped)?;
            out.push(Output { table: "context_switch", batch });
        }
        if self.corrections > 0 {
            let columns: Vec<ArrayRef> = vec![
                Arc::new(Int64Array::from_value(trace_id, self.corrections)),
                Arc::new(self.cpu.finish()),
                Arc::new(self.seq.finish()),
                Arc::new(self.next.finish()),
            ];
            self.corrections = 0;
            let batch = RecordBatch::try_new(Arc::new(context_switch_mend_schema()), columns)?;
            out.push(Output { table: "context_switch_mend", batch });
        }
        Ok(())
    }
}

fn corrected(batch: RecordBatch, corrections: &[(usize, i64)]) -> Result<RecordBatch, StateError> {
    if corrections.is_empty() {
        return Ok(batch);
    }
    let schema = batch.schema();
    let mut columns = batch.columns().to_vec();
    let place = schema.index_of("next_utid")?;
    if let Some(array) = columns[place].as_any().downcast_ref::<PrimitiveArray<Int64Type>>() {
        let mut values: Vec<Option<i64>> = array.iter().collect();
        for &(row, utid) in corrections {
            values[row] = Some(utid);
        }
        columns[place] = Arc::new(Int64Array::from(values));
    }
    let place = schema.index_of("next_priority")?;
    if let Some(array) = columns[place].as_any().downcast_ref::<PrimitiveArray<Int32Type>>() {
        let mut values: Vec<Option<i32>> = array.iter().collect();
        for &(row, _) in corrections {
            values[row] = None;
        }
        columns[place] = Arc::new(PrimitiveArray::<Int32Type>::from(values));
    }
    Ok(RecordBatch::try_new(schema, columns)?)
}

fn without(batch: RecordBatch, mut dropped: Vec<u32>) -> Result<RecordBatch, StateError> {
    if dropped.is_empty() {
        return Ok(batch);
    }
    dropped.sort_unstable();
    let mut next = dropped.iter().copied().peekable();
    let kept: Vec<u32> = (0..batch.num_rows() as u32)
        .filter(|&row| next.next_if(|&dropped| dropped == row).is_none())
        .collect();
    let columns: Result<Vec<ArrayRef>, StateError> = batch
        .schema()
        .fields()
        .iter()
        .zip(batch.columns())
        .map(|(field, column)| gather(field.name(), column, &kept))
        .collect();
    Ok(RecordBatch::try_new(batch.schema(), columns?)?)
}

fn gather(name: &str, column: &ArrayRef, rows: &[u32]) -> Result<ArrayRef, StateError> {
    // Half of the columns have no values on one system.
    if column.null_count() == column.len() {
        return Ok(new_null_array(column.data_type(), rows.len()));
    }
    let any = column.as_any();
    if let Some(array) = any.downcast_ref::<PrimitiveArray<Int64Type>>() {
        return Ok(Arc::new(numbers(array, rows)));
    }
    if let Some(array) = any.downcast_ref::<PrimitiveArray<Int32Type>>() {
        return Ok(Arc::new(numbers(array, rows)));
    }
    if let Some(array) = any.downcast_ref::<BooleanArray>() {
        let bits = rows.iter().map(|&row| array.value(row as usize)).collect::<BooleanBuffer>();
        return Ok(Arc::new(BooleanArray::new(bits, nulls(array.nulls(), rows))));
    }
    if let Some(array) = any.downcast_ref::<DictionaryArray<UInt8Type>>() {
        let keys = numbers(array.keys(), rows);
        return Ok(Arc::new(DictionaryArray::<UInt8Type>::new(keys, array.values().clone())));
    }
    if let Some(array) = any.downcast_ref::<StringArray>() {
        let texts = rows.iter().map(|&row| {
            let row = row as usize;
            array.is_valid(row).then(|| array.value(row))
        });
        return Ok(Arc::new(texts.collect::<StringArray>()));
    }
    Err(StateError::Arrow(arrow_schema::ArrowError::SchemaError(format!(
        "context_switch.{name}: unexpected type {}",
        column.data_type()
    ))))
}

fn nulls(nulls: Option<&NullBuffer>, rows: &[u32]) -> Option<NullBuffer> {
    let nulls = nulls.filter(|nulls| nulls.null_count() > 0)?;
    let bits: BooleanBuffer = rows.iter().map(|&row| nulls.is_valid(row as usize)).collect();
    Some(NullBuffer::new(bits))
}

fn numbers<T: ArrowPrimitiveType>(array: &PrimitiveArray<T>, rows: &[u32]) -> PrimitiveArray<T> {
    let all = array.values();
    let values: Vec<T::Native> = rows.iter().map(|&row| all[row as usize]).collect();
    PrimitiveArray::new(values.into(), nulls(array.nulls(), rows))
}
