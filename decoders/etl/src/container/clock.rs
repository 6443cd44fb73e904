//! Converts raw times of a log to ns and to wall time, with integers.

use crate::container::header::LogHeader;
use crate::error::Error;

/// FILETIME of 1970-01-01.
const UNIX_EPOCH: i64 = 116_444_736_000_000_000;
const NS_PER_S: i64 = 1_000_000_000;
/// Times further than this from the header's time count as damage: 400 days in s.
const FAR_S: i64 = 400 * 86_400;

/// Clock and wall time of two files of one boot agree this closely.
const ONE_BOOT_NS: u64 = 10 * NS_PER_S.cast_unsigned();

/// The clock that the timestamps come from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ClockKind {
    /// The performance counter.
    Qpc,
    /// System time, 100 ns.
    SystemTime,
    /// The CPU's cycle counter. Its frequency is only known to the MHz.
    Cycles,
}

/// The clock of a log.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Clock {
    /// Its kind.
    pub kind: ClockKind,
    /// Raw time of ns 0: that of the header record.
    pub start: i64,
    /// Raw ticks per second.
    pub hz: i64,
    /// FILETIME of ns 0.
    pub start_time: u64,
    /// ns per tick if that is an integer, else 0.
    whole: i64,
    /// The earliest plausible raw time, and the number of plausible ticks from it.
    near: (i64, u64),
}

impl Clock {
    /// The clock that a header describes.
    ///
    /// # Errors
    /// The clock is unknown or has no frequency.
    pub(crate) fn of(header: &LogHeader) -> Result<Self, Error> {
        let (kind, hz) = match header.clock_type {
            0 | 1 => (ClockKind::Qpc, header.perf_freq),
            2 => (ClockKind::SystemTime, 10_000_000),
            3 => (ClockKind::Cycles, u64::from(header.cpu_mhz) * 1_000_000),
            other => return Err(Error::LogClockKind { kind: other }),
        };
        // With a higher frequency, remainders times 10^9 would overflow.
        let hz = i64::try_from(hz).ok().filter(|hz| (1..1 << 33).contains(hz));
        let Some(hz) = hz else { return Err(Error::LogClock { kind: header.clock_type }) };
        let whole = if NS_PER_S % hz == 0 { NS_PER_S / hz } else { 0 };
        let (start, start_time) = (header.start_clock, header.start_time);
        Ok(Self { kind, start, hz, start_time, whole, near: near(start, hz) })
    }

    /// ns from the start: floor((ts - start) * 10^9 / hz), or the first or last value of i64
    /// where it does not fit.
    #[inline(always)]
    pub fn ns(&self, ts: i64) -> i64 {
        let ticks = ts.saturating_sub(self.start);
        if self.whole != 0 {
            return ticks.saturating_mul(self.whole);
        }
        let seconds = ticks.div_euclid(self.hz);
        let rest = ticks.rem_euclid(self.hz).cast_unsigned();
        let rest = rest * NS_PER_S.cast_unsigned() / self.hz.cast_unsigned();
        let ns = seconds.checked_mul(NS_PER_S).and_then(|ns| ns.checked_add(rest.cast_signed()));
        ns.unwrap_or(if ticks < 0 { i64::MIN } else { i64::MAX })
    }

    /// The same for a time that an event contains; `None` if it is not plausible for this log. The
    /// times of the records themselves are checked when they are read.
    #[inline(always)]
    pub fn near_ns(&self, ts: i64) -> Option<i64> {
        self.is_near(ts).then(|| self.ns(ts))
    }

    /// The start in ns since the raw clock was 0, as a session folder counts the performance
    /// counter: floor(start * 10^9 / hz).
    pub fn session_ns(&self) -> i64 {
        let ns = i128::from(self.start) * i128::from(NS_PER_S) / i128::from(self.hz);
        i64::try_from(ns).unwrap_or(i64::MAX)
    }

    /// Whether a raw time is plausible for this log.
    #[inline(always)]
    pub(crate) fn is_near(&self, ts: i64) -> bool {
        ts.wrapping_sub(self.near.0).cast_unsigned() < self.near.1
    }

    /// The same clock counted from another moment, whose wall time is unknown.
    pub(crate) fn counting_from(self, start: i64) -> Self {
        Self { start, start_time: 0, ..self }
    }

    /// How another file's clock differs, unless both count the same ticks: those of one boot of one
    /// machine.
    pub(crate) fn differs(&self, other: &Self) -> Option<&'static str> {
        if (self.kind, self.hz) != (other.kind, other.hz) {
            return Some("its clock differs");
        }
        // Wall time may be set while one of them records; a boot shifts it by more.
        let ticks = self.ns(other.start);
        let wall = unix_ns(self.start_time).zip(unix_ns(other.start_time));
        let apart = wall.and_then(|(ours, theirs)| ours.checked_add(ticks)?.checked_sub(theirs));
        let together = apart.is_some_and(|apart| apart.unsigned_abs() <= ONE_BOOT_NS);
        (!together).then_some("its clock and wall time do not agree with the first file's")
    }

    /// Wall time of ns 0 in ns since 1970; `None` before it or out of range.
    pub fn wall_start_ns(&self) -> Option<i64> {
        let since = i64::try_from(self.start_time).ok()?.checked_sub(UNIX_EPOCH)?;
        (since >= 0).then_some(since)?.checked_mul(100)
    }

    /// The value of `trace.clock_name`.
    pub fn name(&self) -> &'static str {
        match self.kind {
            ClockKind::Qpc => "qpc",
            ClockKind::SystemTime => "system_time",
            ClockKind::Cycles => "cpu_cycles",
        }
    }
}

/// Raw times less than [`FAR_S`] before and after the start: the first, and their number.
fn near(start: i64, hz: i64) -> (i64, u64) {
    let far = FAR_S * hz;
    (start.wrapping_sub(far - 1), (2 * far - 1).cast_unsigned())
}

/// A FILETIME in ns since 1970, if it is in range.
pub(crate) fn unix_ns(filetime: u64) -> Option<i64> {
    i64::try_from(filetime).ok()?.checked_sub(UNIX_EPOCH)?.checked_mul(100)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn clock(hz: i64) -> Clock {
        let whole = if NS_PER_S % hz == 0 { NS_PER_S / hz } else { 0 };
        let (start, near) = (1 << 40, near(1 << 40, hz));
        Clock { kind: ClockKind::Qpc, start, hz, start_time: 0, whole, near }
    }

    #[test]
    fn a_session_counts_the_same_ticks_in_ns() {
        // 2^40 ticks of 100 ns; of 3.579545 MHz: 2^40 * 10^9 / 3579545, rounded down.
        assert_eq!(clock(10_000_000).session_ns(), (1 << 40) * 100);
        assert_eq!(clock(3_579_545).session_ns(), 307_165_192_161_573);
        assert_eq!(clock(1).session_ns(), i64::MAX);
    }

    #[test]
    fn ticks_become_ns_without_drift() {
        for hz in [10_000_000, 3_579_545, 14_318_180, 2_208_984, 3_000_000_000, 1, 8_589_934_591] {
            let clock = clock(hz);
            for ticks in [0, 1, 7, hz - 1, hz, 36_000 * hz + 1, FAR_S * hz - 1] {
                let exact = |ticks: i64| {
                    i128::from(ticks) * i128::from(NS_PER_S)
                        - i128::from(ticks) * i128::from(NS_PER_S) % i128::from(hz)
                };
                assert_eq!(
                    i128::from(clock.ns(clock.start + ticks)),
                    exact(ticks) / i128::from(hz)
                );
                let before = (i128::from(-ticks) * i128::from(NS_PER_S)).div_euclid(i128::from(hz));
                assert_eq!(i128::from(clock.ns(clock.start - ticks)), before, "{hz} {ticks}");
                assert!(clock.is_near(clock.start - ticks));
            }
            assert!(!clock.is_near(clock.start + FAR_S * hz));
            assert!(!clock.is_near(clock.start - FAR_S * hz));
            assert!(!clock.is_near(i64::MAX));
            assert!(!clock.is_near(i64::MIN));
        }
    }

    #[test]
    fn times_out_of_range_neither_wrap_nor_count_as_plausible() {
        for hz in [10_000_000, 3_579_545, 1] {
            let clock = clock(hz);
            for (ts, ns) in [(i64::MIN, i64::MIN), (i64::MAX, i64::MAX), (i64::MIN + 1, i64::MIN)] {
                assert_eq!((clock.ns(ts), clock.near_ns(ts)), (ns, None), "{hz} {ts}");
            }
            assert_eq!(clock.near_ns(clock.start), Some(0));
        }
    }
}
