//! What is known of a record whose time does not fit those around it.

use crate::loss::LostRecords;
use crate::streams::Span;

/// An interrupt between taking the time and taking the room may turn records round by this much.
pub(crate) const TOLERANCE_NS: u64 = 1_000_000;

/// Records of one place in the file that do not fit there.
#[derive(Debug)]
pub(crate) struct Misfit {
    /// Where the file has them, and what is reported if they are left out.
    pub(crate) place: String,
    pub(crate) what: &'static str,
    pub(crate) count: i64,
    /// Time and place of each; of too many, none.
    pub(crate) records: Vec<(u64, Span)>,
    /// What their times say.
    pub(crate) earliest: u64,
    pub(crate) latest: u64,
    /// The stretch of the CPU in which the file has them.
    pub(crate) gap: LostRecords,
    /// The lane whose clock had gone back by then.
    pub(crate) stepped: Option<usize>,
}

/// A step back that the records after it confirm.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Step {
    pub(crate) cpu: i32,
    /// The lane that goes on after it.
    pub(crate) lane: usize,
    /// What had been reached.
    pub(crate) reached: u64,
}

/// What is wrong where a record is much earlier than the one before it.
pub(crate) enum Verdict {
    /// The record.
    Record,
    /// Nothing is left of what was wrong before it.
    Mended,
    /// The clock went back, or the CPU writes into several buffers.
    Stepped,
}

/// Where a lane stands.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Here<'a> {
    pub(crate) segment: u32,
    pub(crate) data: &'a [u8],
    pub(crate) name: &'a str,
    /// Of the record that steps back, and behind it.
    pub(crate) start: usize,
    pub(crate) end: usize,
}
