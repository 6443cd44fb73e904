//! Sets of logical CPUs or cores, by their index in the machine.

/// A set of small numbers. All masks of one machine have the same number of words.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Mask(Vec<u64>);

impl Mask {
    /// An empty set with room for the numbers below `len`.
    pub fn new(len: usize) -> Self {
        Self(vec![0; len.div_ceil(64)])
    }

    /// Adds or removes a number below the length the mask was made with.
    pub fn set(&mut self, at: usize, on: bool) {
        let bit = 1 << (at % 64);
        if on {
            self.0[at / 64] |= bit;
        } else {
            self.0[at / 64] &= !bit;
        }
    }

    /// Whether the number is in the set.
    pub fn has(&self, at: usize) -> bool {
        self.0[at / 64] & (1 << (at % 64)) != 0
    }

    /// Whether the set has no member.
    pub fn is_empty(&self) -> bool {
        self.0.iter().all(|word| *word == 0)
    }

    /// Number of members.
    pub fn len(&self) -> usize {
        self.0.iter().map(|word| word.count_ones() as usize).sum()
    }

    /// Removes all members.
    pub fn clear(&mut self) {
        self.0.fill(0);
    }

    /// Whether two sets have a member in common.
    pub fn meets(&self, other: &Self) -> bool {
        self.0.iter().zip(&other.0).any(|(a, b)| a & b != 0)
    }

    /// Whether three sets have a member in common.
    pub fn meets_both(&self, other: &Self, third: &Self) -> bool {
        self.0.iter().zip(&other.0).zip(&third.0).any(|((a, b), c)| a & b & c != 0)
    }

    /// Sets this to the intersection of `other` and `keep`.
    pub fn assign_and(&mut self, other: &Self, keep: &Self) {
        for ((word, a), b) in self.0.iter_mut().zip(&other.0).zip(&keep.0) {
            *word = a & b;
        }
    }

    /// The members in rising order.
    pub fn iter(&self) -> impl Iterator<Item = usize> + '_ {
        self.0.iter().enumerate().flat_map(|(place, word)| {
            let mut rest = *word;
            std::iter::from_fn(move || {
                if rest == 0 {
                    return None;
                }
                let bit = rest.trailing_zeros() as usize;
                rest &= rest - 1;
                Some(place * 64 + bit)
            })
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn members_beyond_the_first_word_are_kept() {
        let mut mask = Mask::new(130);
        for at in [0, 63, 64, 129] {
            mask.set(at, true);
        }
        mask.set(63, false);
        assert_eq!(mask.iter().collect::<Vec<_>>(), [0, 64, 129]);
        assert_eq!(mask.len(), 3);
        assert!(mask.has(129) && !mask.has(63));
        let mut other = Mask::new(130);
        assert!(!mask.meets(&other));
        other.set(129, true);
        assert!(mask.meets(&other));
        assert!(mask.meets_both(&other, &other));
    }
}
