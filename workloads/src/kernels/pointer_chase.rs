//! pointer_chase: one random cycle; each load's address comes from the previous load.
//!
//! `private` and `shared` have eight nodes per cache line, so some hops hit L1d. `lines` has one
//! node per line, so every hop misses it. In `shared`, all workers chase one cycle and use the same
//! lines, so siblings evict few of each other's.

use super::asm_loop::counted_loop;
use super::register_loop::ODD;
use crate::kernel::{Crew, Kernel, Options, Proof, Unit, Variant, Work, anywhere};
use crate::os::{self, Memory};
use std::sync::{Arc, OnceLock};

const LINE_BYTES: usize = 64;
const NODE_BYTES: usize = 8;
const LEAST_BYTES: usize = 64 * 1024;

/// The entry in the catalog.
pub static KERNEL: Kernel = Kernel {
    name: "pointer_chase",
    summary: "a random cycle a bit larger than L1d: eight nodes a line (private, shared), or one",
    note: "latency of L2 a hop (lines), of a mix of L1d and L2 (private, shared); each worker has \
           its own cycle but in shared",
    unit: Unit::Hops,
    parties: 1,
    variants: &[
        Variant {
            name: "private",
            refusal: anywhere,
            crew: |threads, _| Crew::alone(threads, |cpu| Chase::sized(cpu, NODE_BYTES)),
        },
        Variant { name: "shared", refusal: anywhere, crew: shared },
        Variant {
            name: "lines",
            refusal: anywhere,
            crew: |threads, _| Crew::alone(threads, |cpu| Chase::sized(cpu, LINE_BYTES)),
        },
    ],
    usual_cycles: None,
    instructions: Some(3),
};

/// At least a third more than L1d, a power of two, at least 64 KiB.
fn size_for(l1d: Option<u64>) -> usize {
    let l1d = usize::try_from(l1d.unwrap_or(0)).unwrap_or(0).min(1 << 24);
    l1d.div_ceil(3).saturating_mul(4).next_power_of_two().max(LEAST_BYTES)
}

/// Workers that chase one cycle, which the first of them creates.
fn shared(threads: usize, _: Options) -> Crew {
    let made: OnceLock<Result<Arc<Graph>, String>> = OnceLock::new();
    Crew::alone(threads, move |cpu| {
        let graph = made.get_or_init(|| Graph::sized(cpu, NODE_BYTES).map(Arc::new)).clone()?;
        Ok(Chase::new(graph))
    })
}

/// The cycle in memory.
struct Graph {
    memory: Memory,
    /// Node numbers in cycle order.
    order: Vec<u32>,
    spacing: usize,
    l1d: Option<u64>,
}

/// A worker's position in the cycle.
struct Chase {
    graph: Arc<Graph>,
    at: u64,
    iterations: u64,
}

impl Graph {
    fn sized(cpu: Option<usize>, spacing: usize) -> Result<Graph, String> {
        let l1d = os::l1d_bytes(cpu);
        let mut graph = Graph::new(size_for(l1d), spacing)?;
        graph.l1d = l1d;
        Ok(graph)
    }

    fn new(bytes: usize, spacing: usize) -> Result<Graph, String> {
        let mut memory =
            Memory::new(bytes).map_err(|error| format!("no memory for {bytes} bytes: {error}"))?;
        let nodes = bytes / spacing;
        let order = shuffled(nodes);
        let base = memory.bytes().as_ptr() as u64;
        let target = memory.bytes_mut();
        for (position, node) in order.iter().enumerate() {
            let next = order[(position + 1) % nodes] as usize * spacing;
            let place = *node as usize * spacing;
            target[place..place + NODE_BYTES].copy_from_slice(&(base + next as u64).to_ne_bytes());
        }
        let graph = Graph { memory, order, spacing, l1d: None };
        let length = graph.cycle_length();
        if length != nodes {
            return Err(format!("the cycle has {length} of {nodes} nodes"));
        }
        Ok(graph)
    }

    fn base(&self) -> u64 {
        self.memory.bytes().as_ptr() as u64
    }

    /// Hops from the first node back to it; `nodes + 1` if there is no way back.
    fn cycle_length(&self) -> usize {
        let bytes = self.memory.bytes();
        let base = bytes.as_ptr() as u64;
        let start = self.order[0] as usize * self.spacing;
        let mut place = start;
        for hops in 1..=self.order.len() {
            let mut address = [0; NODE_BYTES];
            address.copy_from_slice(&bytes[place..place + NODE_BYTES]);
            place = (u64::from_ne_bytes(address) - base) as usize;
            if place == start {
                return hops;
            }
        }
        self.order.len() + 1
    }
}

impl Chase {
    fn sized(cpu: Option<usize>, spacing: usize) -> Result<Chase, String> {
        Ok(Chase::new(Arc::new(Graph::sized(cpu, spacing)?)))
    }

    fn new(graph: Arc<Graph>) -> Chase {
        let at = graph.base() + u64::from(graph.order[0]) * graph.spacing as u64;
        Chase { graph, at, iterations: 0 }
    }
}

/// The numbers below `count` in random order, the same on every run.
fn shuffled(count: usize) -> Vec<u32> {
    let mut order: Vec<u32> = (0..count as u32).collect();
    let mut state = ODD;
    for last in (1..count).rev() {
        // A linear congruential generator's low bits are weak, hence the high half of a product.
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(ODD);
        let other = ((u128::from(state) * (last as u128 + 1)) >> 64) as usize;
        order.swap(last, other);
    }
    order
}

impl Work for Chase {
    fn batch(&mut self, iterations: u64) -> u64 {
        if iterations == 0 {
            return 0;
        }
        // SAFETY: every node contains the address of a node of the same memory.
        unsafe {
            counted_loop!(
                iterations,
                x86_64: ["mov {at}, [{at}]"],
                aarch64: ["ldr {at}, [{at}]"],
                at = inout(reg) self.at,
                options(nostack, readonly),
            );
        }
        self.iterations += iterations;
        iterations
    }

    fn bytes_per_iteration(&self) -> u64 {
        NODE_BYTES as u64
    }

    fn prove(&mut self) -> Vec<Proof> {
        let graph = &self.graph;
        let nodes = graph.order.len();
        let position = (self.iterations % nodes as u64) as usize;
        let found = self.at.wrapping_sub(graph.base()) / graph.spacing as u64;
        let hops = self.iterations;
        vec![
            Proof::new("nodes in one cycle", nodes, graph.cycle_length()),
            Proof::new(format!("node after {hops} hops"), graph.order[position], found),
        ]
    }

    fn sizes(&self) -> Vec<(&'static str, u64)> {
        let bytes = self.graph.memory.bytes().len() as u64;
        let mut sizes = vec![("memory_bytes_per_worker", bytes)];
        sizes.extend(self.graph.l1d.map(|bytes| ("l1d_bytes", bytes)));
        sizes
    }

    fn warnings(&self) -> Vec<String> {
        match self.graph.l1d {
            Some(_) => Vec::new(),
            None => vec!["the size of L1d is unknown: chasing 64 KiB".to_owned()],
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_size_lies_beyond_l1d() {
        let kib = |size: u64| size_for(Some(size * 1024)) / 1024;
        assert_eq!([16, 32, 48, 64, 80, 128].map(kib), [64, 64, 64, 128, 128, 256]);
        assert_eq!(size_for(None), 65_536);
        assert_eq!(size_for(Some(u64::MAX)), 1 << 25);
    }

    #[test]
    fn shuffling_keeps_every_number() {
        let order = shuffled(1000);
        assert!(order.iter().enumerate().any(|(index, node)| index as u32 != *node));
        let mut sorted = order;
        sorted.sort_unstable();
        assert_eq!(sorted, (0..1000).collect::<Vec<u32>>());
    }

    #[test]
    fn the_last_node_is_known_and_a_wrong_one_is_found() {
        for spacing in [NODE_BYTES, LINE_BYTES] {
            let graph = Graph::new(4096, spacing).expect("4 KiB are free");
            let mut work = Chase::new(Arc::new(graph));
            work.batch(0);
            work.batch(4096 / spacing as u64 * 3 + 5);
            assert!(work.prove().iter().all(Proof::holds));
            work.iterations += 1;
            assert!(!work.prove().iter().all(Proof::holds));
        }
    }

    #[test]
    fn a_shorter_cycle_is_found() {
        let mut graph = Graph::new(4096, LINE_BYTES).expect("4 KiB are free");
        let first = graph.base() + u64::from(graph.order[0]) * LINE_BYTES as u64;
        let place = graph.order[9] as usize * LINE_BYTES;
        graph.memory.bytes_mut()[place..place + 8].copy_from_slice(&first.to_ne_bytes());
        let mut work = Chase::new(Arc::new(graph));
        let holds: Vec<bool> = work.prove().iter().map(Proof::holds).collect();
        assert_eq!(holds, [false, true]);
    }
}
