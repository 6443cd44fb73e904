//! Why a ready thread was not running: the last columns of `ready_slice`.
//!
//! The first cause that applies wins. `judged_ready_slice.sql` finds the same for any shortest idle
//! interval, from the other columns.

use super::input::ShortIdle;
use super::{IDLE_EXIT_NS, THRESHOLDS_NS};

/// The default of every `p_min_idle_ns`.
const MIN_IDLE_NS: i64 = THRESHOLDS_NS[1];

/// A part of a ready period with what is known at that moment.
#[derive(Clone, Copy, Debug)]
pub struct Part {
    /// Start.
    pub from_ns: i64,
    /// End.
    pub to_ns: i64,
    /// It left its CPU runnable to the idle thread, or waits because of CPU rate control.
    pub throttled: bool,
    /// Its cgroup's throttled time grew in the step.
    pub cgroup_throttled: bool,
    /// Its cgroup's throttled time was not read at the end.
    pub unread: bool,
    /// The CPU that it switches in on is idle in its last millisecond.
    pub idle_exit: bool,
    /// Longest idle interval of an allowed unparked CPU.
    pub idle_ns: Option<i64>,
    /// The same of a parked CPU.
    pub parked_ns: Option<i64>,
    /// What an allowed CPU does is unknown.
    pub uncertain: bool,
    /// The affinity is known.
    pub known: bool,
    /// Longest idle interval of an unparked CPU outside the affinity.
    pub outside_ns: Option<i64>,
}

/// The cause and how sure it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Verdict {
    /// The first cause that applies.
    pub obstacle: &'static str,
    /// Lost records leave open whether it switched in soon, or an idle interval was longer.
    pub in_doubt: bool,
    /// A parked CPU was idle, and another allowed CPU may have been idle and unparked.
    pub may_be_idle: bool,
}

/// What lost records leave open.
#[derive(Debug, Default)]
pub struct Judge {
    /// Some CPU lost records, so a thread of unknown affinity may have run anywhere.
    lossy: bool,
    /// Idle intervals too short to count that lost records cut off, by their start, each with the
    /// latest end of all up to it.
    cut: Vec<(i64, i64)>,
}

impl Judge {
    /// Reads the idle intervals, in time order.
    pub fn new(lossy: bool, short: &[ShortIdle]) -> Self {
        let mut latest = i64::MIN;
        let ends = |row: &ShortIdle| {
            latest = latest.max(row.ts.saturating_add(row.dur));
            (row.ts, latest)
        };
        Self { lossy, cut: short.iter().map(ends).collect() }
    }

    /// Where the last part of a period begins in which lost time may hide that the thread was
    /// about to run; such a part has an answer of its own.
    pub fn unseen_from(end_ns: i64) -> i64 {
        end_ns.saturating_sub(IDLE_EXIT_NS)
    }

    /// The verdict; `unseen`: the part is in the last millisecond before lost time.
    pub fn verdict(&self, part: &Part, unseen: bool) -> Verdict {
        let counts = |length: Option<i64>| length.is_some_and(|ns| ns >= MIN_IDLE_NS);
        let (idle, parked) = (counts(part.idle_ns), counts(part.parked_ns));
        let elsewhere = !part.known && (counts(part.outside_ns) || self.lossy);
        let hidden = part.idle_ns.is_some() || part.parked_ns.is_some() || part.uncertain;
        let in_doubt =
            unseen && hidden || !part.idle_exit && !idle && self.may_have_been_longer(part);
        let by_group = part.cgroup_throttled && !part.idle_exit && (idle || parked);
        let obstacle = match part {
            _ if part.throttled => "throttled",
            _ if in_doubt => "unknown",
            _ if by_group && part.unread => "unknown",
            _ if by_group => "throttled",
            _ if part.idle_exit => "idle_exit",
            _ if idle => "idle_available",
            _ if parked => "parked_available",
            _ if part.uncertain || elsewhere => "unknown",
            _ => "all_busy",
        };
        let may_be_idle =
            (part.uncertain || elsewhere) && !part.throttled && !part.idle_exit && !idle && parked;
        Verdict { obstacle, in_doubt, may_be_idle }
    }

    /// A CPU was idle too shortly to count, as far as the records show.
    fn may_have_been_longer(&self, part: &Part) -> bool {
        let short = |length: Option<i64>| length.is_some_and(|ns| ns < MIN_IDLE_NS);
        if self.cut.is_empty() || !short(part.idle_ns) && !short(part.parked_ns) {
            return false;
        }
        let before = self.cut.partition_point(|(from_ns, _)| *from_ns < part.to_ns);
        before > 0 && self.cut[before - 1].1 > part.from_ns
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const BUSY: Part = Part {
        from_ns: 100,
        to_ns: 200,
        throttled: false,
        cgroup_throttled: false,
        unread: false,
        idle_exit: false,
        idle_ns: None,
        parked_ns: None,
        uncertain: false,
        known: true,
        outside_ns: None,
    };

    fn judge(rows: &[(i64, i64)]) -> Judge {
        let rows: Vec<_> = rows.iter().map(|&(ts, dur)| ShortIdle { ts, dur }).collect();
        Judge::new(false, &rows)
    }

    #[test]
    fn first_cause_that_applies_wins() {
        let judge = judge(&[]);
        let of = |part: Part| judge.verdict(&part, false).obstacle;
        let idle = Part { idle_ns: Some(MIN_IDLE_NS), ..BUSY };
        assert_eq!(of(BUSY), "all_busy");
        assert_eq!(of(idle), "idle_available");
        assert_eq!(of(Part { idle_ns: Some(MIN_IDLE_NS - 1), ..BUSY }), "all_busy");
        assert_eq!(of(Part { cgroup_throttled: true, ..idle }), "throttled");
        assert_eq!(of(Part { cgroup_throttled: true, unread: true, ..idle }), "unknown");
        assert_eq!(of(Part { cgroup_throttled: true, ..BUSY }), "all_busy");
        assert_eq!(of(Part { idle_exit: true, ..idle }), "idle_exit");
        assert_eq!(of(Part { throttled: true, idle_exit: true, ..idle }), "throttled");
        assert_eq!(of(Part { known: false, outside_ns: Some(MIN_IDLE_NS), ..BUSY }), "unknown");
    }

    #[test]
    fn only_idle_intervals_that_overlap_leave_doubt() {
        let part = Part { idle_ns: Some(5), ..BUSY };
        for (rows, wanted) in [
            (&[(90, 10)][..], false),
            (&[(90, 11)], true),
            (&[(199, 5)], true),
            (&[(200, 5)], false),
            (&[(10, 150), (20, 5)], true),
        ] {
            assert_eq!(judge(rows).verdict(&part, false).in_doubt, wanted, "{rows:?}");
        }
        assert!(!judge(&[(90, 50)]).verdict(&BUSY, false).in_doubt, "nothing was idle");
    }

    #[test]
    fn parked_cpu_may_hide_an_idle_one() {
        let parked = Part { parked_ns: Some(MIN_IDLE_NS), ..BUSY };
        let judge = judge(&[]);
        assert!(!judge.verdict(&parked, false).may_be_idle);
        let found = judge.verdict(&Part { uncertain: true, ..parked }, false);
        assert_eq!((found.obstacle, found.may_be_idle), ("parked_available", true));
    }
}
