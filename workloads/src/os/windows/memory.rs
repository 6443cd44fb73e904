//! Memory from the system.

use std::io;
use std::mem;
use std::ptr;
use std::slice;

use windows_sys::Win32::System::Memory::{
    MEM_COMMIT, MEM_RELEASE, MEM_RESERVE, PAGE_READWRITE, VirtualAlloc, VirtualFree,
};
use windows_sys::Win32::System::SystemInformation::{GlobalMemoryStatusEx, MEMORYSTATUSEX};

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
    /// Commits `bytes` of memory in base pages.
    ///
    /// # Errors
    /// The system's if there is not enough memory.
    pub fn new(bytes: usize) -> io::Result<Memory> {
        // SAFETY: a new allocation at an address the system chooses.
        let start =
            unsafe { VirtualAlloc(ptr::null(), bytes, MEM_RESERVE | MEM_COMMIT, PAGE_READWRITE) };
        if start.is_null() {
            return Err(io::Error::last_os_error());
        }
        Ok(Memory { start: start.cast(), bytes })
    }

    /// The bytes, for writing.
    pub fn bytes_mut(&mut self) -> &mut [u8] {
        // SAFETY: the allocation is `bytes` long, readable and writable, and borrowed mutably.
        unsafe { slice::from_raw_parts_mut(self.start, self.bytes) }
    }

    /// The bytes, for reading.
    pub fn bytes(&self) -> &[u8] {
        // SAFETY: the allocation is `bytes` long and lives as long as `self`.
        unsafe { slice::from_raw_parts(self.start, self.bytes) }
    }
}

impl Drop for Memory {
    fn drop(&mut self) {
        // SAFETY: the allocation made in `new`, freed once.
        unsafe { VirtualFree(self.start.cast(), 0, MEM_RELEASE) };
    }
}

/// Memory that can be used without swapping, limited by what may still be committed.
pub fn available_memory_bytes() -> Option<u64> {
    // SAFETY: all zeros is a valid MEMORYSTATUSEX.
    let mut status: MEMORYSTATUSEX = unsafe { mem::zeroed() };
    status.dwLength = mem::size_of::<MEMORYSTATUSEX>() as u32;
    // SAFETY: `status` is valid for writing and contains its length.
    let ok = unsafe { GlobalMemoryStatusEx(&raw mut status) };
    (ok != 0).then(|| status.ullAvailPhys.min(status.ullAvailPageFile))
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
}
