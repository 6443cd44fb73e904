//! `jit-PID.dump`: the functions that a just-in-time compiler made, when, and from which lines
//! (tools/perf/Documentation/jitdump-specification.txt of Linux).

use std::collections::HashMap;
use std::io;
use std::path::Path;
use std::sync::Arc;

use schedlens_input::bytes::{u32_at, u64_at};
use schedlens_input::files::Mapped;

use crate::function::{LONGEST_NAME, cut};

/// `JITHEADER_MAGIC`, as bytes of a little-endian machine.
const MAGIC: &[u8] = b"DTiJ";
/// `JITDUMP_FLAGS_ARCH_TIMESTAMP`: times are ticks of the processor.
const TICKS: u64 = 1;
/// `JIT_CODE_LOAD`
const LOAD: u32 = 0;
/// `JIT_CODE_MOVE`
const MOVE: u32 = 1;
/// `JIT_CODE_DEBUG_INFO`
const DEBUG_INFO: u32 = 2;
/// Identifier, size and time of a record.
const PREFIX: usize = 16;
/// The name of the line before.
const SAME: &[u8] = b"\xff";
/// More functions than this are not read, and more lines of one function.
const MOST: usize = 1 << 21;
const MOST_LINES: usize = 1 << 16;

/// Where a part of a function begins, and its file and line.
pub type Line = (u64, Arc<str>, u32);

/// A function at an address.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Generated {
    /// Time in ns of `CLOCK_MONOTONIC`; `None`: the dump does not have such times.
    pub ts: Option<u64>,
    /// First address.
    pub start: u64,
    /// Number of bytes.
    pub size: u64,
    /// Its name.
    pub name: Arc<str>,
    /// Distance from the first address, file and line of its parts, by distance.
    pub lines: Arc<[Line]>,
    /// Where it was before, if it was moved.
    pub from: Option<u64>,
}

/// Reads a dump, whose last record may be incomplete.
///
/// # Errors
/// It is not a dump of a little-endian machine, or cannot be read.
pub fn read(path: &Path) -> io::Result<Vec<Generated>> {
    if !path.is_file() {
        return Err(io::ErrorKind::NotFound.into());
    }
    functions(Mapped::open(path)?.bytes()).ok_or_else(|| io::ErrorKind::InvalidData.into())
}

/// The functions of a dump in the order of its records; `None` if it is not a dump of a
/// little-endian machine.
pub fn functions(bytes: &[u8]) -> Option<Vec<Generated>> {
    if !bytes.starts_with(MAGIC) {
        return None;
    }
    let has_times = u64_at(bytes, 32)? & TICKS == 0;
    let mut at = u32_at(bytes, 8)? as usize;
    let mut found: Vec<Generated> = Vec::new();
    let mut lines: HashMap<u64, Vec<Line>> = HashMap::new();
    // The last function at each address.
    let mut current: HashMap<u64, usize> = HashMap::new();
    while let (Some(id), Some(size)) = (u32_at(bytes, at), u32_at(bytes, at + 4)) {
        let end = at.checked_add(size as usize)?;
        let (true, Some(record)) = (size as usize >= PREFIX, bytes.get(at..end)) else { break };
        at = end;
        let ts = u64_at(record, 8).filter(|_| has_times);
        if found.len() >= MOST {
            break;
        }
        match id {
            DEBUG_INFO => {
                if let Some((start, of)) = debug_info(record) {
                    lines.insert(start, of);
                }
            }
            LOAD => {
                let Some((start, size, name)) = load(record) else { continue };
                let mut of = lines.remove(&start).unwrap_or_default();
                of.retain(|(address, ..)| address.wrapping_sub(start) < size);
                of.iter_mut().for_each(|(address, ..)| *address -= start);
                of.sort_by_key(|(distance, ..)| *distance);
                current.insert(start, found.len());
                found.push(Generated { ts, start, size, name, lines: of.into(), from: None });
            }
            MOVE => {
                // Process, thread and `vma` are before the addresses.
                let address = |place| u64_at(record, PREFIX + 16 + place);
                let (Some(from), Some(to)) = (address(0), address(8)) else { continue };
                let Some(old) = current.remove(&from).and_then(|old| found.get(old)) else {
                    continue;
                };
                if to.checked_add(old.size).is_none() {
                    continue;
                }
                let moved = Generated { ts, start: to, from: Some(from), ..old.clone() };
                current.insert(to, found.len());
                found.push(moved);
            }
            _ => {}
        }
    }
    Some(found)
}

/// Address, size and name of a function.
fn load(record: &[u8]) -> Option<(u64, u64, Arc<str>)> {
    let (start, size) = (u64_at(record, PREFIX + 16)?, u64_at(record, PREFIX + 24)?);
    start.checked_add(size)?;
    let name = name(until_zero(record.get(PREFIX + 40..)?));
    (size > 0).then_some((start, size, name))
}

/// Address of a function, and address, file and line of its parts.
fn debug_info(record: &[u8]) -> Option<(u64, Vec<Line>)> {
    let start = u64_at(record, PREFIX)?;
    let count = usize::try_from(u64_at(record, PREFIX + 8)?).ok()?;
    let mut lines: Vec<Line> = Vec::new();
    let mut rest = record.get(PREFIX + 16..)?;
    for _ in 0..count.min(MOST_LINES) {
        // Address, line, and discriminator.
        let (Some(address), Some(line)) = (u64_at(rest, 0), u32_at(rest, 8)) else { break };
        let Some(texts) = rest.get(16..) else { break };
        let name = until_zero(texts);
        let file = match lines.last() {
            Some((_, before, _)) if name == SAME => Arc::clone(before),
            _ => self::name(name),
        };
        lines.push((address, file, line));
        rest = texts.get(name.len() + 1..).unwrap_or_default();
    }
    Some((start, lines))
}

/// A name or a path, if it is too long without its end.
fn name(bytes: &[u8]) -> Arc<str> {
    // A character of more bytes than one is cut with the text.
    let start = bytes.get(..=LONGEST_NAME).unwrap_or(bytes);
    Arc::from(cut(&String::from_utf8_lossy(start)))
}

fn until_zero(bytes: &[u8]) -> &[u8] {
    bytes.split(|byte| *byte == 0).next().unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn header(flags: u64) -> Vec<u8> {
        let mut bytes = MAGIC.to_vec();
        for word in [1_u32, 40, 62, 0, 7] {
            bytes.extend(word.to_le_bytes());
        }
        bytes.extend(0_u64.to_le_bytes());
        bytes.extend(flags.to_le_bytes());
        bytes
    }

    fn record(id: u32, ts: u64, words: &[u64], tail: &[u8]) -> Vec<u8> {
        let size = PREFIX + 8 * words.len() + tail.len();
        let mut bytes = id.to_le_bytes().to_vec();
        bytes.extend((size as u32).to_le_bytes());
        bytes.extend(ts.to_le_bytes());
        words.iter().for_each(|word| bytes.extend(word.to_le_bytes()));
        bytes.extend(tail);
        bytes
    }

    fn dump(flags: u64) -> Vec<u8> {
        let line = |address: u64, line: u32, file: &[u8]| {
            let mut bytes = address.to_le_bytes().to_vec();
            bytes.extend(line.to_le_bytes());
            bytes.extend([0; 4]);
            bytes.extend(file);
            bytes
        };
        let lines = [line(0x1004, 9, b"\xff\0"), line(0x1000, 8, b"a.js\0")];
        let lines = [&lines[1][..], &lines[0][..]].concat();
        [
            header(flags),
            record(DEBUG_INFO, 4, &[0x1000, 2], &lines),
            // Process and thread, `vma`, address, size, number.
            record(LOAD, 5, &[7, 0x1000, 0x1000, 16, 0], b"fib\0code"),
            record(MOVE, 6, &[7, 0x2000, 0x1000, 0x2000, 16, 0], b""),
            record(9, 7, &[], b"unknown"),
            record(LOAD, 8, &[7, 0x1000, 0x1000, 32, 1], b"main\0"),
        ]
        .concat()
    }

    #[test]
    fn functions_have_times_lines_and_the_place_they_were_moved_from() {
        let found = functions(&dump(0)).expect("dump");
        let file: Arc<str> = Arc::from("a.js");
        let lines: Arc<[_]> = Arc::from([(0, Arc::clone(&file), 8), (4, file, 9)]);
        let fib = Generated {
            ts: Some(5),
            start: 0x1000,
            size: 16,
            name: Arc::from("fib"),
            lines,
            from: None,
        };
        let moved = Generated { ts: Some(6), start: 0x2000, from: Some(0x1000), ..fib.clone() };
        let main = Generated {
            ts: Some(8),
            size: 32,
            name: Arc::from("main"),
            lines: Arc::from([]),
            ..fib.clone()
        };
        assert_eq!(found, [fib, moved, main]);
        assert!(functions(&dump(TICKS)).expect("dump").iter().all(|of| of.ts.is_none()));
    }

    #[test]
    fn a_dump_that_is_cut_off_has_the_functions_before() {
        let whole = dump(0);
        let counts: Vec<usize> =
            (40..=whole.len()).map(|end| functions(&whole[..end]).expect("dump").len()).collect();
        assert!(counts.is_sorted());
        assert_eq!((counts[0], counts[counts.len() - 1]), (0, 3));
        assert_eq!(functions(&whole[..30]), None);
        assert_eq!(functions(b"JiTD"), None);
    }

    #[test]
    fn code_that_wraps_around_the_last_address_is_no_function() {
        let last = u64::MAX - 8;
        let dump = [
            header(0),
            record(LOAD, 5, &[7, last, last, 16, 0], b"wraps\0"),
            record(LOAD, 6, &[7, 0x1000, 0x1000, 16, 0], b"fib\0"),
            record(MOVE, 7, &[7, last, 0x1000, last, 16, 0], b""),
        ]
        .concat();
        let names: Vec<_> = functions(&dump)
            .expect("dump")
            .into_iter()
            .map(|made| (made.start, made.name.to_string()))
            .collect();
        assert_eq!(names, [(0x1000, "fib".to_owned())]);
    }

    #[test]
    fn a_name_without_an_end_is_cut() {
        let endless = vec![b'x'; 1 << 20];
        let dump = [header(0), record(LOAD, 5, &[7, 0x1000, 0x1000, 16, 0], &endless)].concat();
        let found = functions(&dump).expect("dump");
        assert_eq!(found[0].name.len(), LONGEST_NAME + '…'.len_utf8());
    }
}
