//! Limits of the memory that one input may take.
//!
//! libFuzzer looks at the memory of the process once a second, and counts allocations only with a
//! sanitizer: what takes a gigabyte for a moment remains unseen.

use std::alloc::{GlobalAlloc, Layout, System};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

/// Bytes of one allocation.
const MOST_AT_ONCE: usize = 64 << 20;
/// Bytes of all that exist at a time.
const MOST: usize = 256 << 20;

static TAKEN: AtomicUsize = AtomicUsize::new(0);
/// A limit is exceeded: the message allocates too, and so does the report of libFuzzer.
static ENDING: AtomicBool = AtomicBool::new(false);

/// The allocator of the system, which ends the process at these limits.
pub struct Limited;

/// Counts an allocation.
fn take(size: usize) {
    let taken = TAKEN.fetch_add(size, Ordering::Relaxed).saturating_add(size);
    let exceeds = size > MOST_AT_ONCE || taken > MOST;
    if exceeds && !ENDING.swap(true, Ordering::Relaxed) {
        let place = std::backtrace::Backtrace::force_capture();
        eprintln!("{place}\nERROR: {size} bytes are asked for at once, {taken} in all");
        std::process::abort();
    }
}

fn give_back(size: usize) {
    TAKEN.fetch_sub(size, Ordering::Relaxed);
}

// SAFETY: every call is passed on as it is.
unsafe impl GlobalAlloc for Limited {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        take(layout.size());
        // SAFETY: the caller's.
        unsafe { System.alloc(layout) }
    }

    unsafe fn alloc_zeroed(&self, layout: Layout) -> *mut u8 {
        take(layout.size());
        // SAFETY: the caller's.
        unsafe { System.alloc_zeroed(layout) }
    }

    unsafe fn dealloc(&self, pointer: *mut u8, layout: Layout) {
        give_back(layout.size());
        // SAFETY: the caller's.
        unsafe { System.dealloc(pointer, layout) }
    }

    unsafe fn realloc(&self, pointer: *mut u8, layout: Layout, size: usize) -> *mut u8 {
        take(size);
        give_back(layout.size());
        // SAFETY: the caller's.
        unsafe { System.realloc(pointer, layout, size) }
    }
}
