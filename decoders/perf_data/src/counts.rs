//! Number of records of each event and kind.

use crate::record;
use crate::recording::Recording;

impl Recording {
    /// Counts by name: samples by event, other records by kind.
    pub fn counts(&self) -> Vec<(String, u64)> {
        let index = &self.index;
        let mut counts: Vec<(String, u64)> = Vec::new();
        for (event, count) in self.named.iter().zip(&index.samples) {
            match counts.iter_mut().find(|(name, _)| *name == event.name) {
                Some((_, sum)) => *sum += count,
                None => counts.push((event.name.clone(), *count)),
            }
        }
        for (kind, count) in index.kinds.iter().filter(|(kind, _)| **kind != record::SAMPLE) {
            counts.push((record::kind_name(*kind), *count));
        }
        counts
    }
}
