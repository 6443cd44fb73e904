//! `HEADER_*` features.

use super::attrs::{Event, SIZE};
use super::formats;
use crate::bytes::Bytes;
use crate::machine::{Cpu, Machine};

/// Wall time of ns 0: the same moment as in the .etl.
const WALL_NS: u64 = (crate::etl::START_TIME - 116_444_736_000_000_000) as u64 * 100;

fn string(out: &mut Bytes, text: &str) {
    out.u32(text.len() as u32 + 1).text_z(text);
}

fn strings(out: &mut Bytes, texts: &[String]) {
    out.u32(texts.len() as u32);
    for text in texts {
        string(out, text);
    }
}

/// `0,3-5`
fn list(cpus: &[&Cpu]) -> String {
    let numbers: Vec<String> = cpus.iter().map(|cpu| cpu.cpu.to_string()).collect();
    numbers.join(",")
}

/// Number and bytes of each feature, by number.
pub(super) fn all(
    machine: &Machine,
    events: &[(Event, Vec<u64>)],
    (grouped, start_ns): (bool, u64),
) -> Vec<(u32, Vec<u8>)> {
    let text = |text: &str| {
        let mut out = Bytes::new();
        string(&mut out, text);
        out.0
    };
    let mut online = Bytes::new();
    online.u32(machine.size()).u32(machine.cpus.len() as u32);
    let mut found = vec![
        (1, formats::tracing_data()),
        (3, text(&machine.name)),
        (4, text("6.1.0-drawn")),
        (5, text("6.1.0")),
        (6, text("x86_64")),
        (7, online.0),
        (8, text(&machine.cpu_model)),
        (12, event_desc(events, grouped)),
        (13, topology(machine)),
        (14, numa(machine)),
        (20, caches(machine)),
        (23, Bytes::new().u64(1).0.clone()),
        (29, Bytes::new().u32(1).u32(1).u64(WALL_NS).u64(start_ns).0.clone()),
    ];
    let types = machine.sharing(|cpu| cpu.pmu.clone());
    if !types.is_empty() {
        let mut out = Bytes::new();
        out.u32(types.len() as u32);
        for cpus in types {
            string(&mut out, cpus.first().and_then(|cpu| cpu.pmu.as_deref()).unwrap_or_default());
            string(&mut out, &list(&cpus));
        }
        found.push((30, out.0));
    }
    found
}

fn event_desc(events: &[(Event, Vec<u64>)], grouped: bool) -> Vec<u8> {
    let mut out = Bytes::new();
    out.u32(events.len() as u32).u32(SIZE as u32);
    for (rank, (event, ids)) in events.iter().enumerate() {
        out.raw(&event.attr(grouped, rank == 0)).u32(ids.len() as u32);
        string(&mut out, &event.name());
        for id in ids {
            out.u64(*id);
        }
    }
    out.0
}

fn topology(machine: &Machine) -> Vec<u8> {
    let lists = |groups: Vec<Vec<&Cpu>>| groups.iter().map(|cpus| list(cpus)).collect::<Vec<_>>();
    let mut out = Bytes::new();
    strings(&mut out, &lists(machine.sharing(|cpu| Some(cpu.package))));
    strings(&mut out, &lists(machine.sharing(|cpu| Some(cpu.core))));
    for number in 0..machine.size() {
        let cpu = machine.cpus.iter().find(|cpu| u32::from(cpu.cpu) == number);
        out.u32(cpu.map_or(u32::MAX, |cpu| cpu.core));
        out.u32(cpu.map_or(u32::MAX, |cpu| cpu.package));
    }
    out.0
}

fn numa(machine: &Machine) -> Vec<u8> {
    let nodes = machine.sharing(|cpu| Some(cpu.numa_node));
    let mut out = Bytes::new();
    out.u32(nodes.len() as u32);
    for cpus in nodes {
        out.u32(cpus.first().map_or(0, |cpu| cpu.numa_node)).u64(16 << 20).u64(8 << 20);
        string(&mut out, &list(&cpus));
    }
    out.0
}

fn caches(machine: &Machine) -> Vec<u8> {
    let second = machine.sharing(|cpu| cpu.l2).into_iter().map(|cpus| (2, "2048K", cpus));
    let third = machine.sharing(|cpu| cpu.l3).into_iter().map(|cpus| (3, "30720K", cpus));
    let all: Vec<_> = second.chain(third).collect();
    let mut out = Bytes::new();
    out.u32(1).u32(all.len() as u32);
    for (level, size, cpus) in all {
        out.u32(level).u32(64).u32(2048).u32(16);
        string(&mut out, "Unified");
        string(&mut out, size);
        string(&mut out, &list(&cpus));
    }
    out.0
}
