//! The barrier that moves all workers from one phase to the next.

use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};

/// The phases that workers wait for, in order.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Phase {
    Build,
    Calibrate,
    WarmUp,
    Measure,
    Prove,
    /// Leave at once.
    Abort,
}

#[derive(Debug)]
struct State {
    phase: Phase,
    arrived: usize,
    gone: usize,
}

/// Workers arrive and sleep; the conductor waits for all of them and opens the next phase.
#[derive(Debug)]
pub struct Phases {
    state: Mutex<State>,
    changed: Condvar,
}

impl Phases {
    /// No worker has arrived yet.
    pub fn new() -> Phases {
        Phases {
            state: Mutex::new(State { phase: Phase::Build, arrived: 0, gone: 0 }),
            changed: Condvar::new(),
        }
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Called by a worker that is ready for `phase`: sleeps until it opens; false: leave instead.
    pub fn arrive(&self, phase: Phase) -> bool {
        let mut state = self.state();
        state.arrived += 1;
        self.changed.notify_all();
        while state.phase < phase {
            state = self.changed.wait(state).unwrap_or_else(PoisonError::into_inner);
        }
        state.phase == phase
    }

    /// Called by a worker that will not arrive any more.
    pub fn leave(&self) {
        self.state().gone += 1;
        self.changed.notify_all();
    }

    /// Sleeps until all `workers` have arrived or left; false if any has left.
    pub fn all_arrived(&self, workers: usize) -> bool {
        let mut state = self.state();
        while state.arrived + state.gone < workers {
            state = self.changed.wait(state).unwrap_or_else(PoisonError::into_inner);
        }
        state.gone == 0
    }

    /// Lets the workers into `phase`.
    pub fn open(&self, phase: Phase) {
        let mut state = self.state();
        state.phase = phase;
        state.arrived = 0;
        self.changed.notify_all();
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::atomic::{AtomicUsize, Ordering};
    use std::thread;

    #[test]
    fn nobody_enters_a_phase_before_all_have_arrived() {
        let phases = Phases::new();
        let before = AtomicUsize::new(0);
        thread::scope(|scope| {
            for _ in 0..4 {
                scope.spawn(|| {
                    before.fetch_add(1, Ordering::SeqCst);
                    assert!(phases.arrive(Phase::Calibrate));
                    assert_eq!(before.load(Ordering::SeqCst), 4);
                    assert!(!phases.arrive(Phase::Measure));
                });
            }
            assert!(phases.all_arrived(4));
            phases.open(Phase::Calibrate);
            assert!(phases.all_arrived(4));
            phases.open(Phase::Abort);
        });
    }

    #[test]
    fn a_worker_that_left_is_reported_and_waited_for_no_more() {
        let phases = Phases::new();
        thread::scope(|scope| {
            scope.spawn(|| assert!(!phases.arrive(Phase::Calibrate)));
            scope.spawn(|| phases.leave());
            assert!(!phases.all_arrived(2));
            phases.open(Phase::Abort);
        });
    }
}
