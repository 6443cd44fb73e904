//! `perf-PID.map`: the functions that a just-in-time compiler wrote.

use std::collections::BTreeMap;
use std::fs::File;
use std::io::{self, BufRead, BufReader, Read};
use std::path::Path;
use std::rc::Rc;

use crate::function::cut;

/// Larger than any map of a real program.
const LARGEST: u64 = 512 << 20;

/// Functions by address; a later entry replaces earlier ones at its addresses.
#[derive(Debug, Default)]
pub struct PerfMap {
    /// End and name by start; none overlap.
    entries: BTreeMap<u64, (u64, Rc<str>)>,
}

impl PerfMap {
    /// Reads a map.
    ///
    /// # Errors
    /// It is not a file, or cannot be read.
    pub fn read(path: &Path) -> io::Result<Self> {
        if !path.is_file() {
            return Err(io::ErrorKind::NotFound.into());
        }
        Self::of(BufReader::new(File::open(path)?).take(LARGEST))
    }

    fn of(mut lines: impl BufRead) -> io::Result<Self> {
        let mut map = Self::default();
        let mut line = Vec::new();
        loop {
            line.clear();
            if lines.read_until(b'\n', &mut line)? == 0 {
                break;
            }
            if let Some((start, end, name)) = entry(&String::from_utf8_lossy(&line)) {
                map.add(start, end, name.into());
            }
        }
        Ok(map)
    }

    fn add(&mut self, start: u64, end: u64, name: Rc<str>) {
        if start >= end {
            return;
        }
        // What is left of the entries that begin before and inside of the new one.
        let before = self.entries.range_mut(..start).next_back();
        if let Some((_, (old_end, old_name))) = before
            && *old_end > start
        {
            let rest = (*old_end, Rc::clone(old_name));
            *old_end = start;
            if rest.0 > end {
                self.entries.insert(end, rest);
            }
        }
        while let Some((old, _)) = self.entries.range(start..end).next() {
            let old = *old;
            if let Some(rest) = self.entries.remove(&old)
                && rest.0 > end
            {
                self.entries.insert(end, rest);
            }
        }
        self.entries.insert(start, (end, name));
    }

    /// The function at an address.
    pub fn at(&self, address: u64) -> Option<&str> {
        let (_, (end, name)) = self.entries.range(..=address).next_back()?;
        (address < *end).then_some(name)
    }
}

/// `START SIZE NAME`, the numbers in hexadecimal.
fn entry(line: &str) -> Option<(u64, u64, String)> {
    let (start, rest) = line.trim().split_once(' ')?;
    let (size, name) = rest.trim_start().split_once(' ')?;
    let number = |text: &str| u64::from_str_radix(text.trim_start_matches("0x"), 16).ok();
    let start = number(start)?;
    Some((start, start.checked_add(number(size)?)?, cut(name.trim())))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn entries_have_a_start_a_size_and_a_name_with_spaces() {
        let text = "7f00 10 fib(int) [tier 1]\n0x8000 20 main\nbroken\n7f00 8 fib(int) [tier 2]\n";
        let map = PerfMap::of(text.as_bytes()).expect("text");
        assert_eq!(map.at(0x7f07), Some("fib(int) [tier 2]"));
        assert_eq!(map.at(0x801f), Some("main"));
        assert_eq!(map.at(0x8020), None);
        assert_eq!(map.at(1), None);
    }

    // 0x100 AAAAAAAA 0x180, then B on [0x0f0, 0x120), then C on [0x140, 0x150)
    #[test]
    fn code_at_addresses_that_were_used_before_has_the_later_name() {
        let text = "100 80 A\nf0 30 B\n140 10 C\n200 0 empty\n";
        let map = PerfMap::of(text.as_bytes()).expect("text");
        let cases = [
            (0xef, None),
            (0xf0, Some("B")),
            (0x110, Some("B")),
            (0x120, Some("A")),
            (0x145, Some("C")),
            (0x150, Some("A")),
            (0x180, None),
            (0x200, None),
        ];
        for (address, name) in cases {
            assert_eq!(map.at(address), name, "{address:x}");
        }
    }
}
