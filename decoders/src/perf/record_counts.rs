//! How many records there are of each event and kind.

use arrow_array::RecordBatch;

use super::columns::{Batcher, Column, texts};
use super::record;
use super::recording::Recording;
use crate::error::DecodeError;

/// Counts by name: samples by event, other records by kind.
pub(super) fn counts(recording: &Recording) -> Vec<(String, u64)> {
    let index = &recording.index;
    let mut counts: Vec<(String, u64)> = Vec::new();
    for (event, count) in recording.named.iter().zip(&index.samples) {
        match counts.iter_mut().find(|(name, _)| *name == event.name) {
            Some((_, sum)) => *sum += count,
            None => counts.push((event.name.clone(), *count)),
        }
    }
    for (kind, count) in index.kinds.iter().filter(|(kind, _)| **kind != record::SAMPLE) {
        counts.push((record::kind_name(*kind), *count));
    }
    counts
}

/// Rows of `record_count`.
pub(super) fn batch(recording: &Recording, batcher: &Batcher) -> Result<RecordBatch, DecodeError> {
    let counts = counts(recording);
    let mut column = Column::default();
    for (_, count) in &counts {
        column.push(i64::try_from(*count).unwrap_or(i64::MAX));
    }
    let columns = vec![
        ("record", texts(counts.iter().map(|(name, _)| Some(name)))),
        ("count", column.array()),
    ];
    batcher.batch("record_count", counts.len(), columns)
}
