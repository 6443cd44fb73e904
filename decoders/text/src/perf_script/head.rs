//! The parts in front of an event's fields.

use crate::numbers::{seconds, short, signed, trimmed};

/// `comm pid/tid [cpu] seconds: period event: fields`; perf omits what it was not asked for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Head<'a> {
    /// `None` if only the thread is printed.
    pub(super) pid: Option<i32>,
    pub(super) tid: i32,
    /// `None` if the CPU was not recorded.
    pub(super) cpu: Option<u32>,
    pub(super) ns: u64,
    /// ns of a step of the last decimal.
    pub(super) step: u64,
    /// Name of the event, or of the record.
    pub(super) event: &'a [u8],
    /// What follows the name.
    pub(super) rest: &'a [u8],
}

/// Start of the names of records that are no samples.
pub(super) const RECORD: &[u8] = b"PERF_RECORD_";
/// Systems of the tracepoints by which a text is recognized.
const SYSTEMS: [&[u8]; 5] = [b"sched:", b"power:", b"irq:", b"task:", b"syscalls:"];

/// Whether a line is one of perf script.
pub(crate) fn begins(line: &[u8]) -> bool {
    if line.starts_with(b"# captured on") {
        return true;
    }
    let Some(head) = Head::of(line) else { return false };
    head.event.starts_with(RECORD) || SYSTEMS.iter().any(|system| head.event.starts_with(system))
}

impl<'a> Head<'a> {
    /// The parts of a line; `None` if it is not one of an event.
    pub(super) fn of(line: &'a [u8]) -> Option<Self> {
        let mut from = 0;
        // A thread's name may contain anything, so the first place where all parts fit counts.
        while let Some(colon) = line.get(from..)?.iter().position(|byte| *byte == b':') {
            let colon = from + colon;
            if line.get(colon + 1) == Some(&b' ')
                && let Some(found) = Self::around(line, colon)
            {
                return Some(found);
            }
            from = colon + 1;
        }
        None
    }

    /// The parts around the colon behind the time.
    fn around(line: &'a [u8], colon: usize) -> Option<Self> {
        let (before, time) = last_word(line.get(..colon)?)?;
        let (ns, step) = seconds(time)?;
        let (before_cpu, word) = last_word(before)?;
        let (cpu, ids) = match word.strip_prefix(b"[").and_then(|word| word.strip_suffix(b"]")) {
            Some(number) => (Some(u32::try_from(signed(number)?).ok()?), last_word(before_cpu)?.1),
            None => (None, word),
        };
        let (pid, tid) = match ids.iter().position(|byte| *byte == b'/') {
            Some(slash) => (Some(short(ids.get(..slash)?)?), short(ids.get(slash + 1..)?)?),
            None => (None, short(ids)?),
        };
        let mut rest = trimmed(line.get(colon + 1..)?);
        let mut event = first_word(rest);
        if event.iter().all(u8::is_ascii_digit) {
            rest = trimmed(rest.get(event.len()..)?);
            event = first_word(rest);
        }
        if event.starts_with(RECORD) {
            let name = event.iter().take_while(|byte| byte.is_ascii_uppercase() || **byte == b'_');
            event = event.get(..name.count())?;
        } else {
            event = event.strip_suffix(b":")?;
        }
        if event.is_empty() {
            return None;
        }
        let behind = rest.get(event.len()..)?;
        let rest = trimmed(behind.strip_prefix(b":").unwrap_or(behind));
        Some(Self { pid, tid, cpu, ns, step, event, rest })
    }
}

/// The last word, and what precedes it.
fn last_word(bytes: &[u8]) -> Option<(&[u8], &[u8])> {
    let bytes = bytes.trim_ascii_end();
    let start = bytes.iter().rposition(u8::is_ascii_whitespace).map_or(0, |space| space + 1);
    let word = bytes.get(start..).filter(|word| !word.is_empty())?;
    Some((bytes.get(..start)?, word))
}

fn first_word(bytes: &[u8]) -> &[u8] {
    let end = bytes.iter().position(u8::is_ascii_whitespace).unwrap_or(bytes.len());
    bytes.get(..end).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Process, thread, CPU, time, event, and its fields.
    type Parts = (Option<i32>, i32, Option<u32>, u64, String, String);

    fn parts(line: &str) -> Option<Parts> {
        let head = Head::of(line.as_bytes())?;
        let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
        Some((head.pid, head.tid, head.cpu, head.ns, text(head.event), text(head.rest)))
    }

    fn wanted(
        (pid, tid, cpu): (Option<i32>, i32, Option<u32>),
        ns: u64,
        event: &str,
        rest: &str,
    ) -> Option<Parts> {
        Some((pid, tid, cpu, ns, event.to_owned(), rest.to_owned()))
    }

    #[test]
    fn every_selection_of_fields_is_read() {
        for (line, found) in [
            (
                "  swapper     0 [001]  1.000002:  sched:sched_wakeup: comm=a pid=1",
                wanted((None, 0, Some(1)), 1_000_002_000, "sched:sched_wakeup", "comm=a pid=1"),
            ),
            (
                "Web [7]: 1.5: x 22/23 [015] 4.123456789:    1 sched:sched_switch: prev_comm=x",
                wanted(
                    (Some(22), 23, Some(15)),
                    4_123_456_789,
                    "sched:sched_switch",
                    "prev_comm=x",
                ),
            ),
            ("a 7  4.000001: cycles:P: ", wanted((None, 7, None), 4_000_001_000, "cycles:P", "")),
            (
                "kthreadd  0 [000]  0.000000: PERF_RECORD_FORK(16:17):(2:2)",
                wanted((None, 0, Some(0)), 0, "PERF_RECORD_FORK", "(16:17):(2:2)"),
            ),
            (
                "a  0 [000]  0.000000: PERF_RECORD_COMM exec: x y:16/16",
                wanted((None, 0, Some(0)), 0, "PERF_RECORD_COMM", "exec: x y:16/16"),
            ),
        ] {
            assert_eq!(parts(line), found, "{line}");
        }
    }

    #[test]
    fn other_lines_are_none() {
        for line in [
            "",
            "# cmdline : perf record",
            "\tffffffff81 schedule+0x1 ([kernel.kallsyms])",
            "a-12 [000] d..2 1.000000: sched_switch: prev_comm=a",
            "a 12 [000] 1.000000: ",
            "a x [000] 1.000000: sched:sched_switch: ",
            "a 12 [-1] 1.000000: sched:sched_switch: ",
        ] {
            assert_eq!(parts(line), None, "{line}");
        }
        assert!(begins(b"# captured on    : Mon"));
        assert!(!begins(b"a 7  4.000001: cycles: "));
    }
}
