//! Which logical CPUs share what, from the bytes of `GetLogicalProcessorInformationEx`.
//!
//! Only bytes are read here, so a buffer that was saved on one machine can be read on any other.

use std::fmt;

use crate::json::Value;

/// `LOGICAL_PROCESSOR_RELATIONSHIP`.
const RELATION_PROCESSOR_CORE: u32 = 0;
const RELATION_NUMA_NODE: u32 = 1;
const RELATION_CACHE: u32 = 2;
const RELATION_PROCESSOR_PACKAGE: u32 = 3;
const RELATION_GROUP: u32 = 4;
const RELATION_NUMA_NODE_EX: u32 = 6;

/// `PROCESSOR_CACHE_TYPE`: the only one without data.
const CACHE_INSTRUCTION: u32 = 1;
/// `Relationship` and `Size`.
const HEAD_BYTES: usize = 8;
/// `GROUP_AFFINITY` of a 64-bit system: mask, group, three words.
const AFFINITY_BYTES: usize = 16;
/// `PROCESSOR_GROUP_INFO` of a 64-bit system.
const GROUP_INFO_BYTES: usize = 48;

/// Windows Server has up to 2048 logical CPUs, 64 to a group.
const MOST_GROUPS: usize = 32;

/// Why a buffer cannot be used.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum TopologyError {
    /// A record says it is `size` bytes long, but only `left` remain.
    Size { at: usize, size: usize, left: usize },
    /// A record of `size` bytes needs `needed` for its content.
    Short { at: usize, needed: usize, size: usize },
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

/// Logical CPUs of one processor group (`GROUP_AFFINITY`).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Affinity {
    mask: u64,
    group: u16,
}

/// A processor group (`PROCESSOR_GROUP_INFO`).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Group {
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
    pub group: u16,
    pub number_in_group: u8,
    pub core: Option<usize>,
    pub smt_index: Option<usize>,
    pub efficiency_class: Option<u8>,
    pub l2: Option<usize>,
    pub llc: Option<usize>,
    pub package: Option<usize>,
    pub numa_node: Option<u32>,
    /// Size of its first-level data cache.
    pub l1d_bytes: Option<u32>,
}

/// All active logical CPUs, by number.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Topology {
    pub groups: Vec<Group>,
    pub cpus: Vec<Cpu>,
}

struct Cache {
    level: u8,
    bytes: u32,
    kind: u32,
    cpus: Vec<Affinity>,
}

#[derive(Default)]
struct Records {
    groups: Vec<Group>,
    cores: Vec<(u8, Vec<Affinity>)>,
    packages: Vec<Vec<Affinity>>,
    nodes: Vec<(u32, Vec<Affinity>)>,
    caches: Vec<Cache>,
}

/// The bytes of one record, from its `Relationship` on.
struct Record<'a> {
    at: usize,
    bytes: &'a [u8],
}

impl<'a> Record<'a> {
    fn take(&self, at: usize, count: usize) -> Result<&'a [u8], TopologyError> {
        let needed = at.saturating_add(count);
        let short = TopologyError::Short { at: self.at, needed, size: self.bytes.len() };
        self.bytes.get(at..needed).ok_or(short)
    }

    /// The little-endian number of `count` bytes.
    fn word(&self, at: usize, count: usize) -> Result<u64, TopologyError> {
        let bytes = self.take(at, count)?;
        Ok(bytes.iter().rev().fold(0, |sum, byte| sum << 8 | u64::from(*byte)))
    }

    fn byte(&self, at: usize) -> Result<u8, TopologyError> {
        Ok(self.word(at, 1)? as u8)
    }

    fn long(&self, at: usize) -> Result<u32, TopologyError> {
        Ok(self.word(at, 4)? as u32)
    }

    /// `GROUP_AFFINITY` structures, with their count at `count_at`; older systems write 0 for one.
    fn affinities(&self, count_at: usize, at: usize) -> Result<Vec<Affinity>, TopologyError> {
        let count = (self.word(count_at, 2)? as usize).max(1);
        let bytes = self.take(at, count * AFFINITY_BYTES)?;
        let mut found = Vec::new();
        for index in 0..bytes.len() / AFFINITY_BYTES {
            let at = at + index * AFFINITY_BYTES;
            found.push(Affinity { mask: self.word(at, 8)?, group: self.word(at + 8, 2)? as u16 });
        }
        Ok(found)
    }
}

impl Records {
    fn read(bytes: &[u8]) -> Result<Records, TopologyError> {
        let mut records = Records::default();
        let mut at = 0;
        while at < bytes.len() {
            let head = Record { at, bytes: &bytes[at..] };
            let (kind, size) = (head.long(0)?, head.long(4)? as usize);
            let left = bytes.len() - at;
            if size < HEAD_BYTES || size > left {
                return Err(TopologyError::Size { at, size, left });
            }
            records.add(kind, &Record { at, bytes: &bytes[at..at + size] })?;
            at += size;
        }
        Ok(records)
    }

    fn add(&mut self, kind: u32, record: &Record<'_>) -> Result<(), TopologyError> {
        match kind {
            RELATION_PROCESSOR_CORE => {
                self.cores.push((record.byte(9)?, record.affinities(30, 32)?));
            }
            RELATION_PROCESSOR_PACKAGE => self.packages.push(record.affinities(30, 32)?),
            RELATION_NUMA_NODE | RELATION_NUMA_NODE_EX => {
                self.nodes.push((record.long(8)?, record.affinities(30, 32)?));
            }
            RELATION_CACHE => self.caches.push(Cache {
                level: record.byte(8)?,
                bytes: record.long(12)?,
                kind: record.long(16)?,
                cpus: record.affinities(38, 40)?,
            }),
            RELATION_GROUP => self.add_groups(record)?,
            // Dies and modules have no column. Later versions of Windows may add others.
            _ => {}
        }
        Ok(())
    }

    fn add_groups(&mut self, record: &Record<'_>) -> Result<(), TopologyError> {
        let count = record.word(10, 2)? as usize;
        let first = self.groups.len();
        record.take(32, count * GROUP_INFO_BYTES)?;
        if first + count > MOST_GROUPS {
            return Err(TopologyError::Groups(first + count));
        }
        for index in 0..count {
            let at = 32 + index * GROUP_INFO_BYTES;
            self.groups.push(Group {
                group: (first + index) as u16,
                maximum: record.byte(at)?,
                active_mask: record.word(at + 40, 8)?,
            });
        }
        Ok(())
    }

    /// The groups in the buffer; without such a record, those of the cores.
    fn groups(&self) -> Vec<Group> {
        if !self.groups.is_empty() {
            return self.groups.clone();
        }
        let mut groups: Vec<Group> = Vec::new();
        for part in self.cores.iter().flat_map(|(_, parts)| parts) {
            match groups.iter_mut().find(|group| group.group == part.group) {
                Some(group) => group.active_mask |= part.mask,
                None => {
                    groups.push(Group { group: part.group, maximum: 64, active_mask: part.mask })
                }
            }
        }
        groups.sort_by_key(|group| group.group);
        groups
    }
}

/// Numbers CPUs over the whole machine, like the kernel's processor indexes and ETW.
#[derive(Debug, Clone)]
pub struct Numbering {
    /// By group: its number, the number of its first CPU, its active CPUs.
    groups: Vec<(u16, usize, u64)>,
}

impl Numbering {
    /// The numbering of these groups.
    pub fn new(groups: &[Group]) -> Numbering {
        let mut first = 0;
        let numbered = |group: &Group| {
            let row = (group.group, first, group.active_mask);
            first += group.active_mask.count_ones() as usize;
            row
        };
        Numbering { groups: groups.iter().map(numbered).collect() }
    }

    /// The number of a CPU of a group; `None` if it is not active.
    pub fn cpu(&self, group: u16, number: u8) -> Option<usize> {
        let (_, first, mask) = self.groups.iter().find(|row| row.0 == group)?;
        let bit = 1_u64.checked_shl(u32::from(number))?;
        (mask & bit != 0).then(|| first + (mask & (bit - 1)).count_ones() as usize)
    }

    /// A CPU's group and its number in the group.
    #[cfg_attr(not(any(windows, test)), expect(dead_code, reason = "only Windows binds by group"))]
    pub fn place(&self, cpu: usize) -> Option<(u16, u8)> {
        let (group, first, mask) = self
            .groups
            .iter()
            .find(|(_, first, mask)| (*first..first + mask.count_ones() as usize).contains(&cpu))?;
        bits(*mask).nth(cpu - first).map(|number| (*group, number))
    }

    /// The active CPUs among these, ascending.
    fn cpus(&self, parts: &[Affinity]) -> Vec<usize> {
        let mut found: Vec<usize> = parts
            .iter()
            .flat_map(|part| bits(part.mask).filter_map(|number| self.cpu(part.group, number)))
            .collect();
        found.sort_unstable();
        found.dedup();
        found
    }
}

fn bits(mask: u64) -> impl Iterator<Item = u8> {
    (0..64).filter(move |bit| mask >> bit & 1 == 1)
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
    #[cfg_attr(not(any(windows, test)), expect(dead_code, reason = "only Windows binds by group"))]
    pub fn numbering(&self) -> Numbering {
        Numbering::new(&self.groups)
    }

    /// The name of each CPU's core type; `None` if no class of it is known.
    pub fn core_types(&self) -> Vec<Option<String>> {
        let known = self.cpus.iter().filter_map(|cpu| cpu.efficiency_class).map(u32::from);
        let mut names = schedlens_core_types::names(&known.collect::<Vec<_>>()).into_iter();
        self.cpus.iter().map(|cpu| cpu.efficiency_class.and_then(|_| names.next())).collect()
    }

    /// The object `topology` of session.json; `allowed`: the CPUs this process may use.
    pub fn json(&self, allowed: &[usize]) -> Value {
        let cpus = self.cpus.iter().zip(self.core_types()).map(|(cpu, core_type)| {
            Value::object([
                ("cpu", Value::from(cpu.cpu)),
                ("group_no", cpu.group.into()),
                ("number_in_group", u32::from(cpu.number_in_group).into()),
                ("online", true.into()),
                ("core", cpu.core.into()),
                ("smt_index", cpu.smt_index.into()),
                ("core_type", core_type.into()),
                ("efficiency_class", cpu.efficiency_class.map(u32::from).into()),
                ("capacity", Value::Null),
                ("l2", cpu.l2.into()),
                ("llc", cpu.llc.into()),
                ("package", cpu.package.into()),
                ("numa_node", cpu.numa_node.into()),
                ("base_khz", Value::Null),
                ("max_khz", Value::Null),
            ])
        });
        Value::object([
            ("source", Value::from("GetLogicalProcessorInformationEx")),
            ("cpus", Value::list(cpus)),
            ("allowed", Value::list(allowed.iter().copied())),
        ])
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
