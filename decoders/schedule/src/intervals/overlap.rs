//! What SMT siblings do at the same moment: `core_state` and `sibling_slice`.

use arrow_schema::ArrowError;

use super::machine::{CoreCounts, Machine};
use super::tables::{Table, Value};
use crate::chunk::Output;

struct Pair {
    lower: usize,
    higher: usize,
    since_ns: i64,
    /// The two threads; `None` unless both CPUs are busy.
    both: Option<(Option<i64>, Option<i64>)>,
}

struct Watched {
    since_ns: i64,
    counts: CoreCounts,
    pairs: Vec<Pair>,
}

/// The open rows of both tables.
pub struct Overlap {
    trace_id: i64,
    cores: Vec<Watched>,
    core_state: Table,
    sibling_slice: Table,
}

impl Overlap {
    /// Follows the cores of the machine from `now_ns` on.
    pub fn new(trace_id: i64, machine: &Machine, now_ns: i64) -> Result<Self, ArrowError> {
        let mut overlap = Self {
            trace_id,
            cores: Vec::new(),
            core_state: Table::new("core_state")?,
            sibling_slice: Table::new("sibling_slice")?,
        };
        overlap.watch(machine, now_ns);
        Ok(overlap)
    }

    /// Updates the cores that changed.
    pub fn look(&mut self, machine: &Machine, now_ns: i64) {
        for at in machine.dirty.iter().copied() {
            let core = &machine.cores[at];
            let Some(number) = core.number else { continue };
            if self.cores[at].counts != core.counts {
                self.write_core(at, number, now_ns);
                self.cores[at].counts = core.counts;
            }
            for pair in 0..self.cores[at].pairs.len() {
                let Pair { lower, higher, both, .. } = self.cores[at].pairs[pair];
                let (a, b) = (&machine.cpus[lower], &machine.cpus[higher]);
                let now = (a.kind.is_busy() && b.kind.is_busy()).then_some((a.utid, b.utid));
                if now != both {
                    self.write_pair(machine, at, pair, number, now_ns);
                    let pair = &mut self.cores[at].pairs[pair];
                    (pair.both, pair.since_ns) = (now, now_ns);
                }
            }
        }
    }

    /// Ends all rows.
    pub fn end(&mut self, before: &Machine, now_ns: i64) {
        for at in 0..self.cores.len() {
            if let (Some(number), false) =
                (before.cores[at].number, before.cores[at].members.is_empty())
            {
                self.write_core(at, number, now_ns);
                for pair in 0..self.cores[at].pairs.len() {
                    self.write_pair(before, at, pair, number, now_ns);
                }
            }
        }
    }

    /// Restarts from the current cores.
    pub fn watch(&mut self, machine: &Machine, now_ns: i64) {
        let watched = machine.cores.iter().map(|core| {
            let mut pairs = Vec::new();
            for (at, lower) in core.members.iter().copied().enumerate() {
                for higher in core.members[at + 1..].iter().copied() {
                    pairs.push(Pair { lower, higher, since_ns: now_ns, both: None });
                }
            }
            Watched { since_ns: now_ns, counts: core.counts, pairs }
        });
        self.cores = watched.collect();
    }

    /// Finished batches; with `all`, also a partly filled one.
    pub fn take(&mut self, all: bool, into: &mut Vec<Output>) -> Result<(), ArrowError> {
        for table in [&mut self.core_state, &mut self.sibling_slice] {
            table.take(all, into)?;
        }
        Ok(())
    }

    fn write_core(&mut self, at: usize, number: i32, now_ns: i64) {
        let watched = &mut self.cores[at];
        if watched.since_ns < now_ns {
            let counts = watched.counts;
            self.core_state.push(&[
                Value::Long(self.trace_id),
                Value::Int(number),
                Value::Long(watched.since_ns),
                Value::Long(now_ns - watched.since_ns),
                Value::Int(counts.online),
                Value::Int(counts.unknown),
                Value::Int(counts.busy),
                Value::Int(counts.threads),
            ]);
        }
        watched.since_ns = now_ns;
    }

    fn write_pair(&mut self, machine: &Machine, at: usize, pair: usize, core: i32, now_ns: i64) {
        let pair = &self.cores[at].pairs[pair];
        let Some((utid, other_utid)) = pair.both.filter(|_| pair.since_ns < now_ns) else { return };
        self.sibling_slice.push(&[
            Value::Long(self.trace_id),
            Value::Int(core),
            Value::Long(pair.since_ns),
            Value::Long(now_ns - pair.since_ns),
            Value::Int(machine.cpus[pair.lower].number),
            Value::OptLong(utid),
            Value::Int(machine.cpus[pair.higher].number),
            Value::OptLong(other_utid),
        ]);
    }
}
