//! Which logical CPUs each thread may run on.

use std::collections::HashMap;

use super::input::{AffinityRow, SeenRow};
use super::mask::Mask;
use super::threads::ByThread;

/// A set of allowed CPUs, shared by all threads that have it.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Allowed {
    /// The CPUs.
    pub cpus: Mask,
    /// False: these are the CPUs the thread was seen on.
    pub known: bool,
}

/// A thread's allowed CPUs change.
#[derive(Clone, Copy, Debug)]
pub struct AffinityChange {
    /// From when on.
    pub ts: i64,
    /// Thread.
    pub utid: i64,
    /// Number of the new set.
    pub set: usize,
}

/// The sets in force, by thread.
#[derive(Debug)]
pub struct Affinity {
    /// All sets that ever hold.
    pub sets: Vec<Allowed>,
    of: ByThread<usize>,
    nowhere: usize,
}

impl Affinity {
    /// Sets in force at `first_ns`, and the changes after it in the order of time.
    ///
    /// A thread without a set, or before its first one, gets the CPUs it was seen on. `place`
    /// gives the place of a CPU number, and `cpus` is the number of places.
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
            // A set of which the recording shows no CPU says nothing about it.
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

    /// Number of the set of a thread.
    pub fn set_of(&self, utid: i64) -> usize {
        self.of.get(&utid).copied().unwrap_or(self.nowhere)
    }

    /// Brings a change into force.
    pub fn apply(&mut self, change: AffinityChange) {
        self.of.insert(change.utid, change.set);
    }
}
