//! How much of the machine is busy at once: `concurrency_slice`.

use arrow_schema::ArrowError;

use super::machine::Totals;
use super::tables::{Table, Value};
use crate::chunk::Output;

/// The open row of the table.
pub struct Concurrency {
    trace_id: i64,
    since_ns: i64,
    now: (Totals, usize),
    table: Table,
}

impl Concurrency {
    /// Starts at `first_ns`.
    pub fn new(trace_id: i64, totals: Totals, first_ns: i64) -> Result<Self, ArrowError> {
        let table = Table::new("concurrency_slice")?;
        Ok(Self { trace_id, since_ns: first_ns, now: (totals, 0), table })
    }

    /// Updates the row after a change.
    pub fn look(&mut self, totals: Totals, ready: usize, now_ns: i64) {
        if self.now != (totals, ready) {
            self.end(now_ns);
            self.now = (totals, ready);
        }
    }

    /// Ends the row.
    pub fn end(&mut self, now_ns: i64) {
        let (totals, ready) = self.now;
        if self.since_ns < now_ns {
            self.table.push(&[
                Value::Long(self.trace_id),
                Value::Long(self.since_ns),
                Value::Long(now_ns - self.since_ns),
                Value::Int(totals.busy),
                Value::Int(totals.unknown),
                Value::Int(i32::try_from(ready).unwrap_or(i32::MAX)),
                Value::Int(totals.bands[0]),
                Value::Int(totals.bands[1]),
                Value::Int(totals.bands[2]),
                Value::Int(totals.smt),
                Value::Int(totals.online),
            ]);
        }
        self.since_ns = now_ns;
    }

    /// Finished batches; with `all`, also a partly filled one.
    pub fn take(&mut self, all: bool, into: &mut Vec<Output>) -> Result<(), ArrowError> {
        self.table.take(all, into)
    }
}
