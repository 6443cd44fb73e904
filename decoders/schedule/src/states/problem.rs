//! Counts what the state machine corrected or could not explain.

use std::sync::Arc;

use arrow_array::{ArrayRef, Int64Array, StringArray};

use super::StateError;
use super::rows::batch;
use crate::chunk::Output;

/// Kinds of problems, in the order of their texts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum ProblemKind {
    NoWaking = 0,
    ChainBreak = 1,
    Planned = 2,
    TickUnknown = 3,
    Backwards = 4,
    BadThread = 5,
    BadCpu = 6,
    StreamEnd = 7,
    CounterFell = 8,
    BadGap = 9,
    BeforeLife = 10,
    SilentCpu = 11,
    Unseen = 12,
}

const TEXTS: [&str; 13] = [
    "switch-in without a waking since the switch-out: how long it was ready is unknown",
    "the thread that leaves is not the one that entered last: taken as loss",
    "switch-in that was planned but did not happen: replaced by the thread that ran",
    "tick unknown: quantum ends assume 1 ms",
    "record earlier than the previous one: moved to its time",
    "thread number of another recording or out of range: treated as unknown",
    "CPU number out of range: record left out of the states",
    "the records of a CPU end before the recording does: unknown from there",
    "counter decreased: interval skipped",
    "gap that ends before its start or before the last switch of its CPU: shortened",
    "record of a thread before its creation: creation moved to the record",
    "CPU without a record of a thread that was sent there and ran: unknown until its next record",
    "woken thread without a switch, woken again or its CPU idle since: unknown throughout",
];

/// Counts by [`ProblemKind`].
#[derive(Debug, Default)]
pub(super) struct Problems {
    counts: [u64; TEXTS.len()],
}

impl Problems {
    pub(super) fn add(&mut self, kind: ProblemKind) {
        self.add_many(kind, 1);
    }

    pub(super) fn add_many(&mut self, kind: ProblemKind, count: u64) {
        let place = &mut self.counts[kind as usize];
        *place = place.saturating_add(count);
    }

    /// The rows of `problem`, if any.
    pub(super) fn take(self, trace_id: i64) -> Result<Option<Output>, StateError> {
        let found: Vec<(&str, i64)> = TEXTS
            .iter()
            .zip(self.counts)
            .filter(|&(_, count)| count > 0)
            .map(|(text, count)| (*text, i64::try_from(count).unwrap_or(i64::MAX)))
            .collect();
        if found.is_empty() {
            return Ok(None);
        }
        let columns: Vec<ArrayRef> = vec![
            Arc::new(StringArray::from_iter_values(found.iter().map(|_| "states"))),
            Arc::new(StringArray::from_iter_values(found.iter().map(|(text, _)| *text))),
            Arc::new(Int64Array::from_iter_values(found.iter().map(|(_, count)| *count))),
        ];
        batch("problem", trace_id, found.len(), columns).map(Some)
    }
}
