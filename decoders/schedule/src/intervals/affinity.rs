//! Which logical CPUs each thread may run on.

use std::collections::HashMap;

use super::input::{AffinityRow, SeenRow};
use super::mask::Mask;
use super::threads::ByThread;

/// A set of allowed CPUs, shared by all threads with the same set.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Allowed {
    /// The CPUs.
    pub cpus: Mask,
    /// False if these are only the CPUs on which the thread was seen.
    pub known: bool,
}

/// A change of a thread's allowed CPUs.
#[derive(Clone, Copy, Debug)]
pub struct AffinityChange {
    /// Time of the change.
    pub ts: i64,
    /// Thread.
    pub utid: i64,
    /// Index of the new set.
    pub set: usize,
}

/// The current set of each thread.
#[derive(Debug)]
pub struct Affinity {
    /// All sets that ever apply.
    pub sets: Vec<Allowed>,
    of: ByThread<usize>,
    nowhere: usize,
}

impl Affinity {
    /// The sets in force at `first_ns`, and the later changes in time order.
    ///
    /// A thread without a set, or before its first one, gets the CPUs it was seen on. `place` maps
    /// a CPU number to its index, and `cpus` is the number of indexes.
    pub fn new(
        mut rows: Vec<AffinityRow>,
        seen: &[SeenRow],
        first_ns: i64,
        cpus: usize,
        place: impl Fn(i32) -> Option<usize>,
    ) -> (Self, Vec<AffinityChange>) {
        let mut numbers: HashMap<Allowed, usize> = HashMap::new();
        let mut sets: Vec<Allowed> = Vec::new();
        let mut number = |cpus: Mask, known: bool| {
            let allowed = Allowed { cpus, known };
            *numbers.entry(allowed.clone()).or_insert_with(|| {
                sets.push(allowed);
                sets.len() - 1
            })
        };
        let nowhere = number(Mask::new(cpus), false);
        let mut seen_on: ByThread<Mask> = ByThread::default();
        for row in seen {
            if let Some(at) = place(row.cpu) {
                seen_on.entry(row.utid).or_insert_with(|| Mask::new(cpus)).set(at, true);
            }
        }
        let mut of: ByThread<usize> =
            seen_on.into_iter().map(|(utid, mask)| (utid, number(mask, false))).collect();
        let mut changes = Vec::new();
        let from = |row: &AffinityRow| row.valid_from_ns.unwrap_or(i64::MIN);
        rows.sort_by_key(|row| (from(row), row.utid));
        for group in rows.chunk_by(|a, b| from(a) == from(b) && a.utid == b.utid) {
            let mut mask = Mask::new(cpus);
            for at in group.iter().filter_map(|row| place(row.cpu)) {
                mask.set(at, true);
            }
            // Ignore a set if the recording shows none of its CPUs.
            if mask.is_empty() {
                continue;
            }
            let (ts, utid, set) = (from(&group[0]), group[0].utid, number(mask, true));
            if ts <= first_ns {
                of.insert(utid, set);
            } else {
                changes.push(AffinityChange { ts, utid, set });
            }
        }
        (Self { sets, of, nowhere }, changes)
    }

    /// Index of a thread's set.
    pub fn set_of(&self, utid: i64) -> usize {
        self.of.get(&utid).copied().unwrap_or(self.nowhere)
    }

    /// Applies a change.
    pub fn apply(&mut self, change: AffinityChange) {
        self.of.insert(change.utid, change.set);
    }
}
