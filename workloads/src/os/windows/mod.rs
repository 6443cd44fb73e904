//! Windows: clocks, masks by processor group, names, memory, console events.

mod bound;
mod cpu_time;
mod memory;
mod observer;
mod process_end;
mod processors;
mod reported_load;
mod system_information;
mod wait;

use std::sync::OnceLock;

use windows_sys::Win32::System::Performance::{QueryPerformanceCounter, QueryPerformanceFrequency};
use windows_sys::Win32::System::Threading::{
    GetCurrentThread, GetCurrentThreadId, SetThreadDescription,
};

pub use bound::run_bound;
pub use cpu_time::{cpu_clock_name, thread_cpu_ns};
pub use memory::{Memory, available_memory_bytes};
pub use observer::Observer;
pub use process_end::OpenedProcess;
pub use processors::{
    allowed_cpus, current_cpu, l1d_bytes, pin_current_thread, processor_information,
};
pub use wait::Waiter;

/// The name of the system's clock in results.
pub const CLOCK_NAME: &str = "qpc";

/// The performance counter, which ETW also uses.
#[inline]
pub fn ticks() -> u64 {
    let mut count = 0;
    // SAFETY: the pointer is to a local; the call cannot fail since Windows XP.
    unsafe { QueryPerformanceCounter(&raw mut count) };
    count.cast_unsigned()
}

fn ticks_per_s() -> u64 {
    static FREQUENCY: OnceLock<u64> = OnceLock::new();
    *FREQUENCY.get_or_init(|| {
        let mut frequency = 0;
        // SAFETY: the pointer is to a local; the call cannot fail since Windows XP.
        unsafe { QueryPerformanceFrequency(&raw mut frequency) };
        frequency.cast_unsigned().max(1)
    })
}

/// Converts `ticks` to ns, rounded down.
pub fn ticks_ns(ticks: u64) -> i64 {
    (u128::from(ticks) * 1_000_000_000 / u128::from(ticks_per_s())) as i64
}

/// The performance counter in ns.
#[inline]
pub fn monotonic_ns() -> i64 {
    ticks_ns(ticks())
}

/// The system's number of the calling thread.
pub fn thread_id() -> u32 {
    // SAFETY: no arguments, no memory.
    unsafe { GetCurrentThreadId() }
}

/// Names the calling thread.
pub fn name_current_thread(name: &str) {
    let text: Vec<u16> = name.encode_utf16().chain([0]).collect();
    // SAFETY: the text ends in 0 and outlives the call; the pseudo handle needs no closing.
    unsafe { SetThreadDescription(GetCurrentThread(), text.as_ptr()) };
}

/// Bytes of this process in huge pages: always 0, because Windows uses them only on request.
pub fn anon_huge_bytes() -> Option<u64> {
    None
}

/// Windows has no such mode.
pub fn thp_mode() -> Option<String> {
    None
}

/// The system's clock is the performance counter, whatever its source.
pub fn clocksource() -> Option<String> {
    None
}
