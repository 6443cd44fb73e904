//! Names of core types: the one rule that the readers, the workload program, and Python share.

#![deny(missing_docs)]

/// The name of the core type of each CPU, given the efficiency class of each; a higher class is
/// faster.
///
/// `U` if all are equal, `E` and `P` if there are two classes, `LP-E`, `E`, and `P` if there are
/// three. With more classes there are no common names: then the name is the number of the class.
pub fn names(classes: &[u32]) -> Vec<String> {
    let mut ranks = classes.to_vec();
    ranks.sort_unstable();
    ranks.dedup();
    let words: &[&str] = match ranks.len() {
        1 => &["U"],
        2 => &["E", "P"],
        3 => &["LP-E", "E", "P"],
        _ => &[],
    };
    let name = |class: &u32| {
        let word = ranks.binary_search(class).ok().and_then(|rank| words.get(rank));
        word.map_or_else(|| class.to_string(), |word| (*word).to_owned())
    };
    classes.iter().map(name).collect()
}

#[cfg(test)]
mod tests {
    use super::names;

    #[test]
    fn classes_are_named_by_rank_and_beyond_three_by_number() {
        assert_eq!(names(&[0, 0]), ["U", "U"]);
        assert_eq!(names(&[7, 7]), ["U", "U"]);
        assert_eq!(names(&[1, 0, 1]), ["P", "E", "P"]);
        assert_eq!(names(&[5, 0, 2]), ["P", "LP-E", "E"]);
        assert_eq!(names(&[0, 1, 2, 9]), ["0", "1", "2", "9"]);
        assert!(names(&[]).is_empty());
    }
}
