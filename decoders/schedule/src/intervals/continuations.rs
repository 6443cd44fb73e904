//! How long an idle CPU, or a whole idle core, remains idle.
//!
//! The pass reads each state with its end, so it knows the end of an idle interval when the
//! interval starts, except where idle and offline states follow each other. These few continuations
//! are collected beforehand.

use std::collections::{HashMap, HashSet};

use super::input::{Batches, CpuKind, Cursor, IntervalError, StateRow};

/// The idle, offline and unknown states that start where an idle or offline state of the same CPU
/// ends.
#[derive(Debug, Default)]
pub struct Continuations {
    next: HashMap<(i32, i64), (i64, bool)>,
    unknown: HashSet<(i32, i64)>,
}

/// One part of a period without work on a CPU.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Part {
    /// Start, ns.
    pub start_ns: i64,
    /// End, ns.
    pub end_ns: i64,
    /// The CPU is offline in it.
    pub offline: bool,
}

impl Continuations {
    /// Reads the idle, offline and unknown states, each CPU's in time order.
    pub fn read(batches: Batches) -> Result<Self, IntervalError> {
        let mut ends: HashMap<i32, i64> = HashMap::new();
        let mut next = HashMap::new();
        let mut unknown = HashSet::new();
        let mut rows = Cursor::<StateRow>::new(batches);
        while let Some(row) = rows.peek()?.copied() {
            rows.skip();
            if row.dur <= 0 {
                continue;
            }
            match row.state {
                CpuKind::Idle | CpuKind::Offline => {}
                CpuKind::Unknown => {
                    if ends.get(&row.cpu) == Some(&row.ts) {
                        unknown.insert((row.cpu, row.ts));
                    }
                    continue;
                }
                CpuKind::Thread | CpuKind::Interrupt => continue,
            }
            let end = row.ts.saturating_add(row.dur);
            if ends.insert(row.cpu, end) == Some(row.ts) {
                next.insert((row.cpu, row.ts), (end, row.state == CpuKind::Offline));
            }
        }
        Ok(Self { next, unknown })
    }

    /// Whether a CPU's state is unknown from `ts` on, where an idle or offline state ends.
    pub fn is_unknown_from(&self, cpu: i32, ts: i64) -> bool {
        self.unknown.contains(&(cpu, ts))
    }

    /// End of the idle interval of a CPU whose idle state ends at `end_ns`.
    pub fn idle_end(&self, cpu: i32, mut end_ns: i64) -> i64 {
        while let Some((end, false)) = self.next.get(&(cpu, end_ns)) {
            end_ns = *end;
        }
        end_ns
    }

    /// The parts without work of a CPU, starting with its current idle or offline state.
    fn parts(&self, cpu: i32, first: Part, into: &mut Vec<Part>) {
        into.clear();
        into.push(first);
        let mut end_ns = first.end_ns;
        while let Some((end, offline)) = self.next.get(&(cpu, end_ns)) {
            into.push(Part { start_ns: end_ns, end_ns: *end, offline: *offline });
            end_ns = *end;
        }
    }

    /// End of the idle interval of a whole core: the first moment at which one of its CPUs is busy
    /// or unknown, or at which all are offline. Each CPU comes with its current part.
    pub fn core_end(&self, cpus: impl Iterator<Item = (i32, Part)>) -> i64 {
        let mut end = i64::MAX;
        let mut parts = Vec::new();
        // Periods in which every CPU seen so far is offline.
        let mut all_offline: Option<Vec<(i64, i64)>> = None;
        for (cpu, first) in cpus {
            self.parts(cpu, first, &mut parts);
            end = end.min(parts.last().map_or(i64::MAX, |part| part.end_ns));
            let offline = parts.iter().filter(|p| p.offline).map(|p| (p.start_ns, p.end_ns));
            all_offline = Some(match all_offline {
                None => offline.collect(),
                Some(before) if before.is_empty() => before,
                Some(before) => offline
                    .flat_map(|(from, to)| {
                        before.iter().map(move |(a, b)| (from.max(*a), to.min(*b)))
                    })
                    .filter(|(from, to)| from < to)
                    .collect(),
            });
        }
        let gone = all_offline.unwrap_or_default().iter().map(|(from, _)| *from).min();
        gone.map_or(end, |gone| end.min(gone))
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use arrow_array::{ArrayRef, Int8Array, Int32Array, Int64Array, RecordBatch};

    use super::*;

    fn part(start_ns: i64, end_ns: i64, offline: bool) -> Part {
        Part { start_ns, end_ns, offline }
    }

    fn continuations(rows: &[(i32, i64, i64, bool)]) -> Continuations {
        let next = rows.iter().map(|r| ((r.0, r.1), (r.2, r.3))).collect();
        Continuations { next, unknown: HashSet::new() }
    }

    #[test]
    fn idle_cpu_going_offline_does_not_end_the_idle_interval() {
        // CPU 0: idle 0..100 ; CPU 1: idle 0..50, offline 50..200
        let next = continuations(&[(1, 50, 200, true)]);
        let cpus = [(0, part(0, 100, false)), (1, part(0, 50, false))];
        assert_eq!(next.core_end(cpus.into_iter()), 100);
        assert_eq!(next.idle_end(1, 50), 50);
    }

    #[test]
    fn core_without_an_online_cpu_is_not_idle() {
        // CPU 0: idle 0..60, offline 60..200 ; CPU 1: idle 0..50, offline 50..200
        let next = continuations(&[(0, 60, 200, true), (1, 50, 200, true)]);
        let cpus = [(0, part(0, 60, false)), (1, part(0, 50, false))];
        assert_eq!(next.core_end(cpus.into_iter()), 60);
    }

    #[test]
    fn idle_states_that_touch_are_one_interval() {
        let next = continuations(&[(0, 10, 20, false), (0, 20, 50, false)]);
        assert_eq!(next.idle_end(0, 10), 50);
    }

    #[test]
    fn unknown_state_after_an_idle_one_is_remembered() {
        // CPU 0: idle 0..10, unknown 10..20, idle 20..30, thread 30.. ; CPU 1: unknown 0..5
        let state = Arc::new(Int8Array::from(vec![2, 3, 2, 0, 3]));
        let batch = RecordBatch::try_from_iter([
            ("ts", Arc::new(Int64Array::from(vec![0, 10, 20, 30, 0])) as ArrayRef),
            ("dur", Arc::new(Int64Array::from(vec![10, 10, 10, 5, 5]))),
            ("cpu", Arc::new(Int32Array::from(vec![0, 0, 0, 0, 1]))),
            ("state", state),
            ("utid", Arc::new(Int64Array::from(vec![None, None, None, Some(1), None]))),
        ])
        .expect("columns of one length");
        let next = Continuations::read(Box::new(std::iter::once(Ok(batch)))).expect("read");
        assert!(next.is_unknown_from(0, 10));
        assert!(!next.is_unknown_from(0, 30));
        assert!(!next.is_unknown_from(1, 0));
    }
}
