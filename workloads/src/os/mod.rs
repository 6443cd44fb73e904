//! What the runner needs from the operating system, one file per system.

#[cfg(target_os = "linux")]
mod linux;

#[cfg(target_os = "linux")]
pub use linux::{
    CLOCK_NAME, Memory, OpenedProcess, Waiter, anon_huge_bytes, available_memory_bytes,
    clocksource, cpu_clock_name, current_cpu, l1d_bytes, monotonic_ns, name_current_thread,
    pin_current_thread, run_bound, thp_mode, thread_cpu_ns, thread_id, ticks, ticks_ns,
};

#[cfg(windows)]
mod windows;

#[cfg(windows)]
pub use windows::{
    CLOCK_NAME, Memory, Observer, OpenedProcess, Waiter, allowed_cpus, anon_huge_bytes,
    available_memory_bytes, clocksource, cpu_clock_name, current_cpu, l1d_bytes, monotonic_ns,
    name_current_thread, pin_current_thread, processor_information, run_bound, thp_mode,
    thread_cpu_ns, thread_id, ticks, ticks_ns,
};

/// What ended a wait.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Event {
    /// The timeout has expired.
    Timeout,
    /// The user (or a supervisor) asks the program to end.
    Interrupt,
    /// Standard input has a line, or has ended.
    Input,
}

/// The page size of the kernels' memory: base pages, without huge pages.
pub const PAGES: &str = "base";
