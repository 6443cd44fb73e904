//! One timeline for each rule of the state machine.

mod answer;
mod before;
mod chain;
mod ends;
mod hostile;
mod laws;
mod life;
mod loss;
mod ready;
mod schedule;
mod sent;
mod speed;
mod ties;
mod timeline;
mod unseen;
mod values;
mod windows;

/// `prev_state` of a runnable thread.
const R: i64 = 0;
/// The same, preempted by the kernel.
const R_PLUS: i64 = 0x100;
/// Interruptible sleep.
const S: i64 = 1;
/// Uninterruptible sleep.
const D: i64 = 2;
/// Dead.
const X: i64 = 0x10;
/// Zombie.
const Z: i64 = 0x20;
