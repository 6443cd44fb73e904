//! Line by line from the text to a perf.data.

use std::io::{Read, Seek, Write};

use super::data::{Data, Side, Stamp};
use super::described::Described;
use super::events::{self, Shown};
use super::head::{Head, RECORD};
use crate::error::{CUT_OFF, Error, Problem, TOO_LONG};
use crate::lines::Lines;
use crate::numbers::short;

/// What a text contained.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Converted {
    /// Records written.
    pub records: u64,
    /// Lines that could not be read.
    pub problems: Vec<Problem>,
    /// ns of a step of the last decimal of times: 1 with `perf script --ns`, else 1,000.
    pub step_ns: Option<u64>,
}

const NO_FIELDS: &str = "an event whose fields are not those that perf prints: left out";
const NO_EVENT: &str = "neither an event nor a stack frame: left out";
const TOO_MANY: &str = "an event of more than 4,096 kinds: left out";

/// Writes what a text contains as a perf.data. `on_progress` receives the bytes read and returns
/// whether to continue.
///
/// # Errors
/// Reading or writing fails, or the text has no event.
pub fn convert(
    text: impl Read,
    out: impl Write + Seek,
    mut on_progress: impl FnMut(u64) -> bool,
) -> Result<Converted, Error> {
    let mut lines = Lines::new(text)?;
    let mut data = Data::new(out)?;
    let mut described = Described::default();
    let mut shown = Shown::default();
    let mut found = Converted::default();
    let mut raw = Vec::new();
    let mut next_report = REPORT;
    loop {
        if lines.read() >= next_report {
            next_report += REPORT;
            if !on_progress(lines.read()) {
                break;
            }
        }
        let Some(line) = lines.next_line()? else { break };
        let mut problem = |what| Problem::count(&mut found.problems, line.number, what);
        if line.is_too_long {
            problem(TOO_LONG);
            continue;
        }
        if !line.is_whole {
            problem(CUT_OFF);
            break;
        }
        if line.bytes.first() == Some(&b'#') {
            described.add(line.bytes);
            continue;
        }
        let Some(head) = Head::of(line.bytes) else {
            if !is_frame(line.bytes) {
                problem(NO_EVENT);
            }
            continue;
        };
        let stamp = Stamp { pid: head.pid, tid: head.tid, ns: head.ns, cpu: head.cpu };
        if head.event.starts_with(RECORD) {
            match side(&head) {
                Some(Some(side)) => data.side(&side, stamp)?,
                // Records that are not needed.
                Some(None) => continue,
                None => {
                    problem(NO_FIELDS);
                    continue;
                }
            }
        } else {
            raw.clear();
            if let Some(event) = events::known(head.event)
                && events::raw(event, head.rest, head.tid, &mut raw, &mut shown).is_none()
            {
                problem(NO_FIELDS);
                continue;
            }
            let Some(event) = data.event(head.event) else {
                problem(TOO_MANY);
                continue;
            };
            data.sample(event, stamp, &raw)?;
        }
        found.records += 1;
        if head.ns > 0 {
            found.step_ns = Some(found.step_ns.map_or(head.step, |step| step.min(head.step)));
        }
    }
    if found.records == 0 {
        return Err(Error::Nothing {
            wanted: "event of perf script",
            advice: "print the recording with `perf script --ns -F +pid --show-task-events`",
        });
    }
    data.finish(&described, shown)?;
    Ok(found)
}

/// Bytes between two reports of progress.
const REPORT: u64 = 1 << 24;

/// A blank line, or one of a stack: an address and a symbol behind spaces.
fn is_frame(line: &[u8]) -> bool {
    let text = line.trim_ascii();
    let address = text.split(u8::is_ascii_whitespace).next().unwrap_or_default();
    text.is_empty()
        || (line.first().is_some_and(u8::is_ascii_whitespace)
            && address.iter().all(u8::is_ascii_hexdigit))
}

/// The record of a line; `Some(None)` if it is not needed, `None` if it cannot be read.
#[allow(clippy::option_option)]
fn side<'a>(head: &Head<'a>) -> Option<Option<Side<'a>>> {
    let rest = head.rest;
    let name = head.event.get(RECORD.len()..)?;
    Some(Some(match name {
        b"COMM" => {
            // `: name:pid/tid`, or ` exec: name:pid/tid`
            let started = rest.strip_prefix(b"exec:");
            let (rest, exec) = (started.unwrap_or(rest).trim_ascii_start(), started.is_some());
            let colon = rest.iter().rposition(|byte| *byte == b':')?;
            let (pid, tid) = pair(rest.get(colon + 1..)?, b'/')?;
            let name = rest.get(..colon)?;
            Side::Comm { pid, tid, name: name.get(..name.len().min(LONGEST_NAME))?, exec }
        }
        b"FORK" | b"EXIT" => {
            // (pid:tid):(pid:tid)
            let inner = rest.strip_prefix(b"(")?.strip_suffix(b")")?;
            let middle = inner.windows(3).position(|part| part == b"):(")?;
            let own = pair(inner.get(..middle)?, b':')?;
            let parent = pair(inner.get(middle + 3..)?, b':')?;
            Side::Task { born: name == b"FORK", own, parent }
        }
        b"SWITCH" | b"SWITCH_CPU_WIDE" => {
            let out = rest.starts_with(b"OUT");
            if !out && !rest.starts_with(b"IN") {
                return None;
            }
            let preempted = out && rest.get(3..)?.trim_ascii_start().starts_with(b"preempt");
            let other = if name == b"SWITCH" {
                None
            } else {
                let colon = rest.iter().rposition(|byte| *byte == b':')?;
                Some(pair(rest.get(colon + 1..)?, b'/')?)
            };
            Side::Switch { out, preempted, other }
        }
        b"LOST" => {
            let count = rest.strip_prefix(b"lost")?;
            Side::Lost(u64::try_from(crate::numbers::signed(count)?).ok()?)
        }
        _ => return Some(None),
    }))
}

/// More than the kernel keeps of a name.
const LONGEST_NAME: usize = 64;

fn pair(text: &[u8], separator: u8) -> Option<(i32, i32)> {
    let at = text.iter().position(|byte| *byte == separator)?;
    Some((short(text.get(..at)?)?, short(text.get(at + 1..)?)?))
}
