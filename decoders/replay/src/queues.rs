//! The queues of a CPU: ready threads by priority.

use std::collections::VecDeque;

/// Number of priorities.
pub const LEVELS: usize = 32;

/// Ready threads of one CPU.
#[derive(Debug)]
pub struct Queues {
    levels: [VecDeque<u32>; LEVELS],
    /// A bit for each level that has a thread.
    used: u32,
}

impl Queues {
    /// Empty queues.
    pub fn new() -> Self {
        Self { levels: std::array::from_fn(|_| VecDeque::new()), used: 0 }
    }

    /// Adds a thread at the tail or at the head of its level.
    pub fn add(&mut self, level: usize, thread: u32, at_head: bool) {
        if at_head {
            self.levels[level].push_front(thread);
        } else {
            self.levels[level].push_back(thread);
        }
        self.used |= 1 << level;
    }

    /// The next thread, of the highest priority.
    pub fn first(&self) -> Option<u32> {
        let level = self.highest()?;
        self.levels[level].front().copied()
    }

    /// The highest level that has a thread.
    pub fn highest(&self) -> Option<usize> {
        (self.used != 0).then(|| 31 - self.used.leading_zeros() as usize)
    }

    /// Removes the next thread.
    pub fn take(&mut self) -> Option<u32> {
        let level = self.highest()?;
        let found = self.levels[level].pop_front();
        self.tidy(level);
        found
    }

    /// Removes a thread; false if it is not there.
    pub fn remove(&mut self, level: usize, thread: u32) -> bool {
        let place = self.levels[level].iter().position(|&other| other == thread);
        if let Some(place) = place {
            self.levels[level].remove(place);
            self.tidy(level);
        }
        place.is_some()
    }

    /// The threads of a level, next one first.
    pub fn level(&self, level: usize) -> &VecDeque<u32> {
        &self.levels[level]
    }

    /// A bit for each level that has a thread.
    pub fn used(&self) -> u32 {
        self.used
    }

    fn tidy(&mut self, level: usize) {
        if self.levels[level].is_empty() {
            self.used &= !(1 << level);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::Queues;

    #[test]
    fn the_highest_level_is_first_and_keeps_its_order() {
        let mut queues = Queues::new();
        assert_eq!(queues.take(), None);
        queues.add(8, 1, false);
        queues.add(31, 2, false);
        queues.add(31, 3, false);
        queues.add(31, 4, true);
        queues.add(0, 5, false);
        assert!(queues.remove(31, 2));
        assert!(!queues.remove(31, 2));
        let all: Vec<_> = std::iter::from_fn(|| queues.take()).collect();
        assert_eq!(all, [4, 3, 1, 5]);
        assert_eq!(queues.used(), 0);
    }
}
