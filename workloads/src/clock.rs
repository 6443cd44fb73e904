//! Timestamps that need no system call, and their map to the system's clock: CLOCK_MONOTONIC, on
//! Windows the performance counter (QPC).

use crate::arch;
use crate::os;

/// IA32_TSC_AUX contains `node << 12 | cpu` on Linux.
const AUX_CPU_BITS: u32 = 12;
/// Brackets to try for one pair; the tightest is kept.
const BRACKETS: u32 = 5;

/// A time on a logical CPU. `ticks` are those of the clock that made it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Stamp {
    pub ticks: u64,
    pub cpu: u16,
}

/// The same time by both clocks.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Pair {
    pub ticks: u64,
    pub mono_ns: i64,
}

/// The source of timestamps.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Clock {
    /// The time stamp counter; `aux_is_cpu`: rdtscp also returns the CPU.
    Tsc { aux_is_cpu: bool },
    /// The system's clock itself.
    Monotonic,
}

impl Clock {
    /// The time stamp counter if both processor and kernel trust it, else the system's clock.
    ///
    /// On Windows always the system's: it reads the same counter, and ETW uses it too.
    pub fn detect() -> Clock {
        let trusted = matches!(os::clocksource().as_deref(), Some("tsc" | "kvm-clock"));
        if trusted && arch::counter_is_invariant() {
            Clock::Tsc { aux_is_cpu: aux_is_cpu() }
        } else {
            Clock::Monotonic
        }
    }

    /// The clock's name in results.
    pub fn name(self) -> &'static str {
        match self {
            Clock::Tsc { .. } => "tsc",
            Clock::Monotonic => os::CLOCK_NAME,
        }
    }

    /// The current time.
    #[inline(always)]
    pub fn stamp(self) -> Stamp {
        match self {
            Clock::Tsc { aux_is_cpu } => {
                let (ticks, aux) = arch::counter();
                let cpu = if aux_is_cpu { cpu_of(aux) } else { os::current_cpu() };
                Stamp { ticks, cpu }
            }
            Clock::Monotonic => Stamp { ticks: os::ticks(), cpu: os::current_cpu() },
        }
    }

    /// The current time by both clocks, from the tightest of a few brackets.
    pub fn pair(self) -> Pair {
        match self {
            Clock::Tsc { .. } => {
                let found = self.bracket(BRACKETS, 0, os::monotonic_ns);
                Pair { ticks: found.middle, mono_ns: found.read }
            }
            Clock::Monotonic => {
                let ticks = os::ticks();
                Pair { ticks, mono_ns: os::ticks_ns(ticks) }
            }
        }
    }

    /// The tightest of at most `tries` brackets around `read`; a bracket of at most `enough`
    /// ticks ends the search.
    pub fn bracket<T>(self, tries: u32, enough: u64, mut read: impl FnMut() -> T) -> Bracket<T> {
        tightest(tries, enough, || {
            let before = self.stamp().ticks;
            let read = read();
            let width = self.stamp().ticks.saturating_sub(before);
            Bracket { middle: before + width / 2, width, read }
        })
    }
}

/// What was read between two timestamps, which are `width` ticks apart.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Bracket<T> {
    pub middle: u64,
    pub width: u64,
    pub read: T,
}

fn tightest<T>(tries: u32, enough: u64, mut next: impl FnMut() -> Bracket<T>) -> Bracket<T> {
    let mut best = next();
    for _ in 1..tries {
        if best.width <= enough {
            break;
        }
        let bracket = next();
        if bracket.width < best.width {
            best = bracket;
        }
    }
    best
}

#[inline(always)]
fn cpu_of(aux: u32) -> u16 {
    (aux & ((1 << AUX_CPU_BITS) - 1)) as u16
}

/// Whether the counter's second word agrees with the kernel about the CPU.
fn aux_is_cpu() -> bool {
    let mut agreed = 0;
    for _ in 0..100 {
        let before = os::current_cpu();
        let (_, aux) = arch::counter();
        // If the thread moved in between, the comparison proves nothing.
        if os::current_cpu() != before {
            continue;
        }
        if cpu_of(aux) != before {
            return false;
        }
        agreed += 1;
    }
    agreed > 0
}

/// A map from ticks to the system's clock, linear between adjacent pairs.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Map {
    pairs: Vec<Pair>,
}

impl Map {
    /// A map through `pairs`, in any order; needs two at different times.
    /// `None` if they contradict each other: one clock advances and the other does not.
    pub fn new(mut pairs: Vec<Pair>) -> Option<Map> {
        pairs.sort_by_key(|pair| pair.ticks);
        pairs.dedup();
        let rises = pairs
            .windows(2)
            .all(|two| two[0].ticks < two[1].ticks && two[0].mono_ns < two[1].mono_ns);
        (pairs.len() >= 2 && rises).then_some(Map { pairs })
    }

    /// The pairs in time order.
    pub fn pairs(&self) -> &[Pair] {
        &self.pairs
    }

    /// Ticks per second over the whole map.
    pub fn hz(&self) -> f64 {
        let (first, last) = (self.pairs[0], self.pairs[self.pairs.len() - 1]);
        (last.ticks - first.ticks) as f64 * 1e9 / (last.mono_ns - first.mono_ns) as f64
    }

    /// The system's clock in ns at `ticks`, rounded down.
    pub fn mono_ns(&self, ticks: u64) -> i64 {
        let after = self.pairs.partition_point(|pair| pair.ticks <= ticks);
        let index = after.clamp(1, self.pairs.len() - 1);
        let (from, to) = (self.pairs[index - 1], self.pairs[index]);
        let run = i128::from(to.ticks) - i128::from(from.ticks);
        let rise = i128::from(to.mono_ns) - i128::from(from.mono_ns);
        let offset = (i128::from(ticks) - i128::from(from.ticks)) * rise;
        from.mono_ns + offset.div_euclid(run) as i64
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn pair(ticks: u64, mono_ns: i64) -> Pair {
        Pair { ticks, mono_ns }
    }

    #[test]
    fn the_map_is_exact_at_pairs_and_linear_between() {
        let map = Map::new(vec![pair(3000, 2000), pair(1000, 1000), pair(5000, 2500)])
            .expect("both clocks advance");
        let found: Vec<i64> =
            [1000, 2000, 3000, 4000, 5000, 7000, 0, 1001].map(|ticks| map.mono_ns(ticks)).to_vec();
        assert_eq!(found, [1000, 1500, 2000, 2250, 2500, 3000, 500, 1000]);
        assert_eq!(map.hz(), 4000.0 * 1e9 / 1500.0);
    }

    #[test]
    fn clocks_that_contradict_each_other_make_no_map() {
        assert_eq!(Map::new(vec![pair(1, 1)]), None);
        assert_eq!(Map::new(vec![pair(1, 10), pair(2, 10)]), None);
        assert_eq!(Map::new(vec![pair(1, 10), pair(2, 9)]), None);
    }

    #[test]
    fn the_tightest_bracket_is_kept_not_the_last() {
        let search = |tries, enough| {
            let mut widths = [90, 40, 70, 40, 80].into_iter();
            let mut taken = 0;
            let next = || {
                taken += 1;
                let width = widths.next().expect("at most as many calls as tries");
                Bracket { middle: 1000 + width, width, read: taken }
            };
            let kept = tightest(tries, enough, next);
            (kept.width, kept.middle, kept.read, taken)
        };
        assert_eq!(search(5, 0), (40, 1040, 2, 5));
        assert_eq!(search(1, 0), (90, 1090, 1, 1));
        assert_eq!(search(5, 39), (40, 1040, 2, 5));
        assert_eq!(search(5, 40), (40, 1040, 2, 2));
        assert_eq!(search(5, 90), (90, 1090, 1, 1));
    }

    #[test]
    fn the_systems_own_clock_maps_to_itself() {
        let first = Clock::Monotonic.pair();
        let before = os::monotonic_ns();
        let stamp = Clock::Monotonic.stamp();
        let after = os::monotonic_ns();
        std::thread::sleep(std::time::Duration::from_millis(1));
        let map = Map::new(vec![first, Clock::Monotonic.pair()]).expect("1 ms apart");
        let second_ns = os::ticks_ns(map.hz() as u64);
        assert!((second_ns - 1_000_000_000).abs() < 1_000_000, "{second_ns}");
        assert!((map.mono_ns(stamp.ticks) - os::ticks_ns(stamp.ticks)).abs() <= 1);
        assert!((before..=after).contains(&map.mono_ns(stamp.ticks)));
    }

    #[test]
    fn stamps_lie_between_the_systems_own() {
        let clock = Clock::detect();
        let first = clock.pair();
        let before = os::monotonic_ns();
        let stamp = clock.stamp();
        let after = os::monotonic_ns();
        std::thread::sleep(std::time::Duration::from_millis(30));
        let map = Map::new(vec![first, clock.pair()]).expect("30 ms apart");
        let at = map.mono_ns(stamp.ticks);
        assert!((before - 2_000..=after + 2_000).contains(&at), "{before} <= {at} <= {after}");
    }
}
