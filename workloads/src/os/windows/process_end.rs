//! Waits until a process has ended.

use std::io;

use windows_sys::Win32::Foundation::{CloseHandle, HANDLE, WAIT_OBJECT_0};
use windows_sys::Win32::System::Threading::{
    INFINITE, OpenProcess, PROCESS_SYNCHRONIZE, WaitForSingleObject,
};

/// A process that can be waited for; its number is not given to another one meanwhile.
pub struct OpenedProcess(HANDLE);

impl OpenedProcess {
    /// # Errors
    /// The system's if there is no such process, or if this user may not wait for it.
    pub fn new(pid: u32) -> io::Result<Self> {
        // SAFETY: no memory; the handle is closed once, when the value is dropped.
        let handle = unsafe { OpenProcess(PROCESS_SYNCHRONIZE, 0, pid) };
        if handle.is_null() { Err(io::Error::last_os_error()) } else { Ok(Self(handle)) }
    }

    /// # Errors
    /// The system's if it cannot wait.
    pub fn wait(&self) -> io::Result<()> {
        // SAFETY: the handle is open as long as the value lives.
        let found = unsafe { WaitForSingleObject(self.0, INFINITE) };
        if found == WAIT_OBJECT_0 { Ok(()) } else { Err(io::Error::last_os_error()) }
    }
}

impl Drop for OpenedProcess {
    fn drop(&mut self) {
        // SAFETY: the value owns the handle.
        unsafe { CloseHandle(self.0) };
    }
}
