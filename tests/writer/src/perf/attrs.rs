//! `perf_event_attr` and the ids of the events.

use super::formats::Tracepoint;
use crate::bytes::Bytes;

/// `PERF_ATTR_SIZE_VER7`
pub(super) const SIZE: usize = 128;

const TYPE_HARDWARE: u32 = 0;
const TYPE_TRACEPOINT: u32 = 2;

const SAMPLE_IP: u64 = 1;
const SAMPLE_TID: u64 = 1 << 1;
const SAMPLE_TIME: u64 = 1 << 2;
const SAMPLE_READ: u64 = 1 << 4;
const SAMPLE_CPU: u64 = 1 << 7;
const SAMPLE_PERIOD: u64 = 1 << 8;
const SAMPLE_RAW: u64 = 1 << 10;
const SAMPLE_IDENTIFIER: u64 = 1 << 16;

const FORMAT_ID: u64 = 1 << 2;
const FORMAT_GROUP: u64 = 1 << 3;

const FLAG_INHERIT: u64 = 1 << 1;
const FLAG_COMM: u64 = 1 << 9;
const FLAG_TASK: u64 = 1 << 13;
const FLAG_SAMPLE_ID_ALL: u64 = 1 << 18;
const FLAG_COMM_EXEC: u64 = 1 << 24;
const FLAG_USE_CLOCKID: u64 = 1 << 25;
const CLOCK_MONOTONIC: u32 = 1;

/// An event of the file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Event {
    Tracepoint(Tracepoint),
    /// A counter of the CPU, in the group of `sched_switch`.
    Counter(String, u64),
}

/// Counters by the names that both systems have for them: Windows' name, perf's, `config`.
const COUNTERS: [(&str, &str, u64); 4] = [
    ("TotalCycles", "cycles", 0),
    ("InstructionRetired", "instructions", 1),
    ("CacheMisses", "cache-misses", 3),
    ("BranchMispredictions", "branch-misses", 5),
];

impl Event {
    /// The counter that Windows calls so; its own name where perf has no other.
    pub(super) fn counter(name: &str) -> Self {
        let known = COUNTERS.iter().find(|(windows, ..)| *windows == name);
        known.map_or_else(
            || Self::Counter(name.to_owned(), 9),
            |(_, perf, config)| Self::Counter((*perf).to_owned(), *config),
        )
    }

    /// As perf prints it.
    pub(super) fn name(&self) -> String {
        match self {
            Self::Tracepoint(point) => {
                let (system, name) = point.name();
                format!("{system}:{name}")
            }
            Self::Counter(name, _) => name.clone(),
        }
    }

    /// Its 128 bytes; `grouped`: `sched_switch` leads a group of counters.
    pub(super) fn attr(&self, grouped: bool, first: bool) -> Vec<u8> {
        let (kind, config) = match self {
            Self::Tracepoint(point) => (TYPE_TRACEPOINT, u64::from(point.id())),
            Self::Counter(_, config) => (TYPE_HARDWARE, *config),
        };
        let mut sample =
            SAMPLE_IDENTIFIER | SAMPLE_IP | SAMPLE_TID | SAMPLE_TIME | SAMPLE_CPU | SAMPLE_PERIOD;
        let counts = matches!(self, Self::Counter(..));
        let in_group = grouped && (counts || *self == Self::Tracepoint(Tracepoint::Switch));
        sample |= if counts { 0 } else { SAMPLE_RAW };
        sample |= if in_group { SAMPLE_READ } else { 0 };
        let read = FORMAT_ID | if in_group { FORMAT_GROUP } else { 0 };
        let mut flags = FLAG_INHERIT | FLAG_SAMPLE_ID_ALL | FLAG_USE_CLOCKID;
        flags |= if first { FLAG_COMM | FLAG_TASK | FLAG_COMM_EXEC } else { 0 };
        let mut out = Bytes::new();
        out.u32(kind).u32(SIZE as u32).u64(config).u64(u64::from(!counts)).u64(sample).u64(read);
        out.u64(flags).zeros(44).u32(CLOCK_MONOTONIC).zeros(SIZE - 96);
        out.0
    }
}
