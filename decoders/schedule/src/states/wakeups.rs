//! Wakeups: each waits until it is known whether it began a ready period and which CPU it targeted.

use std::collections::VecDeque;
use std::sync::Arc;

use arrow_array::builder::{BooleanBuilder, Int32Builder, Int64Builder};
use arrow_array::{ArrayRef, BooleanArray, Int32Array, Int64Array, RecordBatch};
use arrow_schema::{DataType, Field, Schema};

use super::StateError;
use crate::chunk::Output;

/// The kind of record that made the thread ready.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Kind {
    /// `sched_wakeup_new`: a new thread.
    New,
    /// `sched_waking`: logged before a CPU is chosen.
    Waking,
    /// ReadyThread.
    Ready,
    /// `sched_wakeup`.
    Wakeup,
}

impl Kind {
    /// The kind for a word of the table.
    pub(super) fn of(word: Option<&str>) -> Option<Self> {
        match word {
            Some("wakeup_new") => Some(Self::New),
            Some("waking") => Some(Self::Waking),
            Some("ready") => Some(Self::Ready),
            Some("wakeup") => Some(Self::Wakeup),
            _ => None,
        }
    }
}

/// A wakeup whose effect is not decided.
#[derive(Clone, Copy, Debug)]
pub(super) struct Waking {
    pub(super) ts: i64,
    pub(super) kind: Kind,
    pub(super) waker: Option<i64>,
    pub(super) target: Option<i32>,
    /// A migration has already set its target.
    pub(super) moved: bool,
    /// It was recorded in the slice that the switch-out before it ended.
    pub(super) in_slice: bool,
    row: u64,
    pub(super) cpu: i32,
    pub(super) seq: i64,
}

struct Pending {
    first: u64,
    batch: RecordBatch,
    effective: Vec<bool>,
    target: Vec<Option<i32>>,
}

/// The wakeup batches not yet handed out, and corrections to those that are.
#[derive(Default)]
pub(super) struct Wakeups {
    pending: VecDeque<Pending>,
    next_row: u64,
    cpu: Int32Builder,
    seq: Int64Builder,
    effective: BooleanBuilder,
    target: Int32Builder,
    corrections: usize,
}

/// Schema of `wakeup_mend`: corrections to wakeups whose row was already written. The store sets
/// `effective` and `target_cpu` of the `wakeup` row with the same trace_id, cpu and seq.
pub fn wakeup_mend_schema() -> Schema {
    Schema::new(vec![
        Field::new("trace_id", DataType::Int64, false),
        Field::new("cpu", DataType::Int32, false),
        Field::new("seq", DataType::Int64, false),
        Field::new("effective", DataType::Boolean, false),
        Field::new("target_cpu", DataType::Int32, true),
    ])
}

impl Wakeups {
    /// Adds a batch. Its rows are ineffective and have the CPUs of `target` until decided.
    pub(super) fn push(&mut self, batch: &RecordBatch, target: Vec<Option<i32>>) {
        let rows = batch.num_rows();
        let effective = vec![false; rows];
        self.pending.push_back(Pending {
            first: self.next_row,
            batch: batch.clone(),
            effective,
            target,
        });
        self.next_row += rows as u64;
    }

    /// The wakeup in a row of the latest batch.
    #[inline]
    pub(super) fn waking(
        &self,
        row: usize,
        (ts, cpu, seq): (i64, i32, i64),
        kind: Kind,
        waker: Option<i64>,
    ) -> Waking {
        let (first, target) = match self.pending.back() {
            Some(entry) => (entry.first, entry.target[row]),
            None => (self.next_row, None),
        };
        let row = first + row as u64;
        Waking { ts, kind, waker, target, moved: false, in_slice: false, row, cpu, seq }
    }

    /// Settles the effect of a wakeup.
    #[inline]
    pub(super) fn decide(&mut self, waking: &Waking, effective: bool) {
        if !effective && !waking.moved {
            return;
        }
        for entry in self.pending.iter_mut().rev() {
            if waking.row >= entry.first {
                let row = (waking.row - entry.first) as usize;
                entry.effective[row] = effective;
                entry.target[row] = waking.target;
                return;
            }
        }
        self.cpu.append_value(waking.cpu);
        self.seq.append_value(waking.seq);
        self.effective.append_value(effective);
        self.target.append_option(waking.target);
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
            let schema = entry.batch.schema();
            let mut columns = entry.batch.columns().to_vec();
            let effective: ArrayRef = Arc::new(BooleanArray::from(entry.effective));
            let target: ArrayRef = Arc::new(Int32Array::from(entry.target));
            for (name, array) in [("effective", effective), ("target_cpu", target)] {
                let place = schema.index_of(name)?;
                columns[place] = array;
            }
            out.push(Output { table: "wakeup", batch: RecordBatch::try_new(schema, columns)? });
        }
        if self.corrections > 0 {
            let columns: Vec<ArrayRef> = vec![
                Arc::new(Int64Array::from_value(trace_id, self.corrections)),
                Arc::new(self.cpu.finish()),
                Arc::new(self.seq.finish()),
                Arc::new(self.effective.finish()),
                Arc::new(self.target.finish()),
            ];
            self.corrections = 0;
            let batch = RecordBatch::try_new(Arc::new(wakeup_mend_schema()), columns)?;
            out.push(Output { table: "wakeup_mend", batch });
        }
        Ok(())
    }
}
