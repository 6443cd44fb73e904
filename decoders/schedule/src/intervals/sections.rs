//! The parallel sections of worker pools, added up by the number of workers: `parallel_section_sum`.
//!
//! A section lasts from the moment one worker becomes runnable until none is. A worker that stops at
//! the moment another one starts does not end it.

use std::cmp::Reverse;
use std::collections::{BTreeMap, BinaryHeap};

use super::input::{GroupRow, IntervalError, RunnableRow, Window};
use super::tables::{Table, Value};
use super::threads::ByThread;
use crate::chunk::Output;

/// A section that has not ended.
#[derive(Default)]
struct Open {
    from_ns: i64,
    run_ns: i64,
    ready_ns: i64,
    most_running: i32,
    /// Workers that ran in it, in rising order.
    workers: Vec<i64>,
}

/// A pool and what its workers do now.
struct Pool {
    /// Lowest id of its threads.
    utid: i64,
    now_ns: i64,
    running: i64,
    ready: i64,
    open: Option<Open>,
    sums: BTreeMap<i32, Sum>,
}

/// The sections with one number of workers.
#[derive(Default)]
struct Sum {
    lengths: Vec<i64>,
    run_ns: i64,
    ready_ns: i64,
    most_running: i32,
}

/// What is known up to the last period.
pub struct Sections {
    window: Window,
    pools: Vec<Pool>,
    /// The index of each worker's pool.
    workers: ByThread<usize>,
    ends: BinaryHeap<Reverse<(i64, usize, bool)>>,
}

impl Sections {
    /// Before the first period.
    pub fn new(window: Window, groups: &[GroupRow]) -> Self {
        let mut places: BTreeMap<i64, usize> = BTreeMap::new();
        let mut pools = Vec::new();
        let mut workers = ByThread::default();
        for row in groups {
            let Some(utid) = row.pool else { continue };
            let place = *places.entry(utid).or_insert_with(|| {
                pools.push(Pool {
                    utid,
                    now_ns: i64::MIN,
                    running: 0,
                    ready: 0,
                    open: None,
                    sums: BTreeMap::new(),
                });
                pools.len() - 1
            });
            workers.insert(row.utid, place);
        }
        Self { window, pools, workers, ends: BinaryHeap::new() }
    }

    /// Adds the next period.
    pub fn push(&mut self, row: &RunnableRow) {
        let Some(place) = self.workers.get(&row.utid).copied() else { return };
        self.close_until(row.ts);
        let pool = &mut self.pools[place];
        pool.advance(self.window, row.ts);
        let open = pool.open.get_or_insert_with(|| Open { from_ns: row.ts, ..Open::default() });
        if row.is_ready {
            pool.ready += 1;
        } else {
            pool.running += 1;
            if let Err(at) = open.workers.binary_search(&row.utid) {
                open.workers.insert(at, row.utid);
            }
        }
        self.ends.push(Reverse((row.ts.saturating_add(row.dur), place, row.is_ready)));
    }

    fn close_until(&mut self, now_ns: i64) {
        while let Some(Reverse((end_ns, place, is_ready))) = self.ends.peek().copied() {
            if end_ns > now_ns {
                return;
            }
            self.ends.pop();
            let pool = &mut self.pools[place];
            pool.advance(self.window, end_ns);
            if is_ready {
                pool.ready -= 1;
            } else {
                pool.running -= 1;
            }
        }
    }

    /// The rows of `parallel_section_sum`; `None` without a section in the window.
    pub fn finish(mut self) -> Result<Option<Output>, IntervalError> {
        self.close_until(i64::MAX);
        let mut table = Table::whole("parallel_section_sum")?;
        for pool in &mut self.pools {
            pool.advance(self.window, i64::MAX);
            for (workers, sum) in &mut pool.sums {
                let sections = sum.lengths.len();
                // The lower one of the two in the middle, as quantile_disc of DuckDB.
                let (_, median, _) = sum.lengths.select_nth_unstable((sections - 1) / 2);
                let median = *median;
                table.push(&[
                    Value::Long(self.window.trace_id),
                    Value::Long(self.window.start_ns),
                    Value::Long(self.window.end_ns),
                    Value::Long(pool.utid),
                    Value::Int(*workers),
                    Value::Long(sections as i64),
                    Value::Long(
                        sum.lengths.iter().fold(0, |ns: i64, length| ns.saturating_add(*length)),
                    ),
                    Value::Long(median),
                    Value::Long(sum.run_ns),
                    Value::Long(sum.ready_ns),
                    Value::Int(sum.most_running),
                ]);
            }
        }
        Ok(table.last()?)
    }
}

impl Pool {
    /// Adds the time up to `now_ns`, in which the workers' states did not change.
    fn advance(&mut self, window: Window, now_ns: i64) {
        if now_ns <= self.now_ns {
            return;
        }
        if self.running + self.ready > 0 {
            let ns = now_ns.saturating_sub(self.now_ns);
            if let Some(open) = &mut self.open {
                open.run_ns = open.run_ns.saturating_add(self.running.saturating_mul(ns));
                open.ready_ns = open.ready_ns.saturating_add(self.ready.saturating_mul(ns));
                open.most_running = open.most_running.max(self.running as i32);
            }
        } else if let Some(open) = self.open.take()
            && (window.start_ns..window.end_ns).contains(&open.from_ns)
        {
            let sum = self.sums.entry(open.workers.len() as i32).or_default();
            sum.lengths.push(self.now_ns.saturating_sub(open.from_ns));
            sum.run_ns = sum.run_ns.saturating_add(open.run_ns);
            sum.ready_ns = sum.ready_ns.saturating_add(open.ready_ns);
            sum.most_running = sum.most_running.max(open.most_running);
        }
        self.now_ns = now_ns;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const WINDOW: Window = Window { trace_id: 1, start_ns: 0, end_ns: 100 };

    /// Of each pool and number of workers: sections, their length, the median, the running and the
    /// ready time, and the most that ran at once.
    type Found = (i64, i32, usize, i64, i64, i64, i64, i32);

    fn sections(rows: &[(i64, i64, i64, bool)]) -> Vec<Found> {
        let groups: Vec<GroupRow> = (1..=4)
            .map(|utid| GroupRow { utid, pool: (utid < 4).then_some(1), process: 1 })
            .collect();
        let mut sections = Sections::new(WINDOW, &groups);
        for (ts, dur, utid, is_ready) in rows.iter().copied() {
            sections.push(&RunnableRow { ts, dur, utid, is_ready });
        }
        sections.close_until(i64::MAX);
        let mut found = Vec::new();
        for pool in &mut sections.pools {
            pool.advance(WINDOW, i64::MAX);
            for (workers, sum) in &mut pool.sums {
                sum.lengths.sort_unstable();
                found.push((
                    pool.utid,
                    *workers,
                    sum.lengths.len(),
                    sum.lengths.iter().sum(),
                    sum.lengths[(sum.lengths.len() - 1) / 2],
                    sum.run_ns,
                    sum.ready_ns,
                    sum.most_running,
                ));
            }
        }
        found
    }

    #[test]
    fn a_section_lasts_while_any_worker_is_runnable() {
        // Thread 4 belongs to no pool.
        let rows = [
            (0, 15, 1, false),
            (0, 10, 2, false),
            (0, 5, 3, true),
            (5, 15, 3, false),
            (10, 90, 4, false),
            (25, 5, 1, false),
        ];
        assert_eq!(sections(&rows), [(1, 1, 1, 5, 5, 5, 0, 1), (1, 3, 1, 20, 20, 40, 5, 3)]);
    }

    #[test]
    fn a_worker_that_takes_over_at_the_same_moment_continues_the_section() {
        let rows = [(0, 10, 1, false), (10, 10, 2, false), (21, 1, 2, false), (30, 3, 3, false)];
        assert_eq!(sections(&rows), [(1, 1, 2, 4, 1, 4, 0, 1), (1, 2, 1, 20, 20, 20, 0, 1)]);
    }

    #[test]
    fn only_sections_that_start_in_the_window_count_and_keep_their_length() {
        let rows = [(-5, 10, 1, false), (90, 40, 2, true), (140, 1, 1, false)];
        assert_eq!(sections(&rows), [(1, 0, 1, 40, 40, 0, 40, 0)]);
    }
}
