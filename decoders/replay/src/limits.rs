//! Quotas of CPU time for groups of threads under the rules of Windows: all threads of a group stop
//! as soon as they have used its quota, and go on when the next period begins.

/// A quota as it is planned.
#[derive(Debug, Clone, Copy)]
pub struct Limit {
    /// CPU time of all its threads in each period.
    pub quota_ns: f64,
    /// Length of a period.
    pub period_ns: i64,
    /// When the first period begins, at most a period after the start.
    pub begin_ns: i64,
}

/// What the threads of a quota have used in the current period.
#[derive(Debug)]
pub struct Used {
    limit: Limit,
    used_ns: f64,
    running: u32,
    since: i64,
    version: u64,
    is_spent: bool,
    held: Vec<u32>,
}

impl Used {
    pub fn new(limit: Limit) -> Self {
        Self {
            limit,
            used_ns: 0.0,
            running: 0,
            since: 0,
            version: 0,
            is_spent: false,
            held: Vec::new(),
        }
    }

    /// The length of a period.
    pub fn period_ns(&self) -> i64 {
        self.limit.period_ns
    }

    pub fn is_spent(&self) -> bool {
        self.is_spent
    }

    /// A thread will wait for the next period.
    pub fn hold(&mut self, thread: u32) {
        self.held.push(thread);
    }

    /// So many threads run from now on. Returns the version of this state and when the quota is
    /// spent if it remains.
    pub fn run(&mut self, running: u32, now: i64) -> Option<(i64, u64)> {
        self.advance(now);
        self.running = running;
        self.next(now)
    }

    pub fn running(&self) -> u32 {
        self.running
    }

    /// Whether the quota is spent now if its state is still that version.
    pub fn spend(&mut self, version: u64, now: i64) -> bool {
        if self.version == version && !self.is_spent {
            self.advance(now);
            self.is_spent = true;
            return true;
        }
        false
    }

    /// Begins a period. Returns when it is spent, as `run` does, and the threads that go on.
    pub fn renew(&mut self, now: i64) -> (Option<(i64, u64)>, Vec<u32>) {
        (self.since, self.used_ns, self.is_spent) = (now, 0.0, false);
        (self.next(now), std::mem::take(&mut self.held))
    }

    fn advance(&mut self, now: i64) {
        self.used_ns += f64::from(self.running) * (now - self.since) as f64;
        self.since = now;
    }

    fn next(&mut self, now: i64) -> Option<(i64, u64)> {
        self.version += 1;
        if self.running == 0 || self.is_spent {
            return None;
        }
        let left = ((self.limit.quota_ns - self.used_ns) / f64::from(self.running)).max(0.0);
        Some((now.saturating_add(left.ceil() as i64), self.version))
    }
}

#[cfg(test)]
mod tests {
    use super::{Limit, Used};

    #[test]
    fn threads_that_run_together_spend_a_quota_together() {
        let mut used = Used::new(Limit { quota_ns: 6e6, period_ns: 10_000_000, begin_ns: 0 });
        assert_eq!(used.run(1, 0), Some((6_000_000, 1)));
        // 2 ms of 6 are used; two threads need 2 ms for the rest.
        assert_eq!(used.run(2, 2_000_000), Some((4_000_000, 2)));
        assert!(!used.spend(1, 4_000_000));
        assert!(used.spend(2, 4_000_000));
        used.hold(7);
        assert_eq!(used.run(0, 4_000_000), None);
        assert_eq!(used.renew(10_000_000), (None, vec![7]));
        assert!(!used.is_spent());
        assert_eq!(used.run(1, 10_000_000), Some((16_000_000, 5)));
    }
}
