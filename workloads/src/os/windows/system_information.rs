//! Calls `NtQuerySystemInformation`; another module parses the results.

use windows_sys::Wdk::System::SystemInformation::{
    NtQuerySystemInformation, SYSTEM_INFORMATION_CLASS, SystemProcessInformation,
    SystemProcessorPerformanceInformation,
};
use windows_sys::Win32::Foundation::{NTSTATUS, STATUS_INFO_LENGTH_MISMATCH, STATUS_SUCCESS};

use crate::system_information::{self, ProcessorTimes, Thread};

/// More than any list of processes needs.
const MOST_BYTES: usize = 256 << 20;

#[link(name = "ntdll")]
unsafe extern "system" {
    /// The same for a processor group; windows-sys does not declare it.
    fn NtQuerySystemInformationEx(
        class: SYSTEM_INFORMATION_CLASS,
        input: *const u16,
        input_bytes: u32,
        output: *mut core::ffi::c_void,
        output_bytes: u32,
        written: *mut u32,
    ) -> NTSTATUS;
}

fn refused(what: &str, status: NTSTATUS) -> String {
    format!("the system does not report {what}: status {:#010x}", status.cast_unsigned())
}

/// Times of the CPUs of a group, in the order of their numbers.
///
/// # Errors
/// One line that says what the system does not report.
pub fn processor_times(group: u16, alone: bool) -> Result<Vec<ProcessorTimes>, String> {
    let mut bytes = vec![0_u8; 64 * 48];
    let (size, mut written) = (bytes.len() as u32, 0);
    let class = SystemProcessorPerformanceInformation;
    // SAFETY: the input is a u16 of two bytes; the output is as long as stated.
    let mut status = unsafe {
        NtQuerySystemInformationEx(
            class,
            &raw const group,
            2,
            bytes.as_mut_ptr().cast(),
            size,
            &raw mut written,
        )
    };
    if status != STATUS_SUCCESS && alone {
        // The older call is for the caller's own group.
        // SAFETY: the output is as long as stated.
        status = unsafe {
            NtQuerySystemInformation(class, bytes.as_mut_ptr().cast(), size, &raw mut written)
        };
    }
    if status != STATUS_SUCCESS {
        return Err(refused("the times of its CPUs", status));
    }
    bytes.truncate(written as usize);
    system_information::processor_times(&bytes).map_err(|error| error.to_string())
}

/// All threads of the system.
///
/// # Errors
/// One line that says what the system does not report.
pub fn threads() -> Result<Vec<Thread>, String> {
    let mut bytes = vec![0_u8; 1 << 20];
    loop {
        let (size, mut written) = (bytes.len() as u32, 0);
        // SAFETY: the output is as long as stated.
        let status = unsafe {
            NtQuerySystemInformation(
                SystemProcessInformation,
                bytes.as_mut_ptr().cast(),
                size,
                &raw mut written,
            )
        };
        if status == STATUS_INFO_LENGTH_MISMATCH && bytes.len() < MOST_BYTES {
            // Threads may have started since Windows returned the size.
            bytes = vec![0; (2 * bytes.len()).max(written as usize)];
            continue;
        }
        if status != STATUS_SUCCESS {
            return Err(refused("its threads", status));
        }
        let address = bytes.as_ptr() as u64;
        return system_information::threads(&bytes[..written as usize], address)
            .map_err(|error| error.to_string());
    }
}
