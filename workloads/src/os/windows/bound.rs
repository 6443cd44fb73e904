//! Runs a command and its child processes on one logical CPU.

use std::io;
use std::mem;
use std::process::Command;
use std::ptr;

use windows_sys::Win32::Foundation::CloseHandle;
use windows_sys::Win32::System::JobObjects::{
    AssignProcessToJobObject, CreateJobObjectW, JOB_OBJECT_LIMIT_KILL_ON_JOB_CLOSE,
    JOBOBJECT_EXTENDED_LIMIT_INFORMATION, JobObjectExtendedLimitInformation,
    SetInformationJobObject,
};
use windows_sys::Win32::System::SystemInformation::GROUP_AFFINITY;
use windows_sys::Win32::System::Threading::{
    GetCurrentProcess, GetCurrentThread, GetThreadGroupAffinity, SetProcessAffinityMask,
};

use super::processors;
use super::wait::Waiter;

/// Runs a command, which ends with this program; returns its exit status, 1 if that does not fit.
///
/// # Errors
/// A line that says why it cannot run there.
pub fn run_bound(cpu: usize, command: &[String]) -> Result<u8, String> {
    let (program, words) = command.split_first().ok_or("there is no command")?;
    let (group, number) = processors::place(cpu).ok_or_else(|| format!("there is no CPU {cpu}"))?;
    let mut own = GROUP_AFFINITY { Mask: 0, Group: 0, Reserved: [0; 3] };
    // SAFETY: the pointer is to a local; the pseudo handle needs no closing.
    let ok = unsafe { GetThreadGroupAffinity(GetCurrentThread(), &raw mut own) } != 0;
    if !ok || own.Group != group {
        return Err(format!("CPU {cpu} is in another processor group than this program"));
    }
    // Console events are for the command; this program waits until it ends.
    let _waiter = Waiter::new();
    bind(1 << number)
        .and_then(|()| end_together())
        .map_err(|error| format!("CPU {cpu}: {error}"))?;
    let status = Command::new(program)
        .args(words)
        .status()
        .map_err(|error| format!("{program}: {error}"))?;
    Ok(status.code().and_then(|code| u8::try_from(code).ok()).unwrap_or(1))
}

/// Pins this program; its child processes inherit the mask.
fn bind(mask: usize) -> io::Result<()> {
    // SAFETY: no memory; the pseudo handle needs no closing.
    let done = unsafe { SetProcessAffinityMask(GetCurrentProcess(), mask) } != 0;
    if done { Ok(()) } else { Err(io::Error::last_os_error()) }
}

/// Puts this program into a job, which ends all processes in it when this program ends.
fn end_together() -> io::Result<()> {
    // SAFETY: all zeros are a valid value: no limits at all.
    let mut limits: JOBOBJECT_EXTENDED_LIMIT_INFORMATION = unsafe { mem::zeroed() };
    limits.BasicLimitInformation.LimitFlags = JOB_OBJECT_LIMIT_KILL_ON_JOB_CLOSE;
    // SAFETY: the pointers are to a local of the size stated, or null where that is allowed. The
    // job handle is never closed explicitly: the end of this program closes it and ends the job.
    unsafe {
        let job = CreateJobObjectW(ptr::null(), ptr::null());
        if job.is_null() {
            return Err(io::Error::last_os_error());
        }
        let done = SetInformationJobObject(
            job,
            JobObjectExtendedLimitInformation,
            (&raw const limits).cast(),
            mem::size_of_val(&limits) as u32,
        ) != 0
            && AssignProcessToJobObject(job, GetCurrentProcess()) != 0;
        if done {
            return Ok(());
        }
        let error = io::Error::last_os_error();
        CloseHandle(job);
        Err(error)
    }
}
