//! Lists of CPUs as the kernel writes them and users type them: `0-3,8`.

/// The CPUs of a list in its order, with repetitions; an empty text names none.
///
/// `None` if it is malformed, runs backwards, or names a CPU at or above `limit`.
pub fn cpu_list(text: &str, limit: u32) -> Option<Vec<u32>> {
    let text = text.trim();
    let mut cpus = Vec::new();
    for part in text.split(',').filter(|_| !text.is_empty()) {
        let (first, last) = part.split_once('-').unwrap_or((part, part));
        let (first, last) = (first.trim().parse::<u32>().ok()?, last.trim().parse::<u32>().ok()?);
        if last < first || last >= limit {
            return None;
        }
        cpus.extend(first..=last);
    }
    Some(cpus)
}

#[cfg(test)]
mod tests {
    use super::cpu_list;

    #[test]
    fn lists_are_read_in_order_or_refused_whole() {
        assert_eq!(cpu_list("0-2,8\n", 9), Some(vec![0, 1, 2, 8]));
        assert_eq!(cpu_list("1,1,4-5", 9), Some(vec![1, 1, 4, 5]));
        assert_eq!(cpu_list(" \n", 9), Some(vec![]));
        for wrong in
            ["0-2,x", "0-9", "9", "3-1", "1,,2", "1,", "-1", "0-4000000000", "0-99999999999"]
        {
            assert_eq!(cpu_list(wrong, 9), None, "{wrong}");
        }
    }
}
