//! Buffers that overwrite their oldest records (`perf record --overwrite`).
//!
//! The kernel fills them backward, so the records of a CPU are in the file with the newest first.
//! Each buffer keeps as much as fits: the CPU that wrote most begins last.

use std::collections::BTreeMap;

use crate::ids::Events;
use crate::index::Index;
use crate::loss::LostRecords;
use crate::streams::NO_CPU;

/// The value of `loss.signalled_by` for overwritten records.
const OVERWRITTEN: &str = "overwritten";

impl Index {
    /// If the buffers were overwritten, expects records in any order: none is out of place.
    pub(crate) fn expect_backward(&mut self, events: &Events) {
        self.is_overwritten = events.attrs.iter().any(|attr| attr.is_backward());
        self.is_disordered |= self.is_overwritten;
    }

    /// The time before the first record of each CPU but the one that begins first: it may have
    /// written records then.
    pub(crate) fn overwritten(&self) -> Vec<LostRecords> {
        let mut firsts: BTreeMap<i32, u64> = BTreeMap::new();
        if self.is_overwritten {
            for (cpu, first) in self.first_times() {
                let known = firsts.entry(cpu).or_insert(first);
                *known = first.min(*known);
            }
        }
        firsts
            .into_iter()
            .filter(|&(cpu, first)| cpu != NO_CPU && self.first.is_some_and(|start| first > start))
            .map(|(cpu, first)| LostRecords {
                cpu,
                before: None,
                until: Some(first),
                events: None,
                signalled_by: OVERWRITTEN,
            })
            .collect()
    }
}
