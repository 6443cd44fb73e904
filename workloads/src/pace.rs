//! The number of iterations per batch: enough for 0.3 to 1 ms.
//!
//! That is long compared to the timestamps and short compared to a time slice, so preempted batches
//! are outliers.

use std::sync::atomic::{AtomicBool, Ordering};

use crate::kernel::Work;
use crate::os;

const LEAST_NS: i64 = 300_000;
const MOST_NS: i64 = 1_000_000;
const TARGET_NS: i64 = 550_000;
/// A batch at least this long can be scaled.
const SCALABLE_NS: i64 = 100_000;
/// Calibration ends after this time, however slow the machine is (emulated ones are very slow).
const PATIENCE_NS: i64 = 200_000_000;
/// Number of batches per change of pace; their median counts, because preempted ones are outliers.
const WINDOW: usize = 9;

/// Iterations for the first batch, found by doubling within `PATIENCE_NS` plus one batch.
pub fn calibrate(work: &mut dyn Work) -> u64 {
    let deadline = os::monotonic_ns() + PATIENCE_NS;
    let mut iterations = 1_u64;
    loop {
        // The fastest of three: preemption only makes a batch longer.
        let mut fastest: Option<i64> = None;
        for _ in 0..3 {
            let before = os::monotonic_ns();
            let done = work.batch(iterations);
            let after = os::monotonic_ns();
            if done < iterations {
                return iterations;
            }
            let took = (after - before).max(1);
            fastest = Some(fastest.map_or(took, |least| least.min(took)));
            if after >= deadline {
                break;
            }
        }
        let took = fastest.unwrap_or(1);
        if took >= SCALABLE_NS || os::monotonic_ns() >= deadline {
            return scaled(iterations, took);
        }
        iterations = iterations.saturating_mul(2);
    }
}

/// Runs batches until `stop` is set.
pub fn repeat(work: &mut dyn Work, iterations: u64, stop: &AtomicBool) {
    let mut pace = Pace::new(iterations);
    while !stop.load(Ordering::Acquire) {
        let before = os::monotonic_ns();
        if work.batch(pace.iterations) < pace.iterations {
            return;
        }
        pace.took(os::monotonic_ns() - before);
    }
}

/// Scales `iterations`, which took `took_ns`, to the target time.
fn scaled(iterations: u64, took_ns: i64) -> u64 {
    let wanted = u128::from(iterations) * TARGET_NS as u128 / took_ns.max(1) as u128;
    u64::try_from(wanted).unwrap_or(u64::MAX).max(1)
}

/// Keeps the batch lengths of a run in range.
#[derive(Debug)]
pub struct Pace {
    pub iterations: u64,
    recent: [i64; WINDOW],
    seen: usize,
}

impl Pace {
    /// Starts with a calibrated number.
    pub fn new(iterations: u64) -> Pace {
        Pace { iterations, recent: [0; WINDOW], seen: 0 }
    }

    /// Notes how long a batch of `self.iterations` took.
    pub fn took(&mut self, ns: i64) {
        self.recent[self.seen] = ns;
        self.seen += 1;
        if self.seen < WINDOW {
            return;
        }
        self.seen = 0;
        self.recent.sort_unstable();
        let median = self.recent[WINDOW / 2];
        if !(LEAST_NS..=MOST_NS).contains(&median) {
            self.iterations = scaled(self.iterations, median);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::kernel::Proof;

    #[test]
    fn outliers_do_not_change_the_pace_and_drift_does() {
        let mut pace = Pace::new(1000);
        for ns in [550_000, 8_000_000, 550_000, 9_000_000, 560_000, 4_000_000, 1, 540_000, 530_000]
        {
            pace.took(ns);
        }
        assert_eq!(pace.iterations, 1000);
        for _ in 0..WINDOW - 1 {
            pace.took(1_100_000);
        }
        assert_eq!(pace.iterations, 1000);
        pace.took(1_100_000);
        assert_eq!(pace.iterations, 500);
        for _ in 0..WINDOW {
            pace.took(275_000);
        }
        assert_eq!(pace.iterations, 1000);
    }

    #[test]
    fn an_iteration_longer_than_the_band_is_a_batch_of_its_own() {
        let mut pace = Pace::new(1);
        for _ in 0..WINDOW {
            pace.took(8_000_000);
        }
        assert_eq!(pace.iterations, 1);
    }

    struct Sleepy {
        ns: u64,
        stops_after: u64,
        done: u64,
    }

    impl Work for Sleepy {
        fn batch(&mut self, iterations: u64) -> u64 {
            let possible = iterations.min(self.stops_after - self.done);
            self.done += possible;
            let begin = os::monotonic_ns();
            while os::monotonic_ns() - begin < (self.ns * possible) as i64 {}
            possible
        }

        fn prove(&mut self) -> Vec<Proof> {
            Vec::new()
        }
    }

    #[test]
    fn a_slow_machine_and_a_partner_that_left_end_calibration() {
        let mut slow = Sleepy { ns: 300_000_000, stops_after: u64::MAX, done: 0 };
        assert_eq!(calibrate(&mut slow), 1);
        assert_eq!(slow.done, 1);
        let mut left = Sleepy { ns: 1, stops_after: 2, done: 0 };
        assert_eq!(calibrate(&mut left), 1);
    }
}
