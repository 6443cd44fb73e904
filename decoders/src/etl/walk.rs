//! The walk from record to record in a buffer, past what is damaged.

use super::clock::Clock;
use super::record::{Fault, Head};

/// What lies at a place among the records of a buffer.
#[derive(Clone, Copy, Debug)]
pub(super) enum Step {
    /// A record; its time, or that of the record before it.
    Record {
        /// Place among the records.
        at: usize,
        /// Its head.
        head: Head,
        /// Raw time.
        ts: i64,
    },
    /// Bytes that are no record.
    Damage {
        /// Where they begin.
        from: usize,
        /// What is wrong with them.
        what: &'static str,
    },
}

/// Where the reading of a buffer stands.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Walk {
    at: usize,
    /// Time of the last record that carried one.
    ts: Option<i64>,
}

const FAR: &str = "a record whose time cannot be";

impl Walk {
    /// The next record; `None` at the end.
    #[inline(always)]
    pub(super) fn next(&mut self, records: &[u8], clock: &Clock) -> Option<Step> {
        let at = self.at;
        if at >= records.len() {
            return None;
        }
        match Head::at(records, at) {
            Ok(head) => {
                let ts = head.ts.or(self.ts).unwrap_or(clock.start);
                if !clock.is_near(ts) {
                    self.at = at + head.stride();
                    return Some(Step::Damage { from: at, what: FAR });
                }
                self.ts = Some(ts);
                self.at = at + head.stride();
                Some(Step::Record { at, head, ts })
            }
            Err(fault) => Some(self.damage(records, clock, fault)),
        }
    }

    #[inline(never)]
    fn damage(&mut self, records: &[u8], clock: &Clock, fault: Fault) -> Step {
        let from = self.at;
        self.at = match fault {
            Fault::Items { stride } => from + stride,
            Fault::Marker | Fault::Size => resume(records, clock, from + 8),
        };
        Step::Damage { from, what: fault.what() }
    }
}

/// The next place from which two records follow each other, or one ends the buffer.
fn resume(records: &[u8], clock: &Clock, from: usize) -> usize {
    let near = |at: usize| {
        let head = Head::at(records, at).ok()?;
        (head.ts.is_some_and(|ts| clock.is_near(ts))).then(|| at + head.stride())
    };
    let mut at = from;
    while at < records.len() {
        if let Some(next) = near(at)
            && (next >= records.len() || near(next).is_some())
        {
            return at;
        }
        at += 8;
    }
    records.len()
}
