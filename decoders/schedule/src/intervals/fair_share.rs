//! The ready time that fair sharing of the CPUs would cost each thread: `fair_share_sum`.
//!
//! While more threads are runnable than CPUs are online, the groups and threads of the root share the
//! CPUs by weight, and those of each group share what it gets. For each weight in each group, the
//! pass adds up the ready time of a thread that would be runnable from the start of the window on;
//! what a thread is owed in a period is the difference between the sums at its end and at its start.

use std::cmp::Reverse;
use std::collections::{BTreeMap, BinaryHeap};

use super::input::{IntervalError, RunnableRow, WeightRow, Window};
use super::shared_cpus::{Group, Tree};
use super::tables::{Table, Value};
use super::threads::ByThread;
use crate::chunk::Output;

/// How a thread shares.
#[derive(Clone, Copy)]
struct Sharer {
    weight: i32,
    /// Its class in the tree; `None` for one that runs before the others.
    class: Option<usize>,
    /// Nothing shows whether it shares at all: the others share with it, and what it is owed is
    /// unknown.
    is_unclear: bool,
}

/// A period that has not ended.
struct Open {
    utid: i64,
    sharer: Sharer,
    is_ready: bool,
    from_ns: i64,
    fair_ns: f64,
    crowded_ns: i64,
}

#[derive(Default)]
struct Spent {
    weight: i32,
    is_unclear: bool,
    run_ns: i64,
    ready_ns: i64,
    crowded_ready_ns: i64,
    fair_ns: f64,
}

/// What is known up to the last period.
pub struct Shares {
    window: Window,
    /// CPUs that are online.
    cpus: i64,
    sharers: ByThread<Sharer>,
    /// The threads that share, up to `now_ns`.
    tree: Tree,
    /// Time up to `now_ns` with more runnable threads than CPUs.
    crowded_ns: i64,
    now_ns: i64,
    /// Runnable threads that run before those that share.
    before_them: i64,
    open: Vec<Option<Open>>,
    free: Vec<usize>,
    ends: BinaryHeap<Reverse<(i64, usize)>>,
    spent: BTreeMap<i64, Spent>,
}

impl Shares {
    /// `rows` contains the weight of each thread (0: it runs before all that share) and its group.
    pub fn new(window: Window, cpus: i64, groups: &[Group], rows: &[WeightRow]) -> Self {
        let mut tree = Tree::new(groups);
        let sharers = rows.iter().map(|row| {
            let class = (row.weight > 0).then(|| tree.class(row.group, row.weight));
            (row.utid, Sharer { weight: row.weight, class, is_unclear: row.is_unclear })
        });
        Self {
            window,
            cpus,
            sharers: sharers.collect(),
            tree,
            crowded_ns: 0,
            now_ns: window.start_ns,
            before_them: 0,
            open: Vec::new(),
            free: Vec::new(),
            ends: BinaryHeap::new(),
            spent: BTreeMap::new(),
        }
    }

    /// Adds the next period.
    pub fn push(&mut self, row: &RunnableRow) {
        let Some(sharer) = self.sharers.get(&row.utid).copied() else { return };
        let end_ns = row.ts.saturating_add(row.dur);
        if row.dur < 0 || row.ts >= self.window.end_ns || end_ns <= self.window.start_ns {
            return;
        }
        let from_ns = row.ts.max(self.window.start_ns);
        self.close_until(from_ns);
        self.advance(from_ns);
        let open = Open {
            utid: row.utid,
            sharer,
            is_ready: row.is_ready,
            from_ns,
            fair_ns: sharer.class.map_or(0.0, |class| self.tree.fair_ns(class)),
            crowded_ns: self.crowded_ns,
        };
        self.count(sharer, 1);
        let at = self.free.pop().unwrap_or_else(|| {
            self.open.push(None);
            self.open.len() - 1
        });
        self.open[at] = Some(open);
        self.ends.push(Reverse((end_ns.min(self.window.end_ns), at)));
    }

    fn close_until(&mut self, now_ns: i64) {
        while let Some(Reverse((end_ns, at))) = self.ends.peek().copied() {
            if end_ns > now_ns {
                return;
            }
            self.ends.pop();
            self.advance(end_ns);
            let Some(open) = self.open[at].take() else { continue };
            self.free.push(at);
            self.count(open.sharer, -1);
            let Some(class) = open.sharer.class else { continue };
            let spent = self.spent.entry(open.utid).or_default();
            (spent.weight, spent.is_unclear) = (open.sharer.weight, open.sharer.is_unclear);
            spent.fair_ns += self.tree.fair_ns(class) - open.fair_ns;
            if open.is_ready {
                spent.ready_ns += end_ns - open.from_ns;
                spent.crowded_ready_ns += self.crowded_ns - open.crowded_ns;
            } else {
                spent.run_ns += end_ns - open.from_ns;
            }
        }
    }

    /// Adds the time up to `now_ns`, in which the runnable threads did not change.
    fn advance(&mut self, now_ns: i64) {
        let ns = now_ns - self.now_ns;
        self.now_ns = now_ns;
        if ns <= 0 || self.tree.runnable() + self.before_them <= self.cpus {
            return;
        }
        self.crowded_ns += ns;
        self.tree.advance(ns as f64, (self.cpus - self.before_them).max(0) as f64);
    }

    fn count(&mut self, sharer: Sharer, by: i64) {
        match sharer.class {
            Some(class) => self.tree.count(class, by),
            None => self.before_them += by,
        }
    }

    /// The rows of `fair_share_sum`, by thread; `None` if no thread was runnable in the window.
    pub fn finish(mut self) -> Result<Option<Output>, IntervalError> {
        self.close_until(i64::MAX);
        let mut table = Table::whole("fair_share_sum")?;
        for (utid, spent) in &self.spent {
            let is_known = !spent.is_unclear;
            table.push(&[
                Value::Long(self.window.trace_id),
                Value::Long(self.window.start_ns),
                Value::Long(self.window.end_ns),
                Value::Long(*utid),
                Value::OptInt(is_known.then_some(spent.weight)),
                Value::Long(spent.run_ns),
                Value::Long(spent.ready_ns),
                Value::Long(spent.crowded_ready_ns),
                Value::OptLong(is_known.then_some(spent.fair_ns.round() as i64)),
            ]);
        }
        Ok(table.last()?)
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use arrow_array::cast::AsArray;
    use arrow_array::types::Int64Type;
    use arrow_array::{ArrayRef, BooleanArray, Int32Array, Int64Array, RecordBatch};

    use crate::intervals::{Batches, Group, RunnableInputs, Window, summarize};

    fn stream(columns: Vec<(&str, ArrayRef)>) -> Batches {
        Box::new(std::iter::once(RecordBatch::try_from_iter(columns)))
    }

    /// (ts, dur, utid, is_ready).
    type Runnable = (i64, i64, i64, bool);

    /// Of each thread its id, running, ready, crowded ready and fair ready time.
    fn shares(
        window: (i64, i64),
        cpus: i64,
        groups: &[Group],
        weights: &[(i64, i32, i32)],
        rows: &[Runnable],
    ) -> Vec<(i64, i64, i64, i64, i64)> {
        let longs = |of: &dyn Fn(&Runnable) -> i64| -> ArrayRef {
            Arc::new(Int64Array::from_iter_values(rows.iter().map(of)))
        };
        let ready = rows.iter().map(|row| Some(row.3)).collect::<BooleanArray>();
        let runnable = stream(vec![
            ("ts", longs(&|row| row.0)),
            ("dur", longs(&|row| row.1)),
            ("utid", longs(&|row| row.2)),
            ("is_ready", Arc::new(ready)),
        ]);
        let weights = stream(vec![
            ("utid", Arc::new(Int64Array::from_iter_values(weights.iter().map(|w| w.0)))),
            ("weight", Arc::new(Int32Array::from_iter_values(weights.iter().map(|w| w.1)))),
            ("is_unclear", Arc::new(BooleanArray::from(vec![false; weights.len()]))),
            ("group", Arc::new(Int32Array::from_iter_values(weights.iter().map(|w| w.2)))),
        ]);
        let window = Window { trace_id: 1, start_ns: window.0, end_ns: window.1 };
        let counted = Box::new(std::iter::empty());
        let inputs =
            RunnableInputs { sharing: groups.to_vec(), weights, groups: counted, runnable };
        let outputs = summarize(window, Some(cpus), inputs).expect("valid");
        let Some(output) = outputs.first() else { return Vec::new() };
        let long = |at: usize| output.batch.column(at).as_primitive::<Int64Type>().clone();
        let columns = [long(3), long(5), long(6), long(7), long(8)];
        (0..output.batch.num_rows())
            .map(|at| {
                let [utid, run, ready, crowded, fair] = columns.each_ref().map(|c| c.value(at));
                (utid, run, ready, crowded, fair)
            })
            .collect()
    }

    #[test]
    fn threads_of_one_weight_owe_each_other_the_same() {
        // Two threads on one CPU for 100 ns: half of it each is fair.
        let rows = [(0, 60, 1, false), (0, 60, 2, true), (60, 40, 2, false)];
        let found = shares((0, 100), 1, &[], &[(1, 1024, 0), (2, 1024, 0)], &rows);
        assert_eq!(found, [(1, 60, 0, 0, 30), (2, 40, 60, 60, 30)]);
    }

    #[test]
    fn weights_divide_what_real_time_threads_leave() {
        // A real-time thread takes one of two CPUs; 3 to 1 share the other.
        let rows = [(0, 80, 9, false), (0, 80, 1, false), (0, 80, 2, true)];
        let found = shares((0, 80), 2, &[], &[(9, 0, 0), (1, 3, 0), (2, 1, 0)], &rows);
        assert_eq!(found, [(1, 80, 0, 0, 20), (2, 0, 80, 80, 60)]);
    }

    #[test]
    fn only_the_window_counts_and_a_free_cpu_owes_nothing() {
        let rows = [(-50, 100, 1, false), (-50, 200, 2, true)];
        let weights = [(1, 1, 0), (2, 1, 0)];
        let found = shares((0, 100), 1, &[], &weights, &rows);
        assert_eq!(found, [(1, 50, 0, 0, 25), (2, 0, 100, 50, 25)]);
        assert_eq!(shares((0, 100), 2, &[], &weights, &rows)[1], (2, 0, 100, 0, 0));
    }

    #[test]
    fn threads_of_a_group_divide_what_the_group_gets() {
        // A session of one thread and one of three on two CPUs: the one thread has a CPU of its own,
        // and the three share the other.
        let groups = [(0, 1024.0), (0, 1024.0)].map(|(parent, weight)| Group { parent, weight });
        let weights = [(1, 1024, 1), (2, 1024, 2), (3, 1024, 2), (4, 1024, 2)];
        let rows = [(0, 90, 1, false), (0, 90, 2, false), (0, 90, 3, true), (0, 90, 4, true)];
        let found = shares((0, 90), 2, &groups, &weights, &rows);
        assert_eq!(found.iter().map(|row| row.4).collect::<Vec<_>>(), [0, 60, 60, 60]);
    }
}
