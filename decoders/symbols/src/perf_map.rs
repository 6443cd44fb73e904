//! `perf-PID.map`: the functions that a just-in-time compiler wrote.

use std::fs::File;
use std::io::{self, BufRead, BufReader, Read};
use std::path::Path;

/// Larger than any map of a real program.
const LARGEST: u64 = 512 << 20;

/// Functions by address; a later entry replaces earlier ones at its addresses.
#[derive(Debug, Default)]
pub struct PerfMap {
    /// Start, end and name.
    entries: Vec<(u64, u64, String)>,
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
        let mut entries = Vec::new();
        let mut line = Vec::new();
        loop {
            line.clear();
            if lines.read_until(b'\n', &mut line)? == 0 {
                break;
            }
            entries.extend(entry(&String::from_utf8_lossy(&line)));
        }
        // A stable sort, so that of equal starts the later one comes last.
        entries.sort_by_key(|(start, ..)| *start);
        Ok(Self { entries })
    }

    /// The function at an address.
    pub fn at(&self, address: u64) -> Option<&str> {
        let after = self.entries.partition_point(|(start, ..)| *start <= address);
        let (_, end, name) = self.entries.get(after.checked_sub(1)?)?;
        (address < *end).then_some(name)
    }
}

/// `START SIZE NAME`, the numbers in hexadecimal.
fn entry(line: &str) -> Option<(u64, u64, String)> {
    let (start, rest) = line.trim().split_once(' ')?;
    let (size, name) = rest.trim_start().split_once(' ')?;
    let number = |text: &str| u64::from_str_radix(text.trim_start_matches("0x"), 16).ok();
    let start = number(start)?;
    Some((start, start.checked_add(number(size)?)?, name.trim().to_owned()))
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
}
