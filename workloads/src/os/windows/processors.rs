//! Logical CPUs by number, counted over all processor groups.

use std::io;
use std::ptr;
use std::sync::OnceLock;

use schedlens_system::processors::{Numbering, Topology};
use windows_sys::Win32::Foundation::{ERROR_INSUFFICIENT_BUFFER, ERROR_INVALID_PARAMETER};
use windows_sys::Win32::System::Kernel::PROCESSOR_NUMBER;
use windows_sys::Win32::System::SystemInformation::{
    GROUP_AFFINITY, GetLogicalProcessorInformationEx, RelationAll,
};
use windows_sys::Win32::System::Threading::{
    GetCurrentProcess, GetCurrentProcessorNumberEx, GetCurrentThread, GetProcessAffinityMask,
    GetThreadGroupAffinity, SetThreadGroupAffinity,
};

/// What `GetLogicalProcessorInformationEx(RelationAll)` writes.
///
/// # Errors
/// The system's.
pub fn processor_information() -> io::Result<Vec<u8>> {
    let mut bytes = Vec::new();
    loop {
        let mut size = bytes.len() as u32;
        // SAFETY: the buffer is as long as stated; a buffer that is too short is not written.
        let ok = unsafe {
            let buffer: *mut u8 =
                if bytes.is_empty() { ptr::null_mut() } else { bytes.as_mut_ptr() };
            GetLogicalProcessorInformationEx(RelationAll, buffer.cast(), &raw mut size)
        };
        if ok != 0 {
            bytes.truncate(size as usize);
            return Ok(bytes);
        }
        let error = io::Error::last_os_error();
        let needed = size as usize;
        // CPUs may be added between two calls, but retrying helps only if the size grows.
        if error.raw_os_error() != Some(ERROR_INSUFFICIENT_BUFFER as i32) || needed <= bytes.len() {
            return Err(error);
        }
        bytes = vec![0; needed];
    }
}

/// The current CPUs; `None` if the system does not report them.
fn topology() -> Option<&'static Topology> {
    static FOUND: OnceLock<Option<Topology>> = OnceLock::new();
    FOUND.get_or_init(|| Topology::read(&processor_information().ok()?).ok()).as_ref()
}

fn numbering() -> Option<&'static Numbering> {
    static FOUND: OnceLock<Option<Numbering>> = OnceLock::new();
    FOUND.get_or_init(|| Some(topology()?.numbering())).as_ref()
}

/// A logical CPU's processor group and its number in the group.
pub fn place(cpu: usize) -> Option<(u16, u8)> {
    numbering()?.place(cpu)
}

/// The logical CPU that the caller runs on.
#[inline]
pub fn current_cpu() -> u16 {
    let mut place = PROCESSOR_NUMBER { Group: 0, Number: 0, Reserved: 0 };
    // SAFETY: the pointer is to a local.
    unsafe { GetCurrentProcessorNumberEx(&raw mut place) };
    let cpu = match numbering() {
        Some(numbering) => numbering.cpu(place.Group, place.Number),
        None => Some(usize::from(place.Number)),
    };
    cpu.and_then(|cpu| u16::try_from(cpu).ok()).unwrap_or(u16::MAX)
}

/// Pins the calling thread to one logical CPU in any processor group.
///
/// # Errors
/// The system's: `ERROR_INVALID_PARAMETER` if the CPU is absent or not allowed.
pub fn pin_current_thread(cpu: usize) -> io::Result<()> {
    let absent = || io::Error::from_raw_os_error(ERROR_INVALID_PARAMETER as i32);
    let (group, number) = place(cpu).ok_or_else(absent)?;
    let affinity = GROUP_AFFINITY { Mask: 1 << number, Group: group, Reserved: [0; 3] };
    // SAFETY: a valid GROUP_AFFINITY; null means that the previous mask is not returned.
    let done =
        unsafe { SetThreadGroupAffinity(GetCurrentThread(), &raw const affinity, ptr::null_mut()) };
    if done != 0 { Ok(()) } else { Err(io::Error::last_os_error()) }
}

/// The CPUs this process may use: all, except that its mask limits those of its own group.
pub fn allowed_cpus(topology: &Topology) -> Vec<usize> {
    let (mut mask, mut of_system) = (0, 0);
    let mut own = GROUP_AFFINITY { Mask: 0, Group: 0, Reserved: [0; 3] };
    // SAFETY: the pointers are to locals; pseudo handles need no closing.
    let ok = unsafe {
        GetProcessAffinityMask(GetCurrentProcess(), &raw mut mask, &raw mut of_system) != 0
            && GetThreadGroupAffinity(GetCurrentThread(), &raw mut own) != 0
    };
    // Windows returns the mask 0 for a process in several groups.
    let bound = ok && mask != 0;
    topology
        .cpus
        .iter()
        .filter(|cpu| !bound || cpu.group != own.Group || mask >> cpu.number_in_group & 1 == 1)
        .map(|cpu| cpu.cpu)
        .collect()
}

/// Size of the first-level data cache of `cpu`; without `cpu`, of the largest one.
pub fn l1d_bytes(cpu: Option<usize>) -> Option<u64> {
    let cpus = &topology()?.cpus;
    let bytes = match cpu {
        Some(cpu) => cpus.get(cpu)?.l1d_bytes,
        None => cpus.iter().filter_map(|cpu| cpu.l1d_bytes).max(),
    };
    bytes.map(u64::from)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_cpu_that_cannot_exist_is_refused() {
        let refused = pin_current_thread(65_000).map_err(|error| error.raw_os_error());
        assert_eq!(refused, Err(Some(ERROR_INVALID_PARAMETER as i32)));
    }

    #[test]
    fn a_bound_thread_runs_where_it_is_bound() {
        let found = topology().expect("the system reports its CPUs");
        for cpu in allowed_cpus(found) {
            pin_current_thread(cpu).expect("it is allowed");
            assert_eq!(usize::from(current_cpu()), cpu);
        }
    }
}
