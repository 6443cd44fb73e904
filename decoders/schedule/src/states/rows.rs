//! Rows of the derived tables before they become Arrow batches.

use std::sync::Arc;

use arrow_array::types::{Int32Type, Int64Type, UInt8Type};
use arrow_array::{ArrayRef, Int64Array, RecordBatch};
use arrow_schema::SchemaRef;

use super::StateError;
use super::column::{Column, FlagColumn};
use super::words::{self, CPU_STATES, CpuWord, END_REASONS, EndReason, STATES, State, Words};
use crate::chunk::Output;
use crate::schema;

/// Rows in one batch: a DuckDB row group, so that DuckDB need not merge batches. The fuzzer's inputs
/// are short, and should fill batches all the same.
pub(super) const BATCH_ROWS: usize = if cfg!(feature = "fuzzing") { 16 } else { 122_880 };

/// Rows to allocate: the last moment of a batch may add some.
const ROOM: usize = BATCH_ROWS + 64;

/// A time before the first record; at the end it becomes the trace's first time.
pub(super) const BEGIN: i64 = i64::MIN;

/// A row of `sched_slice`, with `end` instead of its length.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Slice {
    pub(super) utid: i64,
    pub(super) cpu: i32,
    pub(super) ts: i64,
    pub(super) end: i64,
    pub(super) is_idle: bool,
    pub(super) priority: Option<i32>,
    pub(super) end_reason: Option<EndReason>,
    pub(super) ready_ns: Option<i64>,
    pub(super) wait_ns: Option<i64>,
    pub(super) waker: Option<i64>,
    pub(super) prev_cpu: Option<i32>,
    pub(super) left_censored: bool,
    pub(super) right_censored: bool,
}

/// What a thread did for some time, with `end` instead of its length.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Span {
    pub(super) utid: i64,
    pub(super) ts: i64,
    pub(super) end: i64,
    pub(super) state: State,
    pub(super) reason: Option<u8>,
    pub(super) waker: Option<i64>,
    pub(super) left_censored: bool,
    pub(super) right_censored: bool,
}

/// What a CPU did for some time, with `end` instead of its length.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Tile {
    pub(super) cpu: i32,
    pub(super) ts: i64,
    pub(super) end: i64,
    pub(super) state: CpuWord,
}

/// Makes a batch of a declared table from columns in the table's order.
pub(super) fn batch(
    table: &'static str,
    trace_id: i64,
    rows: usize,
    columns: Vec<ArrayRef>,
) -> Result<Output, StateError> {
    batch_of(table, Int64Array::from_value(trace_id, rows), columns)
}

fn batch_of(
    table: &'static str,
    trace_id: Int64Array,
    mut columns: Vec<ArrayRef>,
) -> Result<Output, StateError> {
    let schema: SchemaRef = schema::table(table).ok_or(StateError::NoTable { table })?;
    columns.insert(0, Arc::new(trace_id));
    Ok(Output { table, batch: RecordBatch::try_new(schema, columns)? })
}

/// Collects `sched_slice`.
pub(super) struct Slices {
    utid: Column<Int64Type>,
    cpu: Column<Int32Type>,
    ts: Column<Int64Type>,
    dur: Column<Int64Type>,
    is_idle: FlagColumn,
    priority: Column<Int32Type>,
    end_reason: Column<UInt8Type>,
    ready_ns: Column<Int64Type>,
    wait_ns: Column<Int64Type>,
    waker: Column<Int64Type>,
    prev_cpu: Column<Int32Type>,
    left: FlagColumn,
    right: FlagColumn,
    pub(super) len: usize,
}

impl Default for Slices {
    fn default() -> Self {
        Self {
            utid: Column::of(ROOM),
            cpu: Column::of(ROOM),
            ts: Column::of(ROOM),
            dur: Column::of(ROOM),
            is_idle: FlagColumn::default(),
            priority: Column::of(ROOM),
            end_reason: Column::of(ROOM),
            ready_ns: Column::of(ROOM),
            wait_ns: Column::of(ROOM),
            waker: Column::of(ROOM),
            prev_cpu: Column::of(ROOM),
            left: FlagColumn::default(),
            right: FlagColumn::default(),
            len: 0,
        }
    }
}

impl Slices {
    #[inline]
    pub(super) fn push(&mut self, row: &Slice) {
        self.utid.push(row.utid);
        self.cpu.push(row.cpu);
        self.ts.push(row.ts);
        self.dur.push(row.end.saturating_sub(row.ts).max(0));
        self.is_idle.push(row.is_idle);
        self.priority.push_option(row.priority);
        self.end_reason.push_option(row.end_reason.map(|reason| reason as u8));
        self.ready_ns.push_option(row.ready_ns);
        self.wait_ns.push_option(row.wait_ns);
        self.waker.push_option(row.waker);
        self.prev_cpu.push_option(row.prev_cpu);
        self.left.push(row.left_censored);
        self.right.push(row.right_censored);
        self.len += 1;
    }

    fn take(&mut self, trace_id: &Int64Array) -> Result<Output, StateError> {
        let rows = trace_id.len();
        self.len -= rows;
        let columns: Vec<ArrayRef> = vec![
            Arc::new(self.utid.finish(rows)),
            Arc::new(self.cpu.finish(rows)),
            Arc::new(self.ts.finish(rows)),
            Arc::new(self.dur.finish(rows)),
            Arc::new(self.is_idle.finish(rows)),
            Arc::new(self.priority.finish(rows)),
            words::column(self.end_reason.finish(rows), &END_REASONS),
            Arc::new(self.ready_ns.finish(rows)),
            Arc::new(self.wait_ns.finish(rows)),
            Arc::new(self.waker.finish(rows)),
            Arc::new(self.prev_cpu.finish(rows)),
            Arc::new(self.left.finish(rows)),
            Arc::new(self.right.finish(rows)),
        ];
        batch_of("sched_slice", trace_id.clone(), columns)
    }
}

/// Collects `thread_state_other`.
pub(super) struct Spans {
    utid: Column<Int64Type>,
    ts: Column<Int64Type>,
    dur: Column<Int64Type>,
    state: Column<UInt8Type>,
    reason: Column<UInt8Type>,
    waker: Column<Int64Type>,
    left: FlagColumn,
    right: FlagColumn,
    pub(super) len: usize,
}

impl Default for Spans {
    fn default() -> Self {
        Self {
            utid: Column::of(ROOM),
            ts: Column::of(ROOM),
            dur: Column::of(ROOM),
            state: Column::of(ROOM),
            reason: Column::of(ROOM),
            waker: Column::of(ROOM),
            left: FlagColumn::default(),
            right: FlagColumn::default(),
            len: 0,
        }
    }
}

impl Spans {
    #[inline]
    pub(super) fn push(&mut self, row: &Span) {
        self.utid.push(row.utid);
        self.ts.push(row.ts);
        self.dur.push(row.end.saturating_sub(row.ts).max(0));
        self.state.push(row.state as u8);
        self.reason.push_option(row.reason);
        self.waker.push_option(row.waker);
        self.left.push(row.left_censored);
        self.right.push(row.right_censored);
        self.len += 1;
    }

    fn take(&mut self, trace_id: &Int64Array, reasons: &Words) -> Result<Output, StateError> {
        let rows = trace_id.len();
        self.len -= rows;
        let columns: Vec<ArrayRef> = vec![
            Arc::new(self.utid.finish(rows)),
            Arc::new(self.ts.finish(rows)),
            Arc::new(self.dur.finish(rows)),
            words::column(self.state.finish(rows), &STATES),
            reasons.column(self.reason.finish(rows)),
            Arc::new(self.waker.finish(rows)),
            Arc::new(self.left.finish(rows)),
            Arc::new(self.right.finish(rows)),
        ];
        batch_of("thread_state_other", trace_id.clone(), columns)
    }
}

/// Collects `cpu_state_other`.
pub(super) struct Tiles {
    cpu: Column<Int32Type>,
    ts: Column<Int64Type>,
    dur: Column<Int64Type>,
    state: Column<UInt8Type>,
    pub(super) len: usize,
}

impl Default for Tiles {
    fn default() -> Self {
        Self {
            cpu: Column::of(ROOM),
            ts: Column::of(ROOM),
            dur: Column::of(ROOM),
            state: Column::of(ROOM),
            len: 0,
        }
    }
}

impl Tiles {
    #[inline]
    pub(super) fn push(&mut self, row: &Tile) {
        self.cpu.push(row.cpu);
        self.ts.push(row.ts);
        self.dur.push(row.end.saturating_sub(row.ts).max(0));
        self.state.push(row.state as u8);
        self.len += 1;
    }

    fn take(&mut self, trace_id: &Int64Array) -> Result<Output, StateError> {
        let rows = trace_id.len();
        self.len -= rows;
        let columns: Vec<ArrayRef> = vec![
            Arc::new(self.cpu.finish(rows)),
            Arc::new(self.ts.finish(rows)),
            Arc::new(self.dur.finish(rows)),
            words::column(self.state.finish(rows), &CPU_STATES),
        ];
        batch_of("cpu_state_other", trace_id.clone(), columns)
    }
}

/// All derived rows not yet handed out. Rows that begin before the first record are kept
/// separately.
#[derive(Default)]
pub(super) struct Rows {
    pub(super) slices: Slices,
    pub(super) spans: Spans,
    pub(super) tiles: Tiles,
    pub(super) early_spans: Vec<Span>,
    pub(super) early_tiles: Vec<Tile>,
    pub(super) reasons: Words,
    /// The column `trace_id` of a whole batch.
    trace_id: Option<Int64Array>,
}

impl Rows {
    /// Adds a thread's state, unless it is empty or that of a slice, which is a row of its own.
    pub(super) fn span(&mut self, row: Span) {
        if row.ts == BEGIN {
            self.early_spans.push(row);
        } else if row.end > row.ts && row.state != State::Running {
            self.spans.push(&row);
        }
    }

    /// Adds a piece of a CPU's time, unless it is empty or that of a slice.
    #[inline]
    pub(super) fn tile(&mut self, row: Tile) {
        if row.end <= row.ts {
            return;
        }
        if row.ts == BEGIN {
            self.early_tiles.push(row);
        } else if row.state != CpuWord::Thread {
            self.tiles.push(&row);
        }
    }

    /// Returns the tables with a full batch; with `all`, every row.
    #[inline]
    pub(super) fn take(
        &mut self,
        trace_id: i64,
        all: bool,
        out: &mut Vec<Output>,
    ) -> Result<(), StateError> {
        let most = self.slices.len.max(self.spans.len).max(self.tiles.len);
        if most >= BATCH_ROWS || all {
            self.take_due(trace_id, all, out)?;
        }
        Ok(())
    }

    #[inline(never)]
    fn take_due(
        &mut self,
        trace_id: i64,
        all: bool,
        out: &mut Vec<Output>,
    ) -> Result<(), StateError> {
        let whole =
            self.trace_id.get_or_insert_with(|| Int64Array::from_value(trace_id, BATCH_ROWS));
        let due = |len: usize| len >= BATCH_ROWS || (all && len > 0);
        while due(self.slices.len) {
            out.push(self.slices.take(&whole.slice(0, self.slices.len.min(BATCH_ROWS)))?);
        }
        while due(self.spans.len) {
            let rows = whole.slice(0, self.spans.len.min(BATCH_ROWS));
            out.push(self.spans.take(&rows, &self.reasons)?);
        }
        while due(self.tiles.len) {
            out.push(self.tiles.take(&whole.slice(0, self.tiles.len.min(BATCH_ROWS)))?);
        }
        Ok(())
    }
}
