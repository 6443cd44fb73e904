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
/// Maximum rows; what is wrong may contain a number of the file, so that each is of its own kind.
const ROWS: usize = 400;
/// The row of all further ones.
const FURTHER: (&str, &str) = ("elsewhere", "problems of further kinds");

/// All problems, in order of first appearance.
#[derive(Clone, Debug, Default)]
pub struct Problems(Vec<Problem>);

impl Problems {
    /// All rows.
    pub fn rows(&self) -> &[Problem] {
        &self.0
    }

    /// Counts one occurrence. The same problem at the same location is one row, and so is
    /// everything beyond a maximum.
    pub fn add(&mut self, place: impl Into<String>, what: impl Into<String>) {
        self.add_many(place, what, 1);
    }

    /// Counts several occurrences.
    pub fn add_many(&mut self, place: impl Into<String>, what: impl Into<String>, count: i64) {
        let (place, what) = (place.into(), what.into());
        let alike = self.0.iter().filter(|known| known.what == what).count();
        let is_full = self.0.len() >= ROWS;
        let (place, what) = if is_full && alike == 0 {
            (FURTHER.0.to_owned(), FURTHER.1.to_owned())
        } else {
            (place, what)
        };
        let mut known = self.0.iter_mut().rev().filter(|known| known.what == what);
        let same = if is_full || alike >= PLACES_A_KIND {
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

    #[test]
    fn further_kinds_share_a_row() {
        let mut problems = Problems::default();
        for size in 0..100_000 {
            problems.add("CPU 0", format!("{size} bytes are too many"));
        }
        assert_eq!(problems.0.len(), ROWS + 1);
        assert_eq!(problems.0.iter().map(|problem| problem.count).sum::<i64>(), 100_000);
    }
}
