//! Processor groups: the mapping from a number in a group to a logical CPU of the whole machine.

/// Group and number of each logical CPU, in the order of the system's processor indexes.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Numbering {
    /// `None` for a CPU whose group and number are unknown.
    places: Vec<Option<(u16, u8)>>,
}

/// CPUs per group.
const GROUP_SIZE: u32 = 64;
/// Maximum CPUs of a machine; more means damaged data.
const MOST_CPUS: usize = 1 << 11;

impl Numbering {
    /// From the records that contain it (hook 0B1B), else from the group masks (hook 0B1A), because
    /// the system numbers its processors group by group. Otherwise up to 64 CPUs form one group.
    pub fn new(recorded: &[(u16, u8)], masks: &[u64], cpus: usize) -> Self {
        let cpus = cpus.min(MOST_CPUS);
        let places: Vec<Option<(u16, u8)>> = if !recorded.is_empty() {
            let is_possible = |(_, number): &(u16, u8)| u32::from(*number) < GROUP_SIZE;
            recorded.iter().take(MOST_CPUS).map(|place| Some(*place).filter(is_possible)).collect()
        } else if !masks.is_empty() {
            let places = masks.iter().enumerate().flat_map(|(group, mask)| {
                let group = group as u16;
                bits(*mask).map(move |number| Some((group, number as u8)))
            });
            places.take(MOST_CPUS).collect()
        } else {
            let one_group = cpus <= GROUP_SIZE as usize;
            (0..cpus).map(|cpu| one_group.then_some((0, cpu as u8))).collect()
        };
        Self { places }
    }

    /// Extends the numbering to at least this many CPUs; the additional ones have no group and
    /// number.
    pub fn cover(&mut self, cpus: usize) {
        self.places.resize(self.places.len().max(cpus.min(MOST_CPUS)), None);
    }

    /// Number of logical CPUs.
    pub fn len(&self) -> usize {
        self.places.len()
    }

    /// Whether no CPU is known.
    pub fn is_empty(&self) -> bool {
        self.places.is_empty()
    }

    /// Group and number of a CPU.
    pub fn place(&self, cpu: i32) -> Option<(u16, u8)> {
        *self.places.get(usize::try_from(cpu).ok()?)?
    }

    /// The CPU with a number in a group.
    pub fn cpu(&self, group: u16, number: u8) -> Option<i32> {
        let place = Some((group, number));
        self.places.iter().position(|known| *known == place).map(|cpu| cpu as i32)
    }

    /// The CPUs of a mask in a group, in ascending order.
    pub fn cpus(&self, group: u16, mask: u64) -> Vec<i32> {
        let mut found: Vec<i32> =
            bits(mask).filter_map(|number| self.cpu(group, number as u8)).collect();
        found.sort_unstable();
        found
    }

    /// The group, if there is only one.
    pub fn only_group(&self) -> Option<u16> {
        let mut groups = self.places.iter().map(|place| place.map(|(group, _)| group));
        let first = groups.next()??;
        groups.all(|group| group == Some(first)).then_some(first)
    }
}

/// Numbers of the set bits.
pub fn bits(mask: u64) -> impl Iterator<Item = u32> {
    (0..GROUP_SIZE).filter(move |bit| mask >> bit & 1 == 1)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn impossible_number_in_a_group_is_unknown() {
        let recorded = Numbering::new(&[(0, 63), (0, 64), (0, 255)], &[], 3);
        let places: Vec<_> = (0..3).map(|cpu| recorded.place(cpu)).collect();
        assert_eq!(places, [Some((0, 63)), None, None]);
    }

    #[test]
    fn groups_come_from_records_or_masks() {
        let recorded = Numbering::new(&[(0, 0), (0, 1), (1, 0), (1, 1)], &[], 4);
        let by_mask = Numbering::new(&[], &[3, 3], 4);
        assert_eq!(recorded, by_mask);
        assert_eq!(
            (recorded.cpu(1, 1), recorded.place(2), recorded.cpu(2, 0)),
            (Some(3), Some((1, 0)), None)
        );
        assert_eq!(recorded.cpus(1, 0b111), [2, 3]);
        assert_eq!(recorded.only_group(), None);
    }

    #[test]
    fn unlisted_cpu_has_no_group() {
        for mut short in [Numbering::new(&[(0, 0), (0, 1)], &[], 3), Numbering::new(&[], &[3], 3)] {
            assert_eq!(short.len(), 2);
            short.cover(3);
            short.cover(1);
            assert_eq!((short.len(), short.place(1), short.place(2)), (3, Some((0, 1)), None));
            assert_eq!(short.only_group(), None);
        }
    }

    #[test]
    fn beyond_one_group_nothing_is_guessed() {
        let small = Numbering::new(&[], &[], 64);
        assert_eq!((small.only_group(), small.cpu(0, 63)), (Some(0), Some(63)));
        let large = Numbering::new(&[], &[], 65);
        assert_eq!((large.only_group(), large.place(0), large.len()), (None, None, 65));
    }
}
