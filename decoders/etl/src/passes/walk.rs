//! Iterates over the records in a buffer, skipping damage.

use schedlens_input::bytes::prefetch;

use crate::container::clock::Clock;
use crate::passes::counts::Counts;
use crate::records::head::{Fault, Head};
use crate::records::plain::Opening;

/// The read position in a buffer.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Walk {
    at: usize,
    /// Time of the last record.
    ts: i64,
}

const FAR: &str = "a record with an impossible time";

impl Walk {
    /// At the start of a buffer.
    pub(crate) fn new(clock: &Clock) -> Self {
        Self { at: 0, ts: clock.start }
    }

    /// Maximum number of remaining records.
    pub(crate) fn most(&self, records: &[u8]) -> usize {
        // No record is shorter than this.
        records.len().saturating_sub(self.at).div_ceil(8)
    }

    /// The next record and its position, if it is a plain one.
    #[inline(always)]
    pub(crate) fn plain(&mut self, records: &[u8], clock: &Clock) -> Option<(usize, Opening)> {
        let at = self.at;
        prefetch(records, at);
        let opening = Opening::at(records, at)?;
        if !opening.is_plain() || !clock.is_near(opening.ts) {
            return None;
        }
        self.at = opening.end(at);
        self.ts = opening.ts;
        Some((at, opening))
    }

    /// Skips records that are only counted; `passes` checks their times.
    #[inline(always)]
    pub(crate) fn tally(
        &mut self,
        records: &[u8],
        clock: &Clock,
        counts: &mut Counts,
        mut passes: impl FnMut(i64),
    ) {
        let mut last = self.ts;
        self.at = counts.tally(records, self.at, clock, |ts| {
            last = ts;
            passes(ts);
        });
        self.ts = last;
    }

    /// The next record and its position; `None` at the end. `damage` is called with the position
    /// and reason of invalid bytes.
    #[inline(always)]
    pub(crate) fn next(
        &mut self,
        records: &[u8],
        clock: &Clock,
        damage: impl FnMut(usize, &'static str),
    ) -> Option<(usize, Head)> {
        let at = self.at;
        if let Some(head) = Head::usual(records, at)
            && clock.is_near(head.ts)
        {
            self.at = at + head.stride();
            self.ts = head.ts;
            return Some((at, head));
        }
        // By value, so that the state need not be in memory on the fast path.
        let (walk, found) = self.seek(records, clock, damage);
        *self = walk;
        found
    }

    /// Finds the next record of any kind.
    #[inline(never)]
    fn seek(
        mut self,
        records: &[u8],
        clock: &Clock,
        mut damage: impl FnMut(usize, &'static str),
    ) -> (Self, Option<(usize, Head)>) {
        while self.at < records.len() {
            let at = self.at;
            let what = match Head::at(records, at, self.ts) {
                Ok(head) => {
                    self.at = at + head.stride();
                    if clock.is_near(head.ts) {
                        self.ts = head.ts;
                        return (self, Some((at, head)));
                    }
                    FAR
                }
                Err(fault) => {
                    self.at = match fault {
                        Fault::Items { stride } => at + stride,
                        Fault::Marker | Fault::Size => resume(records, clock, at + 8),
                    };
                    fault.what()
                }
            };
            damage(at, what);
        }
        (self, None)
    }
}

/// The next position from which two records follow each other, or one ends the buffer.
fn resume(records: &[u8], clock: &Clock, from: usize) -> usize {
    // A record without a time is not enough evidence.
    let nowhere = clock.start.wrapping_add(i64::MIN);
    let after = |at: usize| {
        let head = Head::at(records, at, nowhere).ok()?;
        clock.is_near(head.ts).then(|| at + head.stride())
    };
    let mut at = from;
    while at < records.len() {
        if let Some(next) = after(at)
            && (next >= records.len() || after(next).is_some())
        {
            return at;
        }
        at += 8;
    }
    records.len()
}
