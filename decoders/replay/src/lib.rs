//! Runs the programs of recorded threads under the rules of the simulated scheduler.
//!
//! The rules are those of `src/schedlens/simulate`, and so is the order of all that happens at one
//! time: both give the same schedule for the same programs. Recordings of Linux have the rules of
//! `linux` instead. Nothing is written about the schedule
//! but sums, so that a recording of millions of context switches can be replayed many times.

mod cpus;
mod engine;
mod limits;
mod linux;
mod plan;
mod queues;
mod thread;

pub use engine::Replay;
pub use limits::Limit;
pub use plan::{
    BadPlan, Cpu, Goal, Group, LinuxRules, Op, Outcome, Parking, Plan, Program, Section,
};
