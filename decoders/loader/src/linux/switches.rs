//! Rows of `context_switch`.

use arrow_schema::ArrowError;
use schedlens_schedule::columns::{Column, Named};
use schedlens_schedule::pool::Pools;
use schedlens_schedule::staged::{Cell, Staged, is_full};
use schedlens_schedule::tables::{Busy, Moment};

use super::staged_table::staged_table;

/// Words of `context_switch.source`: the tracepoint, and a pair of `PERF_RECORD_SWITCH`.
const SOURCES: [&str; 2] = ["switch", "switch_event"];

staged_table! {
    /// A row of `context_switch` without its moment.
    Switch, Switches {
        prev: Option<i64> => "prev_utid",
        next: Option<i64> => "next_utid",
        prev_state: Option<i32> => "prev_state",
        prev_priority: Option<i32> => "prev_priority",
        next_priority: Option<i32> => "next_priority",
        prev_preempted: Option<bool> => "prev_preempted",
    }
    /// Index in [`SOURCES`].
    source => "source" in SOURCES
}

impl Switch {
    /// `source` of a switch from the tracepoint.
    pub(crate) const TRACEPOINT: u8 = 0;
    /// `source` of a switch from a pair of `PERF_RECORD_SWITCH`.
    pub(crate) const SWITCH_EVENT: u8 = 1;
}
