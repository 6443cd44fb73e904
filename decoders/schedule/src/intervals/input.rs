//! The input rows of the intervals, in stream order.

use arrow_array::cast::AsArray;
use arrow_array::types::{ArrowPrimitiveType, Int8Type, Int32Type, Int64Type};
use arrow_array::{Array, BooleanArray, PrimitiveArray, RecordBatch};
use arrow_schema::ArrowError;

/// A stream of record batches.
pub type Batches = Box<dyn Iterator<Item = Result<RecordBatch, ArrowError>> + Send>;

/// The time that is summed up.
#[derive(Clone, Copy, Debug)]
pub struct Window {
    /// Recording.
    pub trace_id: i64,
    /// Its start.
    pub start_ns: i64,
    /// Its end.
    pub end_ns: i64,
}

/// Why the intervals could not be computed.
#[derive(Debug, thiserror::Error)]
pub enum IntervalError {
    /// An input lacks a column, or the column has another type.
    #[error("input {input}: no column {column} of the required type")]
    Column {
        /// Input name.
        input: &'static str,
        /// Column name.
        column: &'static str,
    },
    /// An input is not in time order.
    #[error("input {input}: the row at {ts} ns comes after one at {before} ns")]
    Order {
        /// Input name.
        input: &'static str,
        /// Time of the row that is out of order.
        ts: i64,
        /// Time of the row before it.
        before: i64,
    },
    /// Columns of time are powers of two, each wider than the one before it.
    #[error("{0} ns is not the width of a column")]
    Width(i64),
    /// The stream failed.
    #[error(transparent)]
    Arrow(#[from] ArrowError),
}

/// What a logical CPU does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CpuKind {
    /// Runs a thread.
    Thread,
    /// Interrupt work in the idle thread.
    Interrupt,
    /// Idle.
    Idle,
    /// Unknown.
    Unknown,
    /// Offline.
    Offline,
}

impl CpuKind {
    /// Whether it counts as busy.
    pub fn is_busy(self) -> bool {
        matches!(self, Self::Thread | Self::Interrupt)
    }

    fn from_code(code: Option<i8>) -> Self {
        match code {
            Some(0) => Self::Thread,
            Some(1) => Self::Interrupt,
            Some(2) => Self::Idle,
            Some(4) => Self::Offline,
            _ => Self::Unknown,
        }
    }
}

/// A row type and the name of its input.
pub trait Row: Sized {
    /// Input name, for messages.
    const INPUT: &'static str;
    /// Appends the rows of a batch.
    fn read(batch: &RecordBatch, into: &mut Vec<Self>) -> Result<(), IntervalError>;
}

fn primitive<'a, T: ArrowPrimitiveType>(
    batch: &'a RecordBatch,
    input: &'static str,
    column: &'static str,
) -> Result<&'a PrimitiveArray<T>, IntervalError> {
    batch
        .column_by_name(column)
        .and_then(|array| array.as_primitive_opt::<T>())
        .ok_or(IntervalError::Column { input, column })
}

fn boolean<'a>(
    batch: &'a RecordBatch,
    input: &'static str,
    column: &'static str,
) -> Result<&'a BooleanArray, IntervalError> {
    batch
        .column_by_name(column)
        .and_then(|array| array.as_boolean_opt())
        .ok_or(IntervalError::Column { input, column })
}

fn opt<T: ArrowPrimitiveType>(array: &PrimitiveArray<T>, at: usize) -> Option<T::Native> {
    array.is_valid(at).then(|| array.value(at))
}

fn opt_bool(array: &BooleanArray, at: usize) -> Option<bool> {
    array.is_valid(at).then(|| array.value(at))
}

/// Declares a row type: each field with the Arrow type of its column, `?` if it may be NULL.
macro_rules! row {
    ($(#[$doc:meta])* $name:ident, $input:literal, { $($(#[$field_doc:meta])* $field:ident : $kind:ident),+ $(,)? }) => {
        $(#[$doc])*
        #[derive(Clone, Copy, Debug)]
        pub struct $name { $($(#[$field_doc])* pub $field: row!(@type $kind),)+ }

        impl Row for $name {
            const INPUT: &'static str = $input;
            fn read(batch: &RecordBatch, into: &mut Vec<Self>) -> Result<(), IntervalError> {
                $(let $field = row!(@column $kind, batch, Self::INPUT, stringify!($field))?;)+
                into.reserve(batch.num_rows());
                for at in 0..batch.num_rows() {
                    into.push(Self { $($field: row!(@value $kind, $field, at),)+ });
                }
                Ok(())
            }
        }
    };
    (@type long) => { i64 };
    (@type long_opt) => { Option<i64> };
    (@type int) => { i32 };
    (@type int_opt) => { Option<i32> };
    (@type tiny) => { i8 };
    (@type flag) => { bool };
    (@type flag_opt) => { Option<bool> };
    (@type state) => { CpuKind };
    (@column long, $b:expr, $i:expr, $c:expr) => { primitive::<Int64Type>($b, $i, $c) };
    (@column long_opt, $b:expr, $i:expr, $c:expr) => { primitive::<Int64Type>($b, $i, $c) };
    (@column int, $b:expr, $i:expr, $c:expr) => { primitive::<Int32Type>($b, $i, $c) };
    (@column int_opt, $b:expr, $i:expr, $c:expr) => { primitive::<Int32Type>($b, $i, $c) };
    (@column tiny, $b:expr, $i:expr, $c:expr) => { primitive::<Int8Type>($b, $i, $c) };
    (@column state, $b:expr, $i:expr, $c:expr) => { primitive::<Int8Type>($b, $i, $c) };
    (@column flag, $b:expr, $i:expr, $c:expr) => { boolean($b, $i, $c) };
    (@column flag_opt, $b:expr, $i:expr, $c:expr) => { boolean($b, $i, $c) };
    (@value long, $a:expr, $at:expr) => { $a.value($at) };
    (@value int, $a:expr, $at:expr) => { $a.value($at) };
    (@value tiny, $a:expr, $at:expr) => { $a.value($at) };
    (@value flag, $a:expr, $at:expr) => { opt_bool($a, $at).unwrap_or(false) };
    (@value long_opt, $a:expr, $at:expr) => { opt($a, $at) };
    (@value int_opt, $a:expr, $at:expr) => { opt($a, $at) };
    (@value flag_opt, $a:expr, $at:expr) => { opt_bool($a, $at) };
    (@value state, $a:expr, $at:expr) => { CpuKind::from_code(opt($a, $at)) };
}

row! {
    /// A logical CPU and its position in the topology from a time on.
    CpuRow, "cpu", {
        /// Logical CPU.
        cpu: int,
        /// Its core, if known.
        core: int_opt,
        /// An index for each core type, if known.
        type_id: int_opt,
        /// Band of the core type: 0 P or U, 1 E or LP-E, 2 unknown or numbered.
        band: tiny,
        /// Whether it is online, if the topology states it.
        online: flag_opt,
        /// Start of validity; NULL from the beginning.
        valid_from_ns: long_opt,
    }
}
row! {
    /// A row of `cpu_state`.
    StateRow, "cpu_state", {
        /// Start, ns.
        ts: long,
        /// Length, ns.
        dur: long,
        /// Logical CPU.
        cpu: int,
        /// What it does: 0 thread, 1 interrupt, 2 idle, 3 unknown, 4 offline.
        state: state,
        /// Its thread, in state thread.
        utid: long_opt,
    }
}
row! {
    /// A ready period of a thread.
    ReadyRow, "ready", {
        /// Start, ns.
        ts: long,
        /// Length, ns.
        dur: long,
        /// Thread.
        utid: long,
        /// The CPU on which it was then switched in, if that was seen.
        entered_cpu: int_opt,
        /// CPU of the slice that ended where this period starts, if that slice ended runnable.
        left_cpu: int_opt,
        /// The thread's state is unknown after this period: its switch-in may follow at once.
        cut: flag,
        /// Its start was not seen.
        left_censored: flag,
        /// It waits because of CPU rate control.
        rate_controlled: flag,
        /// Its switch-in was not seen, and its state is unknown afterwards.
        unseen: flag,
    }
}
row! {
    /// An idle interval that lost records cut off, and that is too short to count.
    ShortIdle, "short_idle", {
        /// Start, ns.
        ts: long,
        /// Length, ns.
        dur: long,
    }
}
row! {
    /// A slice of a thread other than an idle thread.
    SliceRow, "slices", {
        /// Switch-in.
        ts: long,
        /// Length, ns.
        dur: long,
        /// Logical CPU.
        cpu: int,
        /// Thread.
        utid: long,
        /// Start of the preceding ready period, if known.
        ready_from_ns: long_opt,
        /// Why it ended: 1 quantum_end, 2 quantum_end_or_yield, 3 preempted, 4 runnable_other, 0
        /// any other.
        ended: tiny,
    }
}
row! {
    /// One CPU of a set of allowed CPUs.
    AffinityRow, "affinity", {
        /// Thread.
        utid: long,
        /// Start of validity; NULL from the beginning.
        valid_from_ns: long_opt,
        /// A logical CPU it may run on.
        cpu: int,
    }
}
row! {
    /// A CPU that a thread was seen on.
    SeenRow, "seen", {
        /// Thread.
        utid: long,
        /// Logical CPU.
        cpu: int,
    }
}
row! {
    /// A row of `cpu_parking`.
    ParkingRow, "parking", {
        /// Start of validity; NULL from the beginning.
        ts: long_opt,
        /// Logical CPU.
        cpu: int,
        /// Parked.
        parked: flag_opt,
        /// Soft-parked.
        soft_parked: flag_opt,
    }
}
row! {
    /// A thread whose cgroup was throttled in the step.
    ThrottledRow, "throttled", {
        /// Thread.
        utid: long,
        /// Its cgroup's throttled time was not read at the end.
        unread: flag,
    }
}
row! {
    /// A frame whose critical path is requested.
    PathFrame, "frames", {
        /// Process.
        upid: long,
        /// Number of the frame in its process.
        frame: long,
        /// Thread that presents.
        utid: long,
        /// Start, ns.
        start_ns: long,
        /// End, ns.
        end_ns: long,
    }
}
row! {
    /// A state of a thread that may be on a critical path.
    PathState, "states", {
        /// Thread.
        utid: long,
        /// Start, ns.
        ts: long,
        /// Length, ns.
        dur: long,
        /// 0 running, 1 ready, 2 waiting, 3 anything else.
        state: tiny,
        /// Who woke it, for a ready state; NULL if unknown or an interrupt.
        waker_utid: long_opt,
    }
}
row! {
    /// The weight of a thread among those that share the CPUs.
    WeightRow, "weights", {
        /// Thread.
        utid: long,
        /// 0: it runs before all threads that share.
        weight: int,
        /// Nothing shows whether it shares.
        is_unclear: flag,
        /// The group in which it shares; 0: none.
        group: int,
    }
}
row! {
    /// What a thread counts with; a group is named by the lowest id of its threads.
    GroupRow, "groups", {
        /// Thread.
        utid: long,
        /// Worker pool; NULL if it belongs to none.
        pool: long_opt,
        /// Processes of one name.
        process: long,
    }
}
row! {
    /// A period in which a thread runs or is ready.
    RunnableRow, "runnable", {
        /// Start, ns.
        ts: long,
        /// Length, ns.
        dur: long,
        /// Thread.
        utid: long,
        /// It is ready, not running.
        is_ready: flag,
    }
}

row! {
    /// What a lane of the timeline shows for a time.
    PartRow, "parts", {
        /// The thread or CPU.
        lane: long,
        /// Start, ns.
        ts: long,
        /// End, ns.
        end_ns: long,
        /// What it does.
        key: long,
    }
}

/// Reads all rows of a small input.
pub fn read_all<R: Row>(batches: Batches) -> Result<Vec<R>, IntervalError> {
    let mut rows = Vec::new();
    for batch in batches {
        R::read(&batch?, &mut rows)?;
    }
    Ok(rows)
}

/// Reads rows one by one, keeping one batch in memory.
pub struct Cursor<R> {
    batches: Batches,
    rows: Vec<R>,
    at: usize,
}

impl<R: Row + Copy> Cursor<R> {
    /// Starts before the first row.
    pub fn new(batches: Batches) -> Self {
        Self { batches, rows: Vec::new(), at: 0 }
    }

    /// The next row, without consuming it.
    pub fn peek(&mut self) -> Result<Option<&R>, IntervalError> {
        while self.at == self.rows.len() {
            let Some(batch) = self.batches.next() else { return Ok(None) };
            self.rows.clear();
            self.at = 0;
            R::read(&batch?, &mut self.rows)?;
        }
        Ok(self.rows.get(self.at))
    }

    /// Consumes the row that [`Cursor::peek`] returned.
    pub fn skip(&mut self) {
        self.at += 1;
    }
}
