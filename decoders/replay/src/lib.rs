//! Runs the programs of recorded threads under the rules of the simulated scheduler.
//!
//! The rules are those of `src/schedlens/simulate`, and so is the order of all that happens at one
//! time: both give the same schedule for the same programs. Nothing is written about the schedule
//! but sums, so that a recording of millions of context switches can be replayed many times.

mod cpus;
mod engine;
mod plan;
mod queues;
mod thread;

pub use engine::Replay;
pub use plan::{BadPlan, Cpu, Op, Outcome, Parking, Plan, Program, Section};
