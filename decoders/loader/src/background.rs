//! Threads that read recordings: a panic in one becomes an error about the recording.

use crate::error::DecodeError;

/// Name of the threads that read recordings.
pub const THREAD_NAME: &str = "schedlens-decode";

/// Turns a panic into an error: a bug in a reader must not end the process.
pub fn without_panic<T>(work: impl FnOnce() -> Result<T, DecodeError>) -> Result<T, DecodeError> {
    std::panic::catch_unwind(std::panic::AssertUnwindSafe(work)).unwrap_or_else(|cause| {
        let what = cause
            .downcast_ref::<String>()
            .cloned()
            .or_else(|| cause.downcast_ref::<&str>().map(|text| (*text).to_owned()))
            .unwrap_or_default();
        Err(DecodeError::Internal { what })
    })
}
