//! What could not be read or was corrected, counted by location and kind.

/// One row of `problem`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Problem {
    /// The location: an offset, an event, a part of the file.
    pub place: String,
    /// What is wrong.
    pub what: String,
    /// How often it occurred.
    pub count: i64,
}

/// Maximum separate rows of one kind; further ones are counted with the last.
const PLACES_A_KIND: usize = 16;

/// All problems, in order of first appearance.
#[derive(Clone, Debug, Default)]
pub struct Problems(Vec<Problem>);

impl Problems {
    /// All rows.
    pub fn rows(&self) -> &[Problem] {
        &self.0
    }

    /// Counts one occurrence. The same problem at the same location is one row, and so is
    /// everything beyond the maximum.
    pub fn add(&mut self, place: impl Into<String>, what: impl Into<String>) {
        self.add_many(place, what, 1);
    }

    /// Counts several occurrences.
    pub fn add_many(&mut self, place: impl Into<String>, what: impl Into<String>, count: i64) {
        let (place, what) = (place.into(), what.into());
        let alike = self.0.iter().filter(|known| known.what == what).count();
        let mut known = self.0.iter_mut().rev().filter(|known| known.what == what);
        let same = if alike >= PLACES_A_KIND {
            known.next()
        } else {
            known.find(|known| known.place == place)
        };
        match same {
            Some(same) => same.count += count,
            None => self.0.push(Problem { place, what, count }),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn further_locations_of_one_kind_share_a_row() {
        let mut problems = Problems::default();
        for offset in 0..1000 {
            problems.add(format!("offset {offset}"), "a record that does not fit");
        }
        problems.add("feature", "another");
        assert_eq!(problems.0.len(), PLACES_A_KIND + 1);
        assert_eq!(problems.0.iter().map(|problem| problem.count).sum::<i64>(), 1001);
    }
}
