//! The records of one buffer of one CPU.

use crate::loss::LostRecords;
use crate::streams::Span;

/// The records of one buffer of one CPU, in time order.
#[derive(Debug)]
pub(crate) struct Lane {
    pub(crate) cpu: i32,
    pub(crate) spans: Vec<Span>,
    pub(crate) first: u64,
    pub(crate) last: u64,
    /// The records added last, and the last time before them.
    pub(crate) run: Option<Span>,
    pub(crate) before: u64,
    /// Records lost since the last one of this buffer.
    pub(crate) lost: Option<LostRecords>,
}

impl Lane {
    /// Notes that records are missing after the last one.
    pub(crate) fn lose(&mut self, events: Option<u64>, signalled_by: &'static str) {
        let before = (self.last > 0).then_some(self.last);
        let cpu = self.cpu;
        let gap = LostRecords { cpu, before, until: None, events: None, signalled_by };
        let lost = self.lost.get_or_insert(gap);
        if let Some(events) = events {
            lost.events = Some(lost.events.unwrap_or_default().saturating_add(events));
        }
    }

    /// Ends an open gap at a record with that time.
    #[inline]
    pub(crate) fn end_gap(&mut self, ts: u64, gaps: &mut Vec<LostRecords>) {
        if let Some(lost) = self.lost.take() {
            gaps.push(LostRecords { until: Some(ts), ..lost });
        }
    }

    pub(crate) fn extend(&mut self, span: Span) {
        match self.spans.last_mut() {
            Some(last) if last.segment == span.segment && last.end == span.start => {
                last.end = span.end;
            }
            _ => self.spans.push(span),
        }
    }

    /// Removes the part of a segment after a position.
    pub(crate) fn cut_end(&mut self, segment: u32, from: u64) {
        while let Some(last) = self.spans.last_mut()
            && last.segment == segment
            && last.end > from
        {
            if last.start < from {
                last.end = from;
                break;
            }
            self.spans.pop();
        }
    }
}
