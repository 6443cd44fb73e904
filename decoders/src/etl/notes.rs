//! What the shape of a recording's files says that no single record tells: a problem each.

use super::clock::Clock;
use super::header::{LogHeader, mode};
use super::log::{Buffer, Log, LogFile};
use crate::problem::Problems;

/// Layouts of `TRACE_LOGFILE_HEADER` that are described: Vista's, that of Windows 7 to 11, and
/// that of packed files.
const LAYOUTS: [(u8, u8); 3] = [(1, 4), (1, 5), (2, 0)];
/// Buffers of a CPU may overlap by this much: a record may take its time before it takes its room.
const OVERLAP_NS: i64 = 1_000_000;

const LAYOUT: &str =
    "a layout of the log that is not described: read as that of Windows 7 to 11, check the numbers";
const NEWER: &str = "buffers with flags or of a type that is not described: read as ordinary ones";
const PACKING: &str =
    "the first buffer does not tell how the others are packed: found by trying, check the numbers";
const CLOCK_BACK: &str = "buffers that begin before the one before them on their CPU ended: the \
                          clock went back while it was recorded, so times before and after that \
                          are mixed; record again";
const EMPTY: &str = "a log in the archive without a byte: left out";

/// Adds what is to be said of the files, once their buffers have been read.
pub(super) fn add(log: &Log, problems: &mut Problems) {
    for name in &log.empty {
        problems.add(name.clone(), EMPTY);
    }
    for file in &log.files {
        let place = |what: String| match log.files.len() {
            1 => what,
            _ => format!("{}, {what}", file.name),
        };
        let (major, minor) = file.header.layout;
        if !LAYOUTS.contains(&file.header.layout) {
            problems.add(place(format!("header, layout {major}.{minor}")), LAYOUT);
        }
        if let Some((first, count)) = file.newer {
            problems.add_many(place(format!("from {first:#x} on")), NEWER, count);
        }
        if file.packing_tried {
            problems.add(place(format!("packed with {}", file.packing.name())), PACKING);
        }
        for (cpu, offset, count) in steps_back(file, &log.clock()) {
            let what = format!("CPU {cpu}, from the buffer at {offset:#x} on");
            problems.add_many(place(what), CLOCK_BACK, count);
        }
    }
}

/// Where the clock went back: CPU, offset of the first buffer that shows it, how many do.
fn steps_back(file: &LogFile, clock: &Clock) -> Vec<(u16, u64, i64)> {
    if !numbers_by_time(&file.header) {
        return Vec::new();
    }
    let numbered = |buffer: &&Buffer| buffer.cpu.is_some() && buffer.window.is_some();
    let mut buffers: Vec<&Buffer> = file.buffers.iter().filter(numbered).collect();
    buffers.sort_by_key(|buffer| (buffer.cpu, buffer.sequence, buffer.offset));
    let mut found: Vec<(u16, u64, i64)> = Vec::new();
    for pair in buffers.windows(2) {
        let [before, after] = pair else { continue };
        let (Some(cpu), Some((_, end)), Some((begin, _))) =
            (after.cpu, before.window, after.window)
        else {
            continue;
        };
        if before.cpu != Some(cpu) || clock.ns(end).saturating_sub(clock.ns(begin)) <= OVERLAP_NS {
            continue;
        }
        match found.last_mut() {
            Some((known, _, count)) if *known == cpu => *count += 1,
            _ => found.push((cpu, after.offset, 1)),
        }
    }
    found
}

/// Whether a CPU's buffers are numbered in the order of time: not where sessions were put together,
/// nor where a thread of the program fills them and may be interrupted.
fn numbers_by_time(header: &LogHeader) -> bool {
    ![mode::RELOG, mode::APPEND, mode::MIXED, mode::PRIVATE].into_iter().any(|bit| header.has(bit))
}
