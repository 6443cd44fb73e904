//! `jit-PID.dump`: the functions that a just-in-time compiler made, when, and from which lines
//! (tools/perf/Documentation/jitdump-specification.txt of Linux).

use std::collections::HashMap;
use std::io;
use std::path::Path;
use std::sync::Arc;

use schedlens_input::bytes::{u32_at, u64_at};
use schedlens_input::files::Mapped;

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
    parse(Mapped::open(path)?.bytes()).ok_or_else(|| io::ErrorKind::InvalidData.into())
}

fn parse(bytes: &[u8]) -> Option<Vec<Generated>> {
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
    let name = String::from_utf8_lossy(until_zero(record.get(PREFIX + 40..)?)).into_owned();
    (size > 0).then(|| (start, size, Arc::from(name)))
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
            _ => Arc::from(String::from_utf8_lossy(name).as_ref()),
        };
        lines.push((address, file, line));
        rest = texts.get(name.len() + 1..).unwrap_or_default();
    }
    Some((start, lines))
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
        let found = parse(&dump(0)).expect("dump");
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
        assert!(parse(&dump(TICKS)).expect("dump").iter().all(|of| of.ts.is_none()));
    }

    #[test]
    fn a_dump_that_is_cut_off_has_the_functions_before() {
        let whole = dump(0);
        let counts: Vec<usize> =
            (40..=whole.len()).map(|end| parse(&whole[..end]).expect("dump").len()).collect();
        assert!(counts.is_sorted());
        assert_eq!((counts[0], counts[counts.len() - 1]), (0, 3));
        assert_eq!(parse(&whole[..30]), None);
        assert_eq!(parse(b"JiTD"), None);
    }
}
