//! The summaries of the running and ready periods: `queries/schema/summaries.sql` in one pass.

use super::fair_share::Shares;
use super::input::{
    Batches, Cursor, GroupRow, IntervalError, Row, RunnableRow, WeightRow, Window, read_all,
};
use super::process_concurrency::ProcessConcurrency;
use super::sections::Sections;
use super::shared_cpus::Group;
use crate::chunk::Output;

/// The streams, by the names of their row types in this module.
pub struct RunnableInputs {
    /// The groups in which threads share the CPUs, each after the one that contains it.
    pub sharing: Vec<Group>,
    /// How threads share the CPUs: utid, weight (0: runs before all threads that share), is_unclear
    /// (nothing shows whether it shares), group (0: none).
    pub weights: Batches,
    /// What threads count with: utid, pool, process.
    pub groups: Batches,
    /// Running and ready periods of all threads by rising start: ts, dur, utid, is_ready.
    pub runnable: Batches,
}

/// The rows of the summary tables that have any. Without `cpus`, the number of CPUs that are online,
/// there is no `fair_share_sum`.
///
/// # Errors
/// A stream fails, lacks a column or is out of order.
pub fn summarize(
    window: Window,
    cpus: Option<i64>,
    inputs: RunnableInputs,
) -> Result<Vec<Output>, IntervalError> {
    let weights: Vec<WeightRow> = read_all(inputs.weights)?;
    let groups: Vec<GroupRow> = read_all(inputs.groups)?;
    let mut shares = cpus.map(|cpus| Shares::new(window, cpus, &inputs.sharing, &weights));
    let mut sections = Sections::new(window, &groups);
    let mut processes = ProcessConcurrency::new(window, &groups);
    let mut rows = Cursor::<RunnableRow>::new(inputs.runnable);
    let mut before = i64::MIN;
    while let Some(row) = rows.peek()?.copied() {
        rows.skip();
        if row.ts < before {
            return Err(IntervalError::Order { input: RunnableRow::INPUT, ts: row.ts, before });
        }
        before = row.ts;
        if let Some(shares) = &mut shares {
            shares.push(&row);
        }
        // A period of no length is no work, and would make sections of no length.
        if row.dur > 0 {
            sections.push(&row);
            processes.push(&row);
        }
    }
    let shares = shares.map(Shares::finish).transpose()?.flatten();
    let found = [shares, sections.finish()?, processes.finish()?];
    Ok(found.into_iter().flatten().collect())
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use arrow_array::{ArrayRef, BooleanArray, Int64Array, RecordBatch};

    use super::*;

    #[test]
    fn rows_out_of_order_are_refused() {
        let batch = |ts: i64| {
            RecordBatch::try_from_iter(vec![
                ("ts", Arc::new(Int64Array::from(vec![ts])) as ArrayRef),
                ("dur", Arc::new(Int64Array::from(vec![1]))),
                ("utid", Arc::new(Int64Array::from(vec![1]))),
                ("is_ready", Arc::new(BooleanArray::from(vec![true]))),
            ])
        };
        let window = Window { trace_id: 1, start_ns: 0, end_ns: 9 };
        let inputs = RunnableInputs {
            sharing: Vec::new(),
            weights: Box::new(std::iter::empty()),
            groups: Box::new(std::iter::empty()),
            runnable: Box::new([batch(5), batch(4)].into_iter()),
        };
        assert!(summarize(window, Some(1), inputs).is_err());
    }
}
