//! How many threads of each process ran at once: `concurrency_process_sum`.

use std::cmp::Reverse;
use std::collections::{BTreeMap, BinaryHeap};

use super::input::{GroupRow, IntervalError, RunnableRow, Window};
use super::tables::{Table, Value};
use super::threads::ByThread;
use crate::chunk::Output;

/// Processes of one name.
struct Named {
    /// Lowest id of their threads.
    utid: i64,
    now_ns: i64,
    running: usize,
    /// Time with each number of threads running, from 0.
    spent_ns: Vec<i64>,
}

/// What is known up to the last period.
pub struct ProcessConcurrency {
    window: Window,
    named: Vec<Named>,
    /// The index of each thread's process name.
    threads: ByThread<usize>,
    ends: BinaryHeap<Reverse<(i64, usize)>>,
}

impl ProcessConcurrency {
    /// Before the first period.
    pub fn new(window: Window, groups: &[GroupRow]) -> Self {
        let mut places: BTreeMap<i64, usize> = BTreeMap::new();
        let mut named = Vec::new();
        let mut threads = ByThread::default();
        for row in groups {
            let place = *places.entry(row.process).or_insert_with(|| {
                named.push(Named {
                    utid: row.process,
                    now_ns: window.start_ns,
                    running: 0,
                    spent_ns: Vec::new(),
                });
                named.len() - 1
            });
            threads.insert(row.utid, place);
        }
        Self { window, named, threads, ends: BinaryHeap::new() }
    }

    /// Adds the next period.
    pub fn push(&mut self, row: &RunnableRow) {
        let end_ns = row.ts.saturating_add(row.dur).min(self.window.end_ns);
        let from_ns = row.ts.max(self.window.start_ns);
        if row.is_ready || from_ns >= end_ns {
            return;
        }
        let Some(place) = self.threads.get(&row.utid).copied() else { return };
        self.close_until(from_ns);
        self.named[place].change(from_ns, true);
        self.ends.push(Reverse((end_ns, place)));
    }

    fn close_until(&mut self, now_ns: i64) {
        while let Some(Reverse((end_ns, place))) = self.ends.peek().copied() {
            if end_ns > now_ns {
                return;
            }
            self.ends.pop();
            self.named[place].change(end_ns, false);
        }
    }

    /// The rows of `concurrency_process_sum`; `None` if no thread ran in the window.
    pub fn finish(mut self) -> Result<Option<Output>, IntervalError> {
        self.close_until(i64::MAX);
        let mut table = Table::whole("concurrency_process_sum")?;
        for named in &self.named {
            for (running, ns) in named.spent_ns.iter().enumerate().skip(1) {
                if *ns > 0 {
                    table.push(&[
                        Value::Long(self.window.trace_id),
                        Value::Long(self.window.start_ns),
                        Value::Long(self.window.end_ns),
                        Value::Long(named.utid),
                        Value::Int(running as i32),
                        Value::Long(*ns),
                    ]);
                }
            }
        }
        Ok(table.last()?)
    }
}

impl Named {
    fn change(&mut self, now_ns: i64, starts: bool) {
        if self.spent_ns.len() <= self.running {
            self.spent_ns.resize(self.running + 1, 0);
        }
        self.spent_ns[self.running] += now_ns - self.now_ns;
        self.now_ns = now_ns;
        self.running = if starts { self.running + 1 } else { self.running - 1 };
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn time_is_counted_by_the_number_that_run_and_only_in_the_window() {
        let groups: Vec<GroupRow> =
            (1..=3).map(|utid| GroupRow { utid, pool: None, process: (utid + 1) / 2 }).collect();
        let window = Window { trace_id: 1, start_ns: 0, end_ns: 100 };
        let mut processes = ProcessConcurrency::new(window, &groups);
        for (ts, dur, utid, is_ready) in [
            (-10, 30, 1, false),
            (5, 15, 2, false),
            (5, 5, 3, true),
            (50, 100, 3, false),
            (120, 5, 1, false),
        ] {
            processes.push(&RunnableRow { ts, dur, utid, is_ready });
        }
        processes.close_until(i64::MAX);
        let spent: Vec<_> = processes.named.iter().map(|named| named.spent_ns.clone()).collect();
        assert_eq!(spent, [vec![0, 5, 15], vec![50, 50]]);
    }
}
