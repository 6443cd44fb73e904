//! Quantum-end chains while their threads wait: `quantum_chain`.

use arrow_schema::ArrowError;

use super::affinity::Affinity;
use super::chain::Chain;
use super::machine::Machine;
use super::ready::Ready;
use super::tables::{Table, Value};
use crate::chunk::Output;

struct Running {
    chain: usize,
    since_ns: i64,
    serialized: bool,
    idle_elsewhere: bool,
    serialized_ns: i64,
    idle_elsewhere_ns: i64,
    known: bool,
}

/// The chains of a recording, and those active at this moment.
pub struct Serialized {
    trace_id: i64,
    chains: Vec<Chain>,
    next: usize,
    running: Vec<Running>,
    table: Table,
}

impl Serialized {
    /// The chains by start time; none is active yet.
    pub fn new(trace_id: i64, chains: Vec<Chain>) -> Result<Self, ArrowError> {
        let table = Table::new("quantum_chain")?;
        Ok(Self { trace_id, chains, next: 0, running: Vec::new(), table })
    }

    /// The next time at which a chain starts or ends.
    pub fn next_ns(&self) -> Option<i64> {
        let begin = self.chains.get(self.next).map(|chain| chain.start_ns);
        let ends = self.running.iter().map(|running| self.chains[running.chain].end_ns);
        begin.into_iter().chain(ends).min()
    }

    /// Updates the chains after all changes of this moment.
    pub fn look(&mut self, machine: &Machine, affinity: &Affinity, ready: &Ready, now_ns: i64) {
        let due = self.next_ns().is_some_and(|next| next <= now_ns);
        if !due && (self.running.is_empty() || !(machine.idle_changed || ready.has_changed())) {
            return;
        }
        self.account(now_ns);
        self.end_those_before(now_ns);
        while let Some(chain) = self.chains.get(self.next).filter(|c| c.start_ns <= now_ns) {
            let known = chain.utids.iter().all(|utid| affinity.sets[affinity.set_of(*utid)].known);
            self.running.push(Running {
                chain: self.next,
                since_ns: now_ns,
                serialized: false,
                idle_elsewhere: false,
                serialized_ns: 0,
                idle_elsewhere_ns: 0,
                known,
            });
            self.next += 1;
        }
        for running in &mut self.running {
            let chain = &self.chains[running.chain];
            let own = machine.place(chain.cpu);
            running.idle_elsewhere = machine.idle.iter().any(|cpu| Some(cpu) != own);
            running.serialized = chain.utids.iter().any(|utid| {
                ready.set_of(*utid).is_some_and(|set| {
                    let allowed = &affinity.sets[set].cpus;
                    machine.idle.iter().any(|cpu| Some(cpu) != own && allowed.has(cpu))
                })
            });
        }
    }

    /// Ends the chains at the end of the window.
    pub fn end(&mut self, now_ns: i64) {
        self.account(now_ns);
        self.end_those_before(i64::MAX);
    }

    /// Finished batches; with `all`, also a partly filled one.
    pub fn take(&mut self, all: bool, into: &mut Vec<Output>) -> Result<(), ArrowError> {
        self.table.take(all, into)
    }

    fn account(&mut self, now_ns: i64) {
        for running in &mut self.running {
            let passed = now_ns - running.since_ns;
            running.serialized_ns += if running.serialized { passed } else { 0 };
            running.idle_elsewhere_ns += if running.idle_elsewhere { passed } else { 0 };
            running.since_ns = now_ns;
        }
    }

    fn end_those_before(&mut self, now_ns: i64) {
        for at in (0..self.running.len()).rev() {
            if self.chains[self.running[at].chain].end_ns > now_ns {
                continue;
            }
            let running = self.running.remove(at);
            let chain = &self.chains[running.chain];
            self.table.push(&[
                Value::Long(self.trace_id),
                Value::Int(i32::try_from(running.chain + 1).unwrap_or(i32::MAX)),
                Value::Int(chain.cpu),
                Value::Long(chain.start_ns),
                Value::Long(chain.end_ns - chain.start_ns),
                Value::Int(chain.hand_offs),
                Value::Longs(&chain.utids),
                Value::Long(chain.slice_ns),
                Value::Int(chain.skipped),
                Value::Flag(chain.yield_possible),
                Value::Long(running.serialized_ns),
                Value::Long(running.idle_elsewhere_ns),
                Value::Flag(running.known),
            ]);
        }
    }
}
