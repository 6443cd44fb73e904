//! Rows of `interrupt_slice`, which may be known later than those that start after them.

use super::{InterruptRows, Moment};

#[derive(Debug, Default)]
pub(super) struct Interrupts {
    pub(super) rows: InterruptRows,
    /// Rows whose position among the others is known only later.
    pub(super) late: Vec<LateInterrupt>,
}

/// An interrupt of which only the exit was recorded.
#[derive(Clone, Debug)]
pub struct LateInterrupt {
    /// Where it starts.
    pub begin: Moment,
    /// Length, ns.
    pub dur: i64,
    /// `irq` or `softirq`.
    pub kind: &'static str,
    /// Its name, if known.
    pub name: Option<String>,
}

impl Interrupts {
    pub(super) fn push(
        &mut self,
        begin: Moment,
        dur: Option<i64>,
        kind: Option<&str>,
        name: Option<&str>,
    ) {
        let rows = &mut self.rows;
        rows.ts.push(begin.ts);
        rows.cpu.push(begin.cpu);
        rows.seq.push(begin.seq);
        rows.dur.push_option(dur);
        rows.kind.push(kind);
        rows.name.push(name);
    }

    /// The rows ordered by start.
    pub(super) fn in_order(self) -> InterruptRows {
        let Self { rows, mut late } = self;
        if late.is_empty() {
            return rows;
        }
        let moment = |row: usize| Moment {
            ts: rows.ts.values()[row],
            cpu: rows.cpu.values()[row],
            seq: rows.seq.values()[row],
        };
        let key = |at: Moment| (at.ts, at.cpu, at.seq);
        late.sort_by_key(|row| key(row.begin));
        let mut late = late.iter().peekable();
        let mut sorted = Self::default();
        for row in 0..rows.dur.len() {
            while let Some(earlier) = late.next_if(|late| key(late.begin) < key(moment(row))) {
                sorted.late_row(earlier);
            }
            sorted.push(moment(row), rows.dur.get(row), rows.kind.get(row), rows.name.get(row));
        }
        late.for_each(|row| sorted.late_row(row));
        sorted.rows
    }

    fn late_row(&mut self, row: &LateInterrupt) {
        self.push(row.begin, Some(row.dur), Some(row.kind), row.name.as_deref());
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn late_interrupt_is_sorted_by_start() {
        let at = |ts, seq| Moment { ts, cpu: 0, seq };
        let mut rows = Interrupts::default();
        rows.push(at(5, 0), Some(2), Some("irq"), None);
        rows.push(at(30, 4), None, Some("softirq"), Some("SCHED"));
        let late =
            |ts, seq| LateInterrupt { begin: at(ts, seq), dur: 7, kind: "softirq", name: None };
        rows.late = vec![late(40, 5), late(10, 1)];
        let rows = rows.in_order();
        assert_eq!(rows.ts.values(), [5, 10, 30, 40]);
        assert_eq!(rows.seq.values(), [0, 1, 4, 5]);
        let durations: Vec<_> = (0..4).map(|row| rows.dur.get(row)).collect();
        assert_eq!(durations, [Some(2), Some(7), None, Some(7)]);
        let names: Vec<_> = (0..4).map(|row| rows.name.get(row)).collect();
        assert_eq!(names, [None, None, Some("SCHED"), None]);
    }
}
