//! Quotas of CPU time for groups of threads, as the kernel's CFS bandwidth control grants them
//! (Documentation/scheduler/sched-bwc.rst).

/// CPU time that a CPU takes from the group's pool at once (`sched_cfs_bandwidth_slice_us`).
const PART_NS: f64 = 5e6;
/// What a CPU keeps when its last thread of the group goes to sleep.
const KEPT_NS: f64 = 1e6;

/// The quota of a group.
#[derive(Debug, Clone)]
pub struct Quota {
    pub quota_ns: f64,
    pub period_ns: i64,
    /// What is left of the period's quota.
    pool: f64,
    /// By CPU: what it has taken and not used; negative if it ran on until the next tick.
    local: Vec<f64>,
}

impl Quota {
    pub fn new(quota_ns: f64, period_ns: i64, cpus: usize) -> Self {
        Self { quota_ns, period_ns, pool: quota_ns, local: vec![0.0; cpus] }
    }

    /// Accounts for running on a CPU. Returns whether the group must stop there.
    pub fn spend(&mut self, cpu: usize, ns: f64) -> bool {
        self.local[cpu] -= ns;
        !self.has(cpu)
    }

    /// Whether a CPU has time for the group, or can take some from the pool.
    pub fn has(&mut self, cpu: usize) -> bool {
        if self.local[cpu] <= 0.0 {
            let taken = (PART_NS - self.local[cpu]).min(self.pool);
            self.pool -= taken;
            self.local[cpu] += taken;
        }
        self.local[cpu] > 0.0
    }

    /// Returns what a CPU does not need any more to the pool.
    pub fn give_back(&mut self, cpu: usize) {
        let spare = self.local[cpu] - KEPT_NS;
        if spare > 0.0 {
            self.local[cpu] -= spare;
            self.pool = (self.pool + spare).min(self.quota_ns);
        }
    }

    /// Begins a period. Returns the stopped CPUs that may run the group again.
    pub fn refill(&mut self, stopped: &[bool]) -> Vec<usize> {
        self.pool = self.quota_ns;
        self.grant(stopped)
    }

    /// Pays the debts of stopped CPUs from the pool. Returns those that may run again.
    pub fn grant(&mut self, stopped: &[bool]) -> Vec<usize> {
        let mut found = Vec::new();
        for (cpu, _) in stopped.iter().enumerate().filter(|&(_, &is_stopped)| is_stopped) {
            let taken = (1.0 - self.local[cpu]).clamp(0.0, self.pool);
            self.pool -= taken;
            self.local[cpu] += taken;
            if self.local[cpu] > 0.0 {
                found.push(cpu);
            }
        }
        found
    }
}

#[cfg(test)]
mod tests {
    use super::Quota;

    #[test]
    fn a_group_stops_when_its_quota_is_spent_and_pays_its_debt() {
        let mut quota = Quota::new(20e6, 100_000_000, 2);
        assert!(!quota.spend(0, 4e6));
        assert!(!quota.spend(1, 4e6));
        // Each CPU has 5 ms left, the pool 2.
        assert!(!quota.spend(0, 6e6));
        assert!(quota.spend(0, 4e6));
        assert!(quota.spend(1, 7e6));
        // Debts of 3 and 2 ms are paid first.
        assert_eq!(quota.refill(&[true, true]), [0, 1]);
        assert!(!quota.spend(0, 9e6));
        assert!(quota.spend(0, 6.1e6));
    }

    #[test]
    fn a_sleeping_group_returns_its_time() {
        let mut quota = Quota::new(10e6, 100_000_000, 2);
        assert!(!quota.spend(0, 1e6));
        quota.give_back(0);
        // CPU 0 kept 1 ms of the 10 and used 1.
        assert!(!quota.spend(1, 7.9e6));
        assert!(quota.spend(1, 0.2e6));
    }
}
