//! Swap chains, and the present each thread is inside.

use std::collections::HashMap;

#[derive(Clone, Copy, Debug)]
pub(in crate::etl) struct Chain {
    /// The last present; the next one ends its frame.
    pub(in crate::etl) start_ns: i64,
    /// When the program could start that frame: the return of the previous present.
    pub(in crate::etl) returned_ns: Option<i64>,
}

/// What is known about each swap chain.
#[derive(Debug, Default)]
pub(in crate::etl) struct Presents {
    /// By process and swap chain.
    pub(in crate::etl) chains: HashMap<(u32, u64), Chain>,
    /// Presents that have not returned, by thread.
    pub(in crate::etl) inside: HashMap<u32, (u32, u64)>,
    /// Frames of each process so far.
    pub(in crate::etl) frames: HashMap<u32, i64>,
}
