//! Sleeps until a timeout, a console event or input.

use std::io::{self, BufRead};
use std::ptr;
use std::sync::atomic::{AtomicPtr, Ordering};
use std::thread;

use windows_sys::Win32::Foundation::{CloseHandle, HANDLE, TRUE, WAIT_FAILED, WAIT_OBJECT_0};
use windows_sys::Win32::System::Console::SetConsoleCtrlHandler;
use windows_sys::Win32::System::Threading::{
    CREATE_WAITABLE_TIMER_HIGH_RESOLUTION, CreateEventW, CreateWaitableTimerExW, INFINITE,
    SetEvent, SetWaitableTimer, TIMER_ALL_ACCESS, WaitForMultipleObjects,
};

use super::monotonic_ns;
use crate::os::Event;

/// Set by Ctrl-C, Ctrl-Break, a closed console, or the end of the session.
static INTERRUPT: AtomicPtr<core::ffi::c_void> = AtomicPtr::new(ptr::null_mut());

unsafe extern "system" fn on_console_event(_kind: u32) -> windows_sys::core::BOOL {
    let event = INTERRUPT.load(Ordering::Acquire);
    // SAFETY: the event is never closed once it exists.
    if !event.is_null() { unsafe { SetEvent(event) } } else { 0 }
}

fn new_event() -> HANDLE {
    // SAFETY: no attributes, no name; a manual-reset event remains set.
    unsafe { CreateEventW(ptr::null(), TRUE, 0, ptr::null()) }
}

/// A timer with a resolution of 0.5 ms if available (Windows 10 1803), else of 15.6 ms.
fn new_timer() -> HANDLE {
    [CREATE_WAITABLE_TIMER_HIGH_RESOLUTION, 0]
        .into_iter()
        // SAFETY: no attributes, no name.
        .map(|kind| unsafe {
            CreateWaitableTimerExW(ptr::null(), ptr::null(), kind, TIMER_ALL_ACCESS)
        })
        .find(|timer| !timer.is_null())
        .unwrap_or(ptr::null_mut())
}

/// Sleeps until an event.
#[derive(Debug)]
pub struct Waiter {
    interrupt: HANDLE,
    timer: HANDLE,
}

impl Waiter {
    /// Handles Ctrl-C and similar events, to receive them here.
    pub fn new() -> Waiter {
        let mut interrupt = INTERRUPT.load(Ordering::Acquire);
        if interrupt.is_null() {
            interrupt = new_event();
            INTERRUPT.store(interrupt, Ordering::Release);
            // SAFETY: the handler is a function of this program and lives as long as it.
            unsafe { SetConsoleCtrlHandler(Some(on_console_event), TRUE) };
        }
        Waiter { interrupt, timer: new_timer() }
    }

    /// Leaves console events with their default effect.
    pub fn without_signals() -> Waiter {
        Waiter { interrupt: ptr::null_mut(), timer: new_timer() }
    }

    /// Sleeps until a timeout (`None`: no timeout), an interrupt, or input if it is watched.
    pub fn wait(&self, timeout_ns: Option<i64>, watch_input: bool) -> Event {
        let deadline = timeout_ns.map(|ns| monotonic_ns().saturating_add(ns));
        let input = if watch_input { watch() } else { ptr::null_mut() };
        let mut watched = Vec::new();
        for (handle, event) in [(self.interrupt, Event::Interrupt), (input, Event::Input)] {
            if !handle.is_null() {
                watched.push((handle, event));
            }
        }
        let timed = deadline.is_some() && !self.timer.is_null();
        if timed {
            watched.push((self.timer, Event::Timeout));
        }
        let handles: Vec<HANDLE> = watched.iter().map(|(handle, _)| *handle).collect();
        loop {
            let left = deadline.map(|deadline| (deadline - monotonic_ns()).max(0));
            if left == Some(0) {
                return Event::Timeout;
            }
            let mut patience_ms = INFINITE;
            if let Some(left) = left {
                if timed {
                    // In units of 100 ns; negative means relative to now.
                    let due = -(left / 100).max(1);
                    // SAFETY: this waiter owns the timer; no callback.
                    unsafe {
                        SetWaitableTimer(self.timer, &raw const due, 0, None, ptr::null(), 0)
                    };
                } else {
                    patience_ms = u32::try_from(left / 1_000_000 + 1).unwrap_or(INFINITE - 1);
                }
            }
            if handles.is_empty() {
                thread::sleep(std::time::Duration::from_nanos(left.unwrap_or(0).cast_unsigned()));
                continue;
            }
            // SAFETY: at most three valid handles.
            let woken = unsafe {
                WaitForMultipleObjects(handles.len() as u32, handles.as_ptr(), 0, patience_ms)
            };
            if woken == WAIT_FAILED {
                thread::sleep(std::time::Duration::from_millis(1));
            }
            match watched.get(woken.wrapping_sub(WAIT_OBJECT_0) as usize) {
                // A timer may be early by less than its resolution.
                Some((_, Event::Timeout)) | None => {}
                Some((_, event)) => return *event,
            }
        }
    }
}

/// An event that is set once standard input has data or has ended.
///
/// Windows cannot wait for a pipe, so a thread blocks in a read; the data remains in the buffer of
/// standard input for the next reader.
fn watch() -> HANDLE {
    let event = new_event();
    let address = event as usize;
    let spawned = thread::Builder::new().name("standard input".to_owned()).spawn(move || {
        drop(io::stdin().lock().fill_buf());
        // SAFETY: the event lives as long as the program.
        unsafe { SetEvent(address as HANDLE) };
    });
    if spawned.is_err() {
        // The following read then waits itself.
        // SAFETY: the event was made above.
        unsafe { SetEvent(event) };
    }
    event
}

impl Drop for Waiter {
    fn drop(&mut self) {
        if !self.timer.is_null() {
            // SAFETY: this waiter owns the timer.
            unsafe { CloseHandle(self.timer) };
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_wait_lasts_its_time_and_no_longer_than_requested() {
        let waiter = Waiter::without_signals();
        let before = monotonic_ns();
        assert_eq!(waiter.wait(Some(2_000_000), false), Event::Timeout);
        assert!(monotonic_ns() - before >= 2_000_000);
    }
}
