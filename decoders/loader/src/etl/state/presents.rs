//! Swap chains, and the present that each thread is in.

use std::collections::HashMap;

#[derive(Clone, Copy, Debug)]
pub(in crate::etl) struct Chain {
    /// The last present, whose frame the next one ends.
    pub(in crate::etl) start_ns: i64,
    /// When the program could begin that frame: the present before had returned.
    pub(in crate::etl) returned_ns: Option<i64>,
}

/// What is known of each swap chain.
#[derive(Debug, Default)]
pub(in crate::etl) struct Presents {
    /// By process and swap chain.
    pub(in crate::etl) chains: HashMap<(u32, u64), Chain>,
    /// Presents that a thread is in.
    pub(in crate::etl) inside: HashMap<u32, (u32, u64)>,
    /// Frames of each process so far.
    pub(in crate::etl) frames: HashMap<u32, i64>,
}
