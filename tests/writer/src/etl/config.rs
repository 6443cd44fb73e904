//! Description of the machine: SystemConfig records, and WinSAT's XML.

use std::fmt::Write as _;

use super::lznt1;
use crate::bytes::Bytes;
use crate::machine::{Cpu, Machine};

/// WinSAT's provider, and the opcode of its system configuration.
pub(super) const WINSAT: &str = "ed54dff8-c409-4cf6-bf83-05e1e61a09c4";
pub(super) const WINSAT_CONFIG: u8 = 37;

/// Records of group 0B: hook, version, payload.
pub(super) fn records(machine: &Machine, pointer: usize) -> Vec<(u16, u8, Vec<u8>)> {
    vec![
        (0x0B0A, 3, cpu(machine, pointer)),
        (0x0B18, 2, numa(machine)),
        (0x0B1A, 2, groups(machine, pointer)),
        (0x0B1B, 2, numbers(machine)),
    ]
}

/// Logical processors that share a core with another.
fn threaded(machine: &Machine) -> u64 {
    let cores = machine.sharing(|cpu| Some(cpu.core));
    let shared = cores.iter().filter(|cpus| cpus.len() > 1);
    shared.fold(0, |mask, cpus| mask | machine.mask(cpus))
}

fn cpu(machine: &Machine, pointer: usize) -> Vec<u8> {
    let mut out = Bytes::new();
    out.u32(machine.mhz).u32(machine.cpus.len() as u32).u32(16384).u32(4096).u32(65536);
    out.utf16_field(&machine.name, 256).utf16_field("WORKGROUP", 134);
    out.pointer(pointer, threaded(machine)).pointer(pointer, 0x7FFF_FFFE_FFFF);
    out.u16(if pointer == 8 { 9 } else { 0 }).u16(6).u16(0x9702).u8(1).u8(1).u32(4800);
    out.0
}

fn numa(machine: &Machine) -> Vec<u8> {
    let nodes = machine.sharing(|cpu| Some((cpu.numa_node, machine.place(cpu.cpu).0)));
    let mut out = Bytes::new();
    out.u32(nodes.len() as u32);
    for cpus in nodes {
        let group = cpus.first().map_or(0, |cpu| machine.place(cpu.cpu).0);
        out.u64(mask_in(machine, &cpus)).u16(group).zeros(6);
    }
    out.0
}

fn mask_in(machine: &Machine, cpus: &[&Cpu]) -> u64 {
    cpus.iter().fold(0, |mask, cpu| mask | 1 << machine.place(cpu.cpu).1)
}

fn groups(machine: &Machine, pointer: usize) -> Vec<u8> {
    let groups = machine.sharing(|cpu| Some(machine.place(cpu.cpu).0));
    let mut out = Bytes::new();
    out.u32(groups.len() as u32);
    for cpus in groups {
        out.pointer(pointer, mask_in(machine, &cpus));
    }
    out.0
}

fn numbers(machine: &Machine) -> Vec<u8> {
    let mut out = Bytes::new();
    out.u32(machine.cpus.len() as u32);
    for cpu in &machine.cpus {
        let (group, number) = machine.place(cpu.cpu);
        out.u16(group).u8(number).u8(0);
    }
    out.0
}

/// Payload of WinSAT's record: version, size, and the XML in LZNT1.
pub(super) fn winsat(machine: &Machine) -> Vec<u8> {
    let mut text = Bytes::new();
    for unit in winsat_xml(machine).encode_utf16() {
        text.u16(unit);
    }
    let mut out = Bytes::new();
    out.u32(1).u32(text.0.len() as u32).raw(&lznt1::compress(&text.0));
    out.0
}

fn winsat_xml(machine: &Machine) -> String {
    let cores = machine.sharing(|cpu| Some(cpu.core));
    let is_threaded = cores.iter().any(|cpus| cpus.len() > 1);
    let mut xml = format!(
        "<SystemConfig><Processor><Instance id=\"0\"><ProcessorName>{}</ProcessorName>\
         <TSCFrequency>{}</TSCFrequency><NumProcs>{}</NumProcs><NumCores>{}</NumCores>\
         <NumCPUs>{}</NumCPUs><CoresAreThreaded>{}</CoresAreThreaded><LogicalProcessorInfo>",
        machine.cpu_model,
        u64::from(machine.mhz) * 1_000_000,
        machine.sharing(|cpu| Some(cpu.package)).len(),
        cores.len(),
        machine.cpus.len(),
        u8::from(is_threaded),
    );
    for cpus in &cores {
        // Writing to a String cannot fail.
        let _ = write!(
            xml,
            "<RelationProcessorCore><Mask>{:016X}</Mask><Flags>{:02}</Flags></RelationProcessorCore>",
            machine.mask(cpus),
            u8::from(cpus.len() > 1)
        );
    }
    let second = machine.sharing(|cpu| cpu.l2).into_iter().map(|cpus| (2, 2 << 20, cpus));
    let third = machine.sharing(|cpu| cpu.l3).into_iter().map(|cpus| (3, 30 << 20, cpus));
    for (level, size, cpus) in second.chain(third) {
        let _ = write!(
            xml,
            "<RelationCache><Mask>{:016X}</Mask><Level>{level}</Level><Size>{size}</Size>\
             <LineSize>64</LineSize><Associativity>16</Associativity><Type>Unified</Type>\
             </RelationCache>",
            machine.mask(&cpus)
        );
    }
    for cpus in machine.sharing(|cpu| Some(cpu.numa_node)) {
        let node = cpus.first().map_or(0, |cpu| cpu.numa_node);
        let _ = write!(
            xml,
            "<RelationNumaNode><Mask>{:016X}</Mask><NodeNum>{node}</NodeNum></RelationNumaNode>",
            machine.mask(&cpus)
        );
    }
    for cpus in machine.sharing(|cpu| Some(cpu.package)) {
        let _ = write!(
            xml,
            "<RelationProcessorPackage><Mask>{:016X}</Mask></RelationProcessorPackage>",
            machine.mask(&cpus)
        );
    }
    xml.push_str("</LogicalProcessorInfo></Instance></Processor></SystemConfig>");
    xml
}
