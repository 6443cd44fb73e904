//! Readings of a worker's core clock before, during and after its interval.

use crate::kernels::ruler;

/// Time between two readings during the interval: each costs about 25 us.
const EVERY_NS: i64 = 25_000_000;
/// Capacity for readings, so that none allocates memory. When it is used up, after 102 s, every
/// second reading is dropped, and the time between two of them doubles.
const MOST_READINGS: usize = 4096;
/// Parts into which an interval is divided to show its clock over time: as many, but none shorter.
const MOST_PARTS: i64 = 120;
const SHORTEST_PART_NS: i64 = 1_000_000_000;

/// Length of a core cycle in ns, and the tick of the run's clock at which it was read.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Reading {
    pub ticks: u64,
    pub cycle_ns: f64,
}

/// The readings during an interval.
#[derive(Debug)]
pub struct During {
    readings: Vec<Reading>,
    read_at: u64,
    every_ns: i64,
}

impl During {
    /// None yet; the interval begins at that tick.
    pub fn new(start: u64) -> During {
        During { readings: Vec::with_capacity(MOST_READINGS), read_at: start, every_ns: EVERY_NS }
    }

    /// Whether the next reading is due, `since_ns` after the last one.
    pub fn is_due(&self, since_ns: impl Fn(u64) -> i64) -> bool {
        since_ns(self.read_at) > self.every_ns
    }

    /// Reads the clock, between two batches.
    pub fn read(&mut self, ticks: u64) {
        self.read_at = ticks;
        self.keep(Reading { ticks, cycle_ns: ruler::core_cycle_ns_in_passing() });
    }

    fn keep(&mut self, reading: Reading) {
        if self.readings.len() >= MOST_READINGS {
            let mut number = 0_usize;
            self.readings.retain(|_| {
                number += 1;
                number % 2 == 1
            });
            self.every_ns *= 2;
        }
        self.readings.push(reading);
    }

    /// The readings in the order of time, between those before and after the interval.
    pub fn between(self, before: Reading, after: Reading) -> Vec<Reading> {
        let mut all = vec![before];
        all.extend(self.readings);
        all.push(after);
        all
    }
}

/// The length of a core cycle at that tick: that of the nearest reading. There must be one.
pub fn nearest(readings: &[Reading], ticks: u64) -> f64 {
    let next = readings.partition_point(|reading| reading.ticks < ticks);
    let around = &readings[next.saturating_sub(1)..(next + 1).min(readings.len())];
    around
        .iter()
        .min_by_key(|reading| reading.ticks.abs_diff(ticks))
        .map_or(f64::NAN, |reading| reading.cycle_ns)
}

/// The clock over an interval from `start_ns` to `end_ns`, of readings at their times in ns: the
/// end of each part after `start_ns`, and the median clock in it, GHz. Parts without a reading are
/// left out; an interval shorter than two parts has none.
pub fn over_time(readings: &[(i64, f64)], start_ns: i64, end_ns: i64) -> Vec<(i64, f64)> {
    let parts = ((end_ns - start_ns) / SHORTEST_PART_NS).min(MOST_PARTS);
    if parts < 2 {
        return Vec::new();
    }
    let edge = |part: i64| (end_ns - start_ns) * part / parts;
    let ghz_in = |part: i64| {
        let within = |ns: i64| (edge(part)..edge(part + 1)).contains(&(ns - start_ns));
        let mut found: Vec<f64> = readings
            .iter()
            .filter(|(ns, _)| within(*ns))
            .map(|(_, cycle_ns)| 1.0 / cycle_ns)
            .collect();
        found.sort_by(f64::total_cmp);
        found.get(found.len() / 2).map(|ghz| (edge(part + 1), *ghz))
    };
    (0..parts).filter_map(ghz_in).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn long_intervals_keep_readings_of_all_their_time() {
        let mut during = During::new(0);
        for ticks in 0..MOST_READINGS as u64 + 2 {
            during.keep(Reading { ticks, cycle_ns: 0.25 });
        }
        assert_eq!(during.every_ns, 2 * EVERY_NS);
        assert!(!during.is_due(|_| 2 * EVERY_NS));
        let kept: Vec<u64> = during.readings.iter().map(|reading| reading.ticks).collect();
        assert_eq!(kept[..3], [0, 2, 4]);
        let last = MOST_READINGS as u64;
        assert_eq!(kept[kept.len() - 3..], [last - 2, last, last + 1]);
    }

    #[test]
    fn the_clock_over_time_is_the_median_of_each_part() {
        let second = 1_000_000_000;
        let readings = [(5, 0.2), (6, 0.25), (7, 0.25), (5 + 2 * second, 0.5)];
        assert_eq!(over_time(&readings, 5, 5 + 3 * second), [(second, 4.0), (3 * second, 2.0)]);
        assert!(over_time(&readings, 5, 5 + 2 * second - 1).is_empty());
        assert_eq!(over_time(&[(0, 1.0)], 0, 1_000 * second), [(1_000 * second / 120, 1.0)]);
    }

    #[test]
    fn each_time_takes_the_nearest_reading() {
        let at = |ticks: u64, cycle_ns: f64| Reading { ticks, cycle_ns };
        let mut during = During::new(100);
        assert!(!during.is_due(|_| EVERY_NS));
        assert!(during.is_due(|start| EVERY_NS + start as i64));
        during.readings.push(at(200, 0.25));
        let all = during.between(at(100, 0.5), at(300, 0.2));
        let found: Vec<f64> =
            [0, 100, 149, 151, 249, 251, 300, 999].map(|ticks| nearest(&all, ticks)).into();
        assert_eq!(found, [0.5, 0.5, 0.5, 0.25, 0.25, 0.2, 0.2, 0.2]);
        assert!(nearest(&[], 5).is_nan());
    }

    #[test]
    fn a_reading_in_passing_agrees_with_a_long_one() {
        // Other programs can only make a reading longer, so the fastest of several counts.
        let fastest = |read: fn() -> f64| (0..20).map(|_| read()).fold(f64::MAX, f64::min);
        let long = fastest(ruler::core_cycle_ns);
        let short = fastest(ruler::core_cycle_ns_in_passing);
        assert!((short / long - 1.0).abs() < 0.1, "{short} {long}");
    }
}
