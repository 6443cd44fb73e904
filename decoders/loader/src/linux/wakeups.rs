//! Rows of `wakeup`.

use arrow_schema::ArrowError;
use schedlens_schedule::columns::{Column, Named};
use schedlens_schedule::pool::Pools;
use schedlens_schedule::staged::{Cell, Staged, is_full};
use schedlens_schedule::tables::{Busy, Moment};
use schedlens_tracepoints::events::WAKEUP_KINDS;

use super::staged_table::staged_table;

staged_table! {
    /// A row of `wakeup` without its moment.
    Wakeup, Wakeups {
        utid: Option<i64> => "utid",
        waker: Option<i64> => "waker_utid",
        prev_cpu: Option<i32> => "prev_cpu",
        target_cpu: Option<i32> => "target_cpu",
        in_interrupt: Option<bool> => "in_interrupt",
    }
    /// Index in [`WAKEUP_KINDS`].
    kind => "kind" in WAKEUP_KINDS
}
