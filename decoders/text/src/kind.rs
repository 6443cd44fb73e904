//! What a file is, by its content.

use crate::lines::Lines;
use crate::perf_script::begins as begins_perf_script;
use crate::windows::{begins_dumper, begins_precise};

/// Texts that are read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// `perf script`.
    PerfScript,
    /// `xperf -a dumper`.
    Dumper,
    /// A table CPU Usage (Precise) of wpaexporter.
    Precise,
}

/// Lines of a beginning that are examined.
const MOST_LINES: u64 = 400;

/// What a file with these first bytes is; 64 KiB are enough.
pub fn kind(begin: &[u8]) -> Option<Kind> {
    let mut lines = Lines::new(begin).ok()?;
    let mut first = true;
    while let Some(line) = lines.next_line().ok()? {
        // Recordings in other formats have such bytes, texts do not.
        if line.number > MOST_LINES || line.bytes.contains(&0) {
            return None;
        }
        if line.bytes.trim_ascii().is_empty() {
            continue;
        }
        if begins_dumper(line.bytes) {
            return Some(Kind::Dumper);
        }
        if first && begins_precise(line.bytes) {
            return Some(Kind::Precise);
        }
        if begins_perf_script(line.bytes) {
            return Some(Kind::PerfScript);
        }
        first = false;
    }
    None
}
