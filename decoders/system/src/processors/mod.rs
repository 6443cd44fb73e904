//! Which logical CPUs share what, from the bytes of `GetLogicalProcessorInformationEx`.
//!
//! Only bytes are read here, so a buffer that was saved on one machine can be read on any other.

mod numbering;
mod records;

use std::fmt;

pub use numbering::Numbering;

use numbering::bits;
use records::{Cache, Records};

/// `PROCESSOR_CACHE_TYPE`: the only one without data.
const CACHE_INSTRUCTION: u32 = 1;
/// Windows Server has up to 2048 logical CPUs, 64 to a group.
const MOST_GROUPS: usize = 32;

/// Why a buffer cannot be used.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum TopologyError {
    /// A record says it is `size` bytes long, but only `left` remain.
    Size {
        /// Its first byte.
        at: usize,
        /// Its own size.
        size: usize,
        /// The bytes from there to the end.
        left: usize,
    },
    /// A record of `size` bytes needs `needed` for its content.
    Short {
        /// Its first byte.
        at: usize,
        /// The bytes that its content needs.
        needed: usize,
        /// Its own size.
        size: usize,
    },
    /// More processor groups than Windows supports.
    Groups(usize),
    /// It contains no core.
    NoCores,
}

impl fmt::Display for TopologyError {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            TopologyError::Size { at, size, left } => {
                write!(out, "the record at byte {at} has size {size}, but only {left} bytes remain")
            }
            TopologyError::Short { at, needed, size } => {
                write!(out, "the record at byte {at} has {size} bytes but needs {needed}")
            }
            TopologyError::Groups(count) => {
                write!(
                    out,
                    "it lists {count} processor groups, but Windows has at most {MOST_GROUPS}"
                )
            }
            TopologyError::NoCores => out.write_str("it contains no processor core"),
        }
    }
}

/// A processor group (`PROCESSOR_GROUP_INFO`).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Group {
    /// Its number.
    pub group: u16,
    /// Number of CPUs that fit in it.
    pub maximum: u8,
    /// Those that are active.
    pub active_mask: u64,
}

/// A logical CPU; `None` if the system does not report a value.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Cpu {
    /// Number on the whole machine: the active CPUs of the groups before it, plus its own rank.
    pub cpu: usize,
    /// Its processor group.
    pub group: u16,
    /// Its number in the group.
    pub number_in_group: u8,
    /// The lowest CPU of its core.
    pub core: Option<usize>,
    /// Its rank among the CPUs of its core.
    pub smt_index: Option<usize>,
    /// Higher is faster.
    pub efficiency_class: Option<u8>,
    /// The lowest CPU that shares its L2 cache.
    pub l2: Option<usize>,
    /// The lowest CPU that shares its cache of the highest level.
    pub llc: Option<usize>,
    /// Rank of its package in the buffer.
    pub package: Option<usize>,
    /// Its NUMA node.
    pub numa_node: Option<u32>,
    /// Size of its first-level data cache.
    pub l1d_bytes: Option<u32>,
}

impl Cpu {
    /// The columns of the table `cpu` that contain numbers, except for `cpu` itself.
    pub fn columns(&self) -> [(&'static str, Option<u64>); 9] {
        let long = |number: Option<usize>| number.map(|number| number as u64);
        [
            ("group_no", Some(self.group.into())),
            ("number_in_group", Some(self.number_in_group.into())),
            ("core", long(self.core)),
            ("smt_index", long(self.smt_index)),
            ("efficiency_class", self.efficiency_class.map(u64::from)),
            ("l2", long(self.l2)),
            ("llc", long(self.llc)),
            ("package", long(self.package)),
            ("numa_node", self.numa_node.map(u64::from)),
        ]
    }
}

/// All active logical CPUs, by number.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Topology {
    /// The processor groups, in order.
    pub groups: Vec<Group>,
    /// The CPUs of the first group, then those of the next.
    pub cpus: Vec<Cpu>,
}

impl Topology {
    /// Parses the output of `GetLogicalProcessorInformationEx(RelationAll)` on a 64-bit system.
    ///
    /// # Errors
    /// `TopologyError` with the position and the sizes that disagree.
    pub fn read(bytes: &[u8]) -> Result<Topology, TopologyError> {
        let records = Records::read(bytes)?;
        if records.cores.is_empty() {
            return Err(TopologyError::NoCores);
        }
        let groups = records.groups();
        if groups.len() > MOST_GROUPS {
            return Err(TopologyError::Groups(groups.len()));
        }
        let numbering = Numbering::new(&groups);
        let mut cpus: Vec<Cpu> = Vec::new();
        for group in &groups {
            for number in bits(group.active_mask) {
                cpus.push(Cpu {
                    cpu: cpus.len(),
                    group: group.group,
                    number_in_group: number,
                    core: None,
                    smt_index: None,
                    efficiency_class: None,
                    l2: None,
                    llc: None,
                    package: None,
                    numa_node: None,
                    l1d_bytes: None,
                });
            }
        }
        for (class, parts) in &records.cores {
            let members = numbering.cpus(parts);
            for (rank, cpu) in members.iter().enumerate() {
                let row = &mut cpus[*cpu];
                row.core = members.first().copied();
                row.smt_index = Some(rank);
                row.efficiency_class = Some(*class);
            }
        }
        for (package, parts) in records.packages.iter().enumerate() {
            for cpu in numbering.cpus(parts) {
                cpus[cpu].package = Some(package);
            }
        }
        for (node, parts) in &records.nodes {
            for cpu in numbering.cpus(parts) {
                cpus[cpu].numa_node = Some(*node);
            }
        }
        add_caches(&mut cpus, &records.caches, &numbering);
        Ok(Topology { groups, cpus })
    }

    /// The numbering of the CPUs.
    pub fn numbering(&self) -> Numbering {
        Numbering::new(&self.groups)
    }

    /// The name of each CPU's core type; `None` if no class of it is known.
    pub fn core_types(&self) -> Vec<Option<String>> {
        let known = self.cpus.iter().filter_map(|cpu| cpu.efficiency_class).map(u32::from);
        let mut names = schedlens_core_types::names(&known.collect::<Vec<_>>()).into_iter();
        self.cpus.iter().map(|cpu| cpu.efficiency_class.and_then(|_| names.next())).collect()
    }
}

fn add_caches(cpus: &mut [Cpu], caches: &[Cache], numbering: &Numbering) {
    let mut by_level: Vec<&Cache> =
        caches.iter().filter(|cache| cache.kind != CACHE_INSTRUCTION).collect();
    by_level.sort_by_key(|cache| cache.level);
    for cache in by_level {
        let members = numbering.cpus(&cache.cpus);
        for cpu in &members {
            let row = &mut cpus[*cpu];
            row.llc = members.first().copied();
            match cache.level {
                1 => row.l1d_bytes = Some(cache.bytes),
                2 => row.l2 = members.first().copied(),
                _ => {}
            }
        }
    }
}

#[cfg(test)]
mod tests;
