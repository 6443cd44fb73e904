//! CPU numbers over all processor groups.

use super::Group;
use super::records::Affinity;

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
    pub fn place(&self, cpu: usize) -> Option<(u16, u8)> {
        let (group, first, mask) = self
            .groups
            .iter()
            .find(|(_, first, mask)| (*first..first + mask.count_ones() as usize).contains(&cpu))?;
        bits(*mask).nth(cpu - first).map(|number| (*group, number))
    }

    /// The active CPUs among these, ascending.
    pub(crate) fn cpus(&self, parts: &[Affinity]) -> Vec<usize> {
        let mut found: Vec<usize> = parts
            .iter()
            .flat_map(|part| bits(part.mask).filter_map(|number| self.cpu(part.group, number)))
            .collect();
        found.sort_unstable();
        found.dedup();
        found
    }
}

/// The numbers of the set bits, ascending.
pub(crate) fn bits(mask: u64) -> impl Iterator<Item = u8> {
    (0..64).filter(move |bit| mask >> bit & 1 == 1)
}
