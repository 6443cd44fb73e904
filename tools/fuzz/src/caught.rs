//! Panics that a reader catches are no failures.

use std::panic::{self, AssertUnwindSafe};
use std::sync::{Mutex, Once, PoisonError};

/// Runs a reader of which only panics that leave it count. The hook of libFuzzer would end the
/// process at each of them.
pub fn only_what_leaves(reader: impl FnOnce()) {
    static HOOK: Once = Once::new();
    static LAST: Mutex<String> = Mutex::new(String::new());
    HOOK.call_once(|| {
        panic::set_hook(Box::new(|what| {
            *LAST.lock().unwrap_or_else(PoisonError::into_inner) = what.to_string();
        }));
    });
    if panic::catch_unwind(AssertUnwindSafe(reader)).is_err() {
        eprintln!("panicked: {}", LAST.lock().unwrap_or_else(PoisonError::into_inner));
        std::process::abort();
    }
}
