//! Readings of a worker's core clock before, during and after its interval.

use crate::kernels::ruler;

/// Time between two readings during the interval: each costs about 25 us.
const EVERY_NS: i64 = 25_000_000;
/// Capacity for readings, so that none allocates memory; further ones are left out.
const MOST_READINGS: usize = 4096;

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
}

impl During {
    /// None yet; the interval begins at that tick.
    pub fn new(start: u64) -> During {
        During { readings: Vec::with_capacity(MOST_READINGS), read_at: start }
    }

    /// Whether the next reading is due, `since_ns` after the last one.
    pub fn is_due(&self, since_ns: impl Fn(u64) -> i64) -> bool {
        self.readings.len() < MOST_READINGS && since_ns(self.read_at) > EVERY_NS
    }

    /// Reads the clock, between two batches.
    pub fn read(&mut self, ticks: u64) {
        self.read_at = ticks;
        self.readings.push(Reading { ticks, cycle_ns: ruler::core_cycle_ns_in_passing() });
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

#[cfg(test)]
mod tests {
    use super::*;

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
