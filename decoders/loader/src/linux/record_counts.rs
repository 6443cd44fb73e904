//! Number of records of each event and kind.

use arrow_array::RecordBatch;
use arrow_schema::ArrowError;
use schedlens_schedule::batcher::Batcher;
use schedlens_schedule::columns::{Column, texts};

/// Rows of `record_count`.
pub(crate) fn batch(
    counts: &[(String, u64)],
    batcher: &Batcher,
) -> Result<RecordBatch, ArrowError> {
    let mut column = Column::default();
    for (_, count) in counts {
        column.push(i64::try_from(*count).unwrap_or(i64::MAX));
    }
    let columns = vec![
        ("record", texts(counts.iter().map(|(name, _)| Some(name)))),
        ("count", column.array()),
    ];
    batcher.batch("record_count", counts.len(), columns)
}
