//! Why a thread leaves its CPU.

use schedlens_system::thread_states::kthread_state::{
    DEFERRED_READY, READY, STANDBY, TERMINATED, WAITING,
};
use schedlens_system::thread_states::kwait_reason::{
    WR_DEFERRED_PREEMPT, WR_DISPATCH_INT, WR_PREEMPTED, WR_QUANTUM_END, WR_YIELD_EXECUTION,
};

use super::rows::Slice;
use super::words::{EndReason, Words};
use super::{Settings, Source};

/// A yield explains a switch less than this long after it.
const YIELD_NS: i64 = 100_000;

/// Assumed tick if the recording does not state it.
const TICK_NS: i64 = 1_000_000;

/// How the outgoing thread's record describes the switch-out.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Left {
    /// The thread ended.
    Exit(Option<u8>),
    /// It waits, for this reason.
    Blocked(Option<u8>),
    /// Runnable; Windows records the reason.
    Runnable(Option<EndReason>),
    /// The record has no state.
    Unknown,
}

impl Left {
    /// Reads the state of the outgoing thread.
    pub(super) fn of(
        source: Source,
        state: Option<i32>,
        wait_reason: Option<i32>,
        preempted: Option<bool>,
        words: &mut Words,
    ) -> Self {
        match (source, state) {
            (_, None) if preempted.is_none() => Self::Unknown,
            (_, None) if preempted == Some(true) => Self::Runnable(None),
            (_, None) => Self::Blocked(None),
            (Source::Etw, Some(TERMINATED)) => Self::Exit(None),
            (Source::Etw, Some(WAITING)) => Self::Blocked(words.wait_reason(wait_reason)),
            (Source::Etw, Some(READY | STANDBY | DEFERRED_READY)) => {
                Self::Runnable(Some(match wait_reason {
                    Some(WR_QUANTUM_END) => EndReason::QuantumEnd,
                    Some(WR_DISPATCH_INT | WR_PREEMPTED | WR_DEFERRED_PREEMPT) => {
                        EndReason::Preempted
                    }
                    Some(WR_YIELD_EXECUTION) => EndReason::Yield,
                    _ => EndReason::RunnableOther,
                }))
            }
            (Source::Etw, Some(_)) => Self::Unknown,
            (_, Some(state)) if state & 0xff == 0 => Self::Runnable(None),
            (_, Some(state)) if state & 0x30 != 0 => Self::Exit(words.linux_state(state)),
            (_, Some(state)) => Self::Blocked(words.linux_state(state)),
        }
    }
}

/// A slice that has ended. Its end reason may depend on the next thread.
#[derive(Clone, Copy, Debug)]
pub(super) struct Ended {
    pub(super) slice: Slice,
    /// It left runnable on Linux: the rules below decide why.
    pub(super) runnable: bool,
    pub(super) yielded_at: Option<i64>,
    pub(super) next_idle: bool,
    pub(super) next: NextReady,
}

/// Since when the next thread was ready.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct NextReady {
    pub(super) from: Option<i64>,
    pub(super) by_waking: bool,
}

impl Ended {
    /// A slice whose reason is already known or cannot be known.
    pub(super) fn settled(slice: Slice) -> Self {
        let next = NextReady::default();
        Self { slice, runnable: false, yielded_at: None, next_idle: false, next }
    }

    /// Decides the reason; the second value is true if it depends on an assumed tick.
    pub(super) fn decide(&mut self, settings: &Settings) -> bool {
        if !self.runnable {
            return false;
        }
        let (from, at) = (self.slice.ts, self.slice.end);
        let tick = i128::from(settings.tick_ns.unwrap_or(TICK_NS));
        let mut assumed = false;
        let reason = if self.next_idle {
            EndReason::ThrottledOrMoved
        } else if settings.yields_recorded
            && self.yielded_at.is_some_and(|y| y >= from && at.saturating_sub(y) < YIELD_NS)
        {
            EndReason::Yield
        } else if self.next.by_waking && self.next.from.is_some_and(|ready| ready > from) {
            EndReason::Preempted
        } else if self.next.from.is_some_and(|ready| ready <= from) {
            assumed = settings.tick_ns.is_none();
            let length = i128::from(at) - i128::from(from);
            match (length * 10 >= tick * 9, settings.yields_recorded) {
                (true, true) => EndReason::QuantumEnd,
                (true, false) => EndReason::QuantumEndOrYield,
                (false, _) => EndReason::RunnableOther,
            }
        } else {
            EndReason::RunnableOther
        };
        self.slice.end_reason = Some(reason);
        assumed
    }
}
