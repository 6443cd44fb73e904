//! The cgroup of each thread over time; `cgroup_moves` reads them from records.

use std::collections::HashMap;

/// A thread whose cgroup is not known.
const UNKNOWN: u32 = u32::MAX;

/// A change of a thread's cgroup.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Change {
    pub(super) life: u32,
    pub(super) ts: i64,
    pub(super) path: u32,
    pub(super) source: &'static str,
}

/// What is known of the cgroups of all threads.
#[derive(Debug, Default)]
pub(crate) struct Cgroups {
    pub(super) paths: Vec<String>,
    numbers: HashMap<String, u32>,
    /// Index of the path by the kernel's id.
    by_id: HashMap<u64, u32>,
    /// The latest path of each thread lifetime.
    latest: Vec<u32>,
    pub(super) changes: Vec<Change>,
    pub(super) sought: usize,
    /// Attachments in hierarchies of version 1: which controllers these have is not recorded.
    pub(crate) version_1: i64,
    /// Processes that moved after the limit was reached.
    pub(crate) unsought: i64,
}

impl Cgroups {
    pub(super) fn number(&mut self, path: String) -> u32 {
        let next = self.paths.len() as u32;
        *self.numbers.entry(path).or_insert_with_key(|path| {
            self.paths.push(path.clone());
            next
        })
    }

    /// `PERF_RECORD_CGROUP`: the path of an id.
    pub(crate) fn named(&mut self, id: u64, path: String) {
        let number = self.number(path);
        self.by_id.insert(id, number);
    }

    /// A sample of a thread contains the id of its cgroup.
    #[inline]
    pub(crate) fn sampled(&mut self, life: u32, ts: i64, id: u64) {
        if let Some(path) = self.by_id.get(&id).copied() {
            self.set(life, ts, path, "sample");
        }
    }

    pub(super) fn set(&mut self, life: u32, ts: i64, path: u32, source: &'static str) {
        let at = life as usize;
        if self.latest.len() <= at {
            self.latest.resize(at + 1, UNKNOWN);
        }
        if self.latest[at] != path {
            self.latest[at] = path;
            self.changes.push(Change { life, ts, path, source });
        }
    }

    /// A new thread begins in the cgroup of the one that created it.
    pub(super) fn born(&mut self, life: u32, parent: u32, ts: i64) {
        if let Some(path) = self.latest.get(parent as usize).filter(|path| **path != UNKNOWN) {
            let path = *path;
            if self.latest.get(life as usize).is_none_or(|own| *own == UNKNOWN) {
                self.set(life, ts, path, "birth");
            }
        }
    }
}
