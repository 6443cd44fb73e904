//! The records of the buffer, by kind.

use super::{Group, MOST_GROUPS, TopologyError};

/// `LOGICAL_PROCESSOR_RELATIONSHIP`.
pub(crate) const RELATION_PROCESSOR_CORE: u32 = 0;
pub(crate) const RELATION_NUMA_NODE: u32 = 1;
pub(crate) const RELATION_CACHE: u32 = 2;
pub(crate) const RELATION_PROCESSOR_PACKAGE: u32 = 3;
pub(crate) const RELATION_GROUP: u32 = 4;
pub(crate) const RELATION_NUMA_NODE_EX: u32 = 6;

/// `Relationship` and `Size`.
const HEAD_BYTES: usize = 8;
/// `GROUP_AFFINITY` of a 64-bit system: mask, group, three words.
const AFFINITY_BYTES: usize = 16;
/// `PROCESSOR_GROUP_INFO` of a 64-bit system.
const GROUP_INFO_BYTES: usize = 48;

/// Logical CPUs of one processor group (`GROUP_AFFINITY`).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Affinity {
    pub(crate) mask: u64,
    pub(crate) group: u16,
}

/// `CACHE_RELATIONSHIP`.
pub(crate) struct Cache {
    pub(crate) level: u8,
    pub(crate) bytes: u32,
    pub(crate) kind: u32,
    pub(crate) cpus: Vec<Affinity>,
}

/// The records of a buffer by kind, in their order.
#[derive(Default)]
pub(crate) struct Records {
    groups: Vec<Group>,
    pub(crate) cores: Vec<(u8, Vec<Affinity>)>,
    pub(crate) packages: Vec<Vec<Affinity>>,
    pub(crate) nodes: Vec<(u32, Vec<Affinity>)>,
    pub(crate) caches: Vec<Cache>,
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
    pub(crate) fn read(bytes: &[u8]) -> Result<Records, TopologyError> {
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
    pub(crate) fn groups(&self) -> Vec<Group> {
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
