//! States of threads that follow from no switch and no waking (`GenericKernelTaskStateEvent`).

use crate::TRACK_SEQUENCE;
use crate::message::{Message, packet};

/// `GenericKernelTaskStateEvent.TaskStateEnum`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum State {
    /// Created, not yet runnable.
    Created = 1,
    /// Ready; the waker is not known.
    Runnable = 2,
    /// Waiting.
    InterruptibleSleep = 4,
    /// Waiting for a disk, usually.
    UninterruptibleSleep = 5,
    /// Stopped.
    Stopped = 6,
}

impl State {
    /// The state with this letter of `trace_processor`.
    #[must_use]
    pub fn of(letter: &str) -> Option<Self> {
        Some(match letter {
            "Created" => Self::Created,
            "R" => Self::Runnable,
            "S" => Self::InterruptibleSleep,
            "D" => Self::UninterruptibleSleep,
            "T" => Self::Stopped,
            _ => return None,
        })
    }
}

/// Appends a packet: the thread has this state from now on.
pub fn write(trace: &mut Vec<u8>, ts: i64, tid: i32, name: &str, state: State) {
    let mut event = Message::default();
    event.text(2, name);
    event.int(3, i64::from(tid));
    event.uint(4, state as u64);
    let mut whole = Message::default();
    whole.int(8, ts);
    whole.uint(10, TRACK_SEQUENCE);
    whole.message(GENERIC_KERNEL_TASK_STATE_EVENT, &event);
    packet(trace, &whole);
}

const GENERIC_KERNEL_TASK_STATE_EVENT: u64 = 117;
