//! The CPU time of a thread.

use std::hint;
use std::ptr;
use std::sync::OnceLock;

use windows_sys::Win32::Foundation::FILETIME;
use windows_sys::Win32::System::Threading::{GetCurrentThread, GetThreadTimes};
use windows_sys::Win32::System::WindowsProgramming::QueryThreadCycleTime;

use super::{monotonic_ns, ticks, ticks_ns};
use crate::arch;

/// How long to compare the time stamp counter with the performance counter.
const MEASURE_NS: i64 = 20_000_000;
/// How long a thread spins to check whether its cycles are those of that counter.
const SPIN_NS: i64 = 1_000_000;
/// Being preempted only lowers the share, so the best of several counts.
const SPINS: usize = 8;

#[derive(Debug, Clone, Copy)]
enum CpuClock {
    /// `QueryThreadCycleTime`, which counts ticks of the time stamp counter.
    Cycles { per_s: f64 },
    /// `GetThreadTimes`, whose resolution is a clock interrupt, usually 15.6 ms.
    Times,
}

fn thread_cycles() -> Option<u64> {
    let mut cycles = 0;
    // SAFETY: the pseudo handle is this thread's own; the pointer is to a local.
    let ok = unsafe { QueryThreadCycleTime(GetCurrentThread(), &raw mut cycles) };
    (ok != 0).then_some(cycles)
}

fn thread_times_ns() -> i64 {
    let mut times = [FILETIME { dwLowDateTime: 0, dwHighDateTime: 0 }; 4];
    let [created, ended, kernel, user] = &mut times;
    // SAFETY: four valid FILETIME; the pseudo handle is this thread's own.
    let ok = unsafe {
        GetThreadTimes(
            GetCurrentThread(),
            ptr::from_mut(created),
            ptr::from_mut(ended),
            ptr::from_mut(kernel),
            ptr::from_mut(user),
        )
    };
    let hundreds =
        |time: &FILETIME| i64::from(time.dwHighDateTime) << 32 | i64::from(time.dwLowDateTime);
    if ok == 0 { 0 } else { (hundreds(kernel) + hundreds(user)) * 100 }
}

fn spin_until(ns: i64) {
    while monotonic_ns() < ns {
        hint::spin_loop();
    }
}

/// Uses cycles only if a spinning thread accumulates as many as the time stamp counter counts.
fn detect() -> CpuClock {
    if !arch::counter_is_invariant() || thread_cycles().is_none() {
        return CpuClock::Times;
    }
    let (begin, begin_tsc) = (ticks(), arch::counter().0);
    let mut best = 0.0_f64;
    for _ in 0..SPINS {
        let from = (arch::counter().0, thread_cycles());
        spin_until(monotonic_ns() + SPIN_NS);
        let to = (arch::counter().0, thread_cycles());
        if let (Some(before), Some(after)) = (from.1, to.1) {
            let share = after.saturating_sub(before) as f64 / (to.0 - from.0).max(1) as f64;
            best = best.max(share);
        }
    }
    spin_until(ticks_ns(begin) + MEASURE_NS);
    let (end, end_tsc) = (ticks(), arch::counter().0);
    let seconds = (ticks_ns(end) - ticks_ns(begin)) as f64 / 1e9;
    if (0.95..1.05).contains(&best) {
        CpuClock::Cycles { per_s: (end_tsc - begin_tsc) as f64 / seconds }
    } else {
        CpuClock::Times
    }
}

fn cpu_clock() -> CpuClock {
    static CLOCK: OnceLock<CpuClock> = OnceLock::new();
    *CLOCK.get_or_init(detect)
}

/// CPU time of the calling thread in ns.
pub fn thread_cpu_ns() -> i64 {
    match cpu_clock() {
        CpuClock::Cycles { per_s } => (thread_cycles().unwrap_or(0) as f64 * 1e9 / per_s) as i64,
        CpuClock::Times => thread_times_ns(),
    }
}

/// The name of the clock behind `thread_cpu_ns`.
pub fn cpu_clock_name() -> &'static str {
    match cpu_clock() {
        CpuClock::Cycles { .. } => "QueryThreadCycleTime",
        CpuClock::Times => "GetThreadTimes",
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn cpu_time_of_a_sleeping_thread_stands_still() {
        let before = thread_cpu_ns();
        std::thread::sleep(std::time::Duration::from_millis(50));
        assert!(thread_cpu_ns() - before < 20_000_000);
    }
}
