//! Functions of a running kernel and of its modules: `/proc/kallsyms`, or a copy of it.

use std::fs::File;
use std::io::{self, BufRead, BufReader, Read};
use std::path::Path;

/// Larger than any kernel's list.
const LARGEST: u64 = 512 << 20;

/// A function of the kernel.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct KernelSymbol<'a> {
    /// Its name.
    pub name: &'a str,
    /// The module it belongs to; `None` for the kernel itself.
    pub module: Option<&'a str>,
}

/// All functions by address.
#[derive(Debug, Default)]
pub struct KernelSymbols {
    /// Address, and the place of `name\0module` in `names`.
    symbols: Vec<(u64, u32, u32)>,
    names: String,
    /// Addresses of the names by which a kernel is recognized.
    marks: Vec<(&'static str, u64)>,
}

/// perf records the address of the first of these that exists.
const MARKS: [&str; 2] = ["_text", "_stext"];

impl KernelSymbols {
    /// Reads a list in the form of `/proc/kallsyms`, plain or gzip.
    ///
    /// # Errors
    /// The file cannot be read.
    pub fn read(path: &Path) -> io::Result<Self> {
        let mut start = [0; 2];
        let mut file = File::open(path)?;
        let count = file.read(&mut start)?;
        let begin = io::Cursor::new(start[..count].to_vec());
        let whole = begin.chain(file);
        if start == [0x1f, 0x8b] {
            Self::of(BufReader::new(flate2::read::GzDecoder::new(whole)).take(LARGEST))
        } else {
            Self::of(BufReader::new(whole).take(LARGEST))
        }
    }

    fn of(mut lines: impl BufRead) -> io::Result<Self> {
        let mut found = Self::default();
        let mut line = Vec::new();
        loop {
            line.clear();
            if lines.read_until(b'\n', &mut line)? == 0 {
                break;
            }
            found.add(&String::from_utf8_lossy(&line));
        }
        // Of several names of an address, the one with fewest underscores before it, as perf does.
        let names = std::mem::take(&mut found.names);
        let underscores = |(_, start, middle): &(u64, u32, u32)| {
            let name = names.get(*start as usize..*middle as usize).unwrap_or_default();
            name.bytes().take_while(|byte| *byte == b'_').count()
        };
        found.symbols.sort_by_key(|symbol| (symbol.0, underscores(symbol)));
        found.symbols.dedup_by_key(|(address, ..)| *address);
        found.names = names;
        Ok(found)
    }

    fn add(&mut self, line: &str) {
        let mut parts = line.split_ascii_whitespace();
        let (Some(address), Some(kind), Some(name)) = (parts.next(), parts.next(), parts.next())
        else {
            return;
        };
        let Ok(address) = u64::from_str_radix(address, 16) else { return };
        // Without the right to see them, all addresses are zero.
        if address == 0 || !matches!(kind, "t" | "T" | "w" | "W") {
            return;
        }
        let module = parts.next().unwrap_or_default().trim_matches(['[', ']']);
        if let Some(mark) = MARKS.iter().find(|mark| **mark == name) {
            self.marks.push((mark, address));
        }
        let Ok(at) = u32::try_from(self.names.len()) else { return };
        self.names.push_str(name);
        let middle = self.names.len() as u32;
        self.names.push_str(module);
        self.names.push('\0');
        self.symbols.push((address, at, middle));
    }

    /// Whether no address is known.
    pub fn is_empty(&self) -> bool {
        self.symbols.is_empty()
    }

    /// Adds a function that is not in the list, such as a BPF program.
    pub fn insert(&mut self, address: u64, name: &str) {
        if let Err(at) = self.symbols.binary_search_by_key(&address, |(address, ..)| *address)
            && let Ok(start) = u32::try_from(self.names.len())
        {
            self.names.push_str(name);
            let middle = self.names.len() as u32;
            self.names.push('\0');
            self.symbols.insert(at, (address, start, middle));
        }
    }

    /// The function that contains an address.
    pub fn at(&self, address: u64) -> Option<KernelSymbol<'_>> {
        let after = self.symbols.partition_point(|(start, ..)| *start <= address);
        let (_, start, middle) = self.symbols.get(after.checked_sub(1)?)?;
        let rest = self.names.get(*middle as usize..)?;
        let module = rest.split('\0').next().filter(|module| !module.is_empty());
        Some(KernelSymbol { name: self.names.get(*start as usize..*middle as usize)?, module })
    }

    /// The address of `_text` or `_stext`, for recognizing the kernel.
    pub fn address_of(&self, mark: &str) -> Option<u64> {
        self.marks.iter().find(|(name, _)| *name == mark).map(|(_, address)| *address)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const LIST: &str = "ffffffff81000000 T _stext\nffffffff81000000 T _text\n\
        ffffffff81000100 t schedule\nffffffff81000180 D data\n0 T hidden\n\
        ffffffffc0000000 t ext4_read\t[ext4]\nzz T x\n\n";

    #[test]
    fn addresses_are_in_the_function_before_them() {
        let list = KernelSymbols::of(LIST.as_bytes()).expect("text");
        let at = |address| list.at(address).map(|found| (found.name, found.module));
        assert_eq!(at(0xffff_ffff_8100_01ff), Some(("schedule", None)));
        assert_eq!(at(0xffff_ffff_c000_0010), Some(("ext4_read", Some("ext4"))));
        assert_eq!(at(0xffff_ffff_8100_0000), Some(("_stext", None)));
        assert_eq!(list.address_of("_text"), Some(0xffff_ffff_8100_0000));
        assert_eq!(at(5), None);
    }

    #[test]
    fn hidden_addresses_are_no_functions() {
        let list = KernelSymbols::of("0000000000000000 T schedule\n".as_bytes()).expect("text");
        assert!(list.is_empty());
    }

    #[test]
    fn code_that_came_later_is_found() {
        let mut list = KernelSymbols::of(LIST.as_bytes()).expect("text");
        list.insert(0xffff_ffff_c000_0800, "bpf_prog_1");
        let found = list.at(0xffff_ffff_c000_0801);
        assert_eq!(found, Some(KernelSymbol { name: "bpf_prog_1", module: None }));
    }
}
