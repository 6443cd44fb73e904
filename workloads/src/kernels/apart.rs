//! Data on separate cache lines.

/// Puts its content on lines of its own: 128 bytes, because some cores prefetch lines in pairs.
#[repr(align(128))]
#[derive(Default)]
pub struct Apart<T>(pub T);
