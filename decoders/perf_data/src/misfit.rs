//! A record whose time does not fit those around it.

use crate::loss::LostRecords;
use crate::streams::Span;

/// An interrupt between reading the time and reserving the space may swap records that differ by up
/// to this.
pub(crate) const TOLERANCE_NS: u64 = 1_000_000;

/// Misfit records at one position in the file.
#[derive(Debug)]
pub(crate) struct Misfit {
    /// Their position in the file, and the text reported if they are skipped.
    pub(crate) place: String,
    pub(crate) what: &'static str,
    pub(crate) count: i64,
    /// Time and position of each; empty if there are too many.
    pub(crate) records: Vec<(u64, Span)>,
    /// The range of their times.
    pub(crate) earliest: u64,
    pub(crate) latest: u64,
    /// The gap at their position in the file.
    pub(crate) gap: LostRecords,
    /// The lane whose clock had stepped back by then.
    pub(crate) stepped: Option<usize>,
}

/// A step back that later records confirm.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Step {
    pub(crate) cpu: i32,
    /// The lane that continues after it.
    pub(crate) lane: usize,
    /// The time reached before it.
    pub(crate) reached: u64,
}

/// What is wrong if a record is much earlier than the one before it.
pub(crate) enum Verdict {
    /// The record.
    Record,
    /// The wrong records before it have been removed.
    Fixed,
    /// The clock stepped back, or the CPU writes into several buffers.
    Stepped,
}

/// The read position in a lane.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Here<'a> {
    pub(crate) segment: u32,
    pub(crate) data: &'a [u8],
    pub(crate) name: &'a str,
    /// Start of the record that steps back, and the position after it.
    pub(crate) start: usize,
    pub(crate) end: usize,
}
