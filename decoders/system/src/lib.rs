//! How Windows and Linux describe CPUs and threads: what the readers, the state machine, the
//! workload program, and Python share.

#![deny(missing_docs)]

mod cpu_list;
pub mod processors;
pub mod thread_states;

pub use cpu_list::cpu_list;
