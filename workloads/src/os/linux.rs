//! Linux: clocks, masks, names, memory, signals.
//!
//! Nothing here requires /proc or /sys: without them, what they would report is `None`.

use std::fs;
use std::io;
use std::mem;
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd};
use std::os::unix::process::CommandExt;
use std::process::Command;
use std::ptr;
use std::slice;

use super::Event;

/// Largest CPU number in a mask, plus one (CONFIG_NR_CPUS of common kernels is less).
const MASK_CPUS: usize = 8192;

fn clock_ns(clock: libc::clockid_t) -> i64 {
    let mut time = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    // SAFETY: `time` is a valid timespec; both clocks used here exist on every Linux.
    unsafe { libc::clock_gettime(clock, &raw mut time) };
    // The fields' types differ between targets.
    #[allow(clippy::useless_conversion, clippy::unnecessary_cast)]
    let ns = i64::from(time.tv_sec) * 1_000_000_000 + time.tv_nsec as i64;
    ns
}

/// CLOCK_MONOTONIC in ns.
#[inline]
pub fn monotonic_ns() -> i64 {
    clock_ns(libc::CLOCK_MONOTONIC)
}

/// The name of the system's clock in results.
pub const CLOCK_NAME: &str = "monotonic";

/// The raw count behind `monotonic_ns`.
#[inline]
pub fn ticks() -> u64 {
    monotonic_ns() as u64
}

/// Converts `ticks` to ns.
pub fn ticks_ns(ticks: u64) -> i64 {
    ticks as i64
}

/// The name of the clock behind `thread_cpu_ns`.
pub fn cpu_clock_name() -> &'static str {
    "CLOCK_THREAD_CPUTIME_ID"
}

/// CLOCK_THREAD_CPUTIME_ID of the calling thread in ns.
pub fn thread_cpu_ns() -> i64 {
    clock_ns(libc::CLOCK_THREAD_CPUTIME_ID)
}

/// The logical CPU that the caller runs on.
#[inline]
pub fn current_cpu() -> u16 {
    // SAFETY: no arguments, no memory.
    let cpu = unsafe { libc::sched_getcpu() };
    u16::try_from(cpu).unwrap_or(u16::MAX)
}

/// The kernel's number of the calling thread.
pub fn thread_id() -> u32 {
    // SAFETY: no arguments, no memory.
    let tid = unsafe { libc::syscall(libc::SYS_gettid) };
    u32::try_from(tid).unwrap_or(0)
}

/// Pins the calling thread to one logical CPU.
///
/// # Errors
/// The system's: EINVAL if the CPU is offline, absent or not allowed.
pub fn pin_current_thread(cpu: usize) -> io::Result<()> {
    if cpu >= MASK_CPUS {
        return Err(io::Error::from_raw_os_error(libc::EINVAL));
    }
    let mut mask = [0_u64; MASK_CPUS / 64];
    mask[cpu / 64] = 1 << (cpu % 64);
    // SAFETY: the mask is as long as stated; a kernel with fewer CPUs ignores the rest.
    let result = unsafe {
        libc::sched_setaffinity(0, mem::size_of_val(&mask), mask.as_ptr().cast::<libc::cpu_set_t>())
    };
    if result == 0 { Ok(()) } else { Err(io::Error::last_os_error()) }
}

/// Replaces this process with a command on one logical CPU, so it returns only on error.
///
/// # Errors
/// A line that says why it cannot run there.
pub fn run_bound(cpu: usize, command: &[String]) -> Result<u8, String> {
    let (program, words) = command.split_first().ok_or("there is no command")?;
    pin_current_thread(cpu).map_err(|error| format!("CPU {cpu}: {error}"))?;
    Err(format!("{program}: {}", Command::new(program).args(words).exec()))
}

/// A process that can be waited for; its number is not given to another one meanwhile.
pub struct OpenedProcess(OwnedFd);

impl OpenedProcess {
    /// # Errors
    /// The system's if there is no such process.
    pub fn new(pid: u32) -> io::Result<Self> {
        // SAFETY: no memory; the descriptor is new and owned by the value.
        let fd = unsafe { libc::syscall(libc::SYS_pidfd_open, pid as libc::pid_t, 0) };
        if fd < 0 {
            return Err(io::Error::last_os_error());
        }
        // SAFETY: as above.
        Ok(Self(unsafe { OwnedFd::from_raw_fd(fd as i32) }))
    }

    /// # Errors
    /// The system's if it cannot wait.
    pub fn wait(&self) -> io::Result<()> {
        let mut one = libc::pollfd { fd: self.0.as_raw_fd(), events: libc::POLLIN, revents: 0 };
        loop {
            // SAFETY: the pointer is to one local entry.
            if unsafe { libc::poll(&raw mut one, 1, -1) } > 0 {
                return Ok(());
            }
            let error = io::Error::last_os_error();
            if error.kind() != io::ErrorKind::Interrupted {
                return Err(error);
            }
        }
    }
}

/// Names the calling thread; the kernel keeps 15 bytes.
pub fn name_current_thread(name: &str) {
    let mut text = [0_u8; 16];
    for (to, from) in text.iter_mut().take(15).zip(name.bytes()) {
        *to = from;
    }
    // SAFETY: PR_SET_NAME reads up to 16 bytes from a text that ends in 0.
    unsafe { libc::prctl(libc::PR_SET_NAME, text.as_ptr(), 0, 0, 0) };
}

/// Memory from the system, zeroed and not yet touched.
#[derive(Debug)]
pub struct Memory {
    start: *mut u8,
    bytes: usize,
}

// SAFETY: it owns its pages alone, like a Vec<u8>.
unsafe impl Send for Memory {}
// SAFETY: writing needs `&mut`, like a Vec<u8>.
unsafe impl Sync for Memory {}

impl Memory {
    /// Maps `bytes` of memory in base pages.
    ///
    /// # Errors
    /// The system's if there is not enough memory.
    pub fn new(bytes: usize) -> io::Result<Memory> {
        // SAFETY: a new private mapping at an address the kernel chooses.
        let start = unsafe {
            libc::mmap(
                ptr::null_mut(),
                bytes,
                libc::PROT_READ | libc::PROT_WRITE,
                libc::MAP_PRIVATE | libc::MAP_ANONYMOUS | libc::MAP_NORESERVE,
                -1,
                0,
            )
        };
        if start == libc::MAP_FAILED {
            return Err(io::Error::last_os_error());
        }
        // A kernel without huge pages rejects the advice, and then needs none.
        // SAFETY: the range is the mapping just made.
        unsafe { libc::madvise(start, bytes, libc::MADV_NOHUGEPAGE) };
        Ok(Memory { start: start.cast(), bytes })
    }

    /// The bytes, for writing.
    pub fn bytes_mut(&mut self) -> &mut [u8] {
        // SAFETY: the mapping is `bytes` long, readable and writable, and borrowed mutably.
        unsafe { slice::from_raw_parts_mut(self.start, self.bytes) }
    }

    /// The bytes, for reading.
    pub fn bytes(&self) -> &[u8] {
        // SAFETY: the mapping is `bytes` long and lives as long as `self`.
        unsafe { slice::from_raw_parts(self.start, self.bytes) }
    }
}

impl Drop for Memory {
    fn drop(&mut self) {
        // SAFETY: the mapping made in `new`, unmapped once.
        unsafe { libc::munmap(self.start.cast(), self.bytes) };
    }
}

fn number_in(path: &str) -> Option<u64> {
    fs::read_to_string(path).ok()?.trim().parse().ok()
}

fn field_kib(path: &str, name: &str) -> Option<u64> {
    let text = fs::read_to_string(path).ok()?;
    let line = text.lines().find_map(|line| line.strip_prefix(name))?;
    let kib: u64 = line.split_whitespace().next()?.parse().ok()?;
    Some(kib * 1024)
}

/// Memory that can be used without swapping: MemAvailable, limited by the control group.
pub fn available_memory_bytes() -> Option<u64> {
    let machine = field_kib("/proc/meminfo", "MemAvailable:").or_else(free_bytes);
    let group = ["memory.max", "memory/memory.limit_in_bytes"]
        .iter()
        .zip(["memory.current", "memory/memory.usage_in_bytes"])
        .find_map(|(limit, used)| {
            let limit = number_in(&format!("/sys/fs/cgroup/{limit}"))?;
            let used = number_in(&format!("/sys/fs/cgroup/{used}"))?;
            Some(limit.saturating_sub(used))
        });
    match (machine, group) {
        (Some(machine), Some(group)) => Some(machine.min(group)),
        (machine, group) => machine.or(group),
    }
}

fn free_bytes() -> Option<u64> {
    // SAFETY: all zeros is a valid sysinfo; the call fills it.
    let mut info: libc::sysinfo = unsafe { mem::zeroed() };
    // SAFETY: `info` is valid for writing.
    if unsafe { libc::sysinfo(&raw mut info) } != 0 {
        return None;
    }
    // The field's type differs between targets.
    #[allow(clippy::unnecessary_cast)]
    let free = info.freeram as u64;
    Some(free * u64::from(info.mem_unit))
}

/// Bytes of this process that are in huge pages now.
pub fn anon_huge_bytes() -> Option<u64> {
    field_kib("/proc/self/smaps_rollup", "AnonHugePages:")
}

/// The machine's transparent huge page mode: `always`, `madvise` or `never`.
pub fn thp_mode() -> Option<String> {
    let text = fs::read_to_string("/sys/kernel/mm/transparent_hugepage/enabled").ok()?;
    let (_, rest) = text.split_once('[')?;
    let (mode, _) = rest.split_once(']')?;
    Some(mode.to_owned())
}

/// The kernel's clock source.
pub fn clocksource() -> Option<String> {
    let path = "/sys/devices/system/clocksource/clocksource0/current_clocksource";
    Some(fs::read_to_string(path).ok()?.trim().to_owned())
}

/// Size of the first-level data cache of `cpu`; without `cpu`, of the largest one.
pub fn l1d_bytes(cpu: Option<usize>) -> Option<u64> {
    match cpu {
        Some(cpu) => l1d_of(cpu),
        None => (0..MASK_CPUS)
            .take_while(|cpu| fs::exists(cpu_folder(*cpu)).unwrap_or(false))
            .filter_map(l1d_of)
            .max(),
    }
}

fn cpu_folder(cpu: usize) -> String {
    format!("/sys/devices/system/cpu/cpu{cpu}")
}

fn l1d_of(cpu: usize) -> Option<u64> {
    (0..8).find_map(|index| {
        let folder = format!("{}/cache/index{index}", cpu_folder(cpu));
        let read = |name: &str| fs::read_to_string(format!("{folder}/{name}")).ok();
        if read("level")?.trim() != "1" || read("type")?.trim() != "Data" {
            return None;
        }
        let size = read("size")?;
        let kib: u64 = size.trim().strip_suffix('K')?.parse().ok()?;
        Some(kib * 1024)
    })
}

/// Sleeps until an event.
#[derive(Debug)]
pub struct Waiter {
    signals: libc::c_int,
}

impl Waiter {
    /// Blocks SIGINT and SIGTERM for this thread and its future threads, to receive them here.
    pub fn new() -> Waiter {
        // SAFETY: the set is filled by sigemptyset before use; all pointers are to locals.
        let signals = unsafe {
            let mut set: libc::sigset_t = mem::zeroed();
            libc::sigemptyset(&raw mut set);
            libc::sigaddset(&raw mut set, libc::SIGINT);
            libc::sigaddset(&raw mut set, libc::SIGTERM);
            let signals = libc::signalfd(-1, &raw const set, libc::SFD_CLOEXEC);
            // Without signalfd (CONFIG_SIGNALFD=n), signals keep their default effect.
            if signals >= 0 {
                libc::pthread_sigmask(libc::SIG_BLOCK, &raw const set, ptr::null_mut());
            }
            signals
        };
        Waiter { signals }
    }

    /// Leaves signals with their default effect.
    pub fn without_signals() -> Waiter {
        Waiter { signals: -1 }
    }

    /// Sleeps until a timeout (`None`: no timeout), a signal, or input if it is watched.
    pub fn wait(&self, timeout_ns: Option<i64>, watch_input: bool) -> Event {
        let deadline = timeout_ns.map(|ns| monotonic_ns().saturating_add(ns));
        loop {
            // poll ignores negative descriptors.
            let mut watched = [self.signals, if watch_input { 0 } else { -1 }]
                .map(|fd| libc::pollfd { fd, events: libc::POLLIN, revents: 0 });
            let left = deadline.map(|deadline| (deadline - monotonic_ns()).max(0));
            let time = libc::timespec {
                tv_sec: (left.unwrap_or(0) / 1_000_000_000) as libc::time_t,
                tv_nsec: (left.unwrap_or(0) % 1_000_000_000) as libc::c_long,
            };
            let time_at = if left.is_some() { &raw const time } else { ptr::null() };
            // SAFETY: two valid pollfd; `time` outlives the call.
            let ready = unsafe { libc::ppoll(watched.as_mut_ptr(), 2, time_at, ptr::null()) };
            if watched[0].revents != 0 {
                return Event::Interrupt;
            }
            if ready > 0 {
                return Event::Input;
            }
            if left == Some(0) || (ready == 0 && left.is_some()) {
                return Event::Timeout;
            }
        }
    }
}

impl Drop for Waiter {
    fn drop(&mut self) {
        if self.signals >= 0 {
            // SAFETY: this waiter owns the descriptor.
            unsafe { libc::close(self.signals) };
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn memory_is_zeroed_and_can_be_written() {
        let mut memory = Memory::new(3 * 4096).expect("12 KiB are free");
        assert!(memory.bytes().iter().all(|byte| *byte == 0));
        memory.bytes_mut()[4097] = 7;
        assert_eq!(memory.bytes().iter().map(|byte| u64::from(*byte)).sum::<u64>(), 7);
    }

    #[test]
    fn a_cpu_that_cannot_exist_is_refused() {
        let refused = pin_current_thread(MASK_CPUS).map_err(|error| error.raw_os_error());
        assert_eq!(refused, Err(Some(libc::EINVAL)));
        let refused = pin_current_thread(MASK_CPUS - 1).map_err(|error| error.raw_os_error());
        assert_eq!(refused, Err(Some(libc::EINVAL)));
    }

    #[test]
    fn a_wait_lasts_its_time_and_no_longer_than_requested() {
        let waiter = Waiter::without_signals();
        let before = monotonic_ns();
        assert_eq!(waiter.wait(Some(2_000_000), false), Event::Timeout);
        assert!(monotonic_ns() - before >= 2_000_000);
    }

    #[test]
    fn cpu_time_of_a_sleeping_thread_does_not_advance() {
        let before = thread_cpu_ns();
        std::thread::sleep(std::time::Duration::from_millis(20));
        assert!(thread_cpu_ns() - before < 10_000_000);
    }
}
