//! What the kernels' runner asks of the operating system: one file per system.

#[cfg(target_os = "linux")]
mod linux;

#[cfg(target_os = "linux")]
pub use linux::{
    Memory, Waiter, anon_huge_bytes, available_memory_bytes, clocksource, current_cpu, l1d_bytes,
    monotonic_ns, name_current_thread, pin_current_thread, thp_mode, thread_cpu_ns, thread_id,
};

/// What ended a wait.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Event {
    /// The time is over.
    Timeout,
    /// The user (or a supervisor) asks the program to end.
    Interrupt,
    /// Standard input has a line, or has ended.
    Input,
}

/// The pages memory here is made of: the base size, huge pages are declined.
pub const PAGES: &str = "base";
