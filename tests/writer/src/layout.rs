//! How the files are laid out.

use serde::Deserialize;

/// Clock of an .etl (`EVENT_TRACE_CLOCK_*`).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Clock {
    /// Ticks of `PerfFreq`.
    #[default]
    Qpc,
    /// 100 ns.
    SystemTime,
    /// Cycles of `CpuSpeedInMHz`.
    Cycle,
}

/// How buffers of an .etl are stored.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Compression {
    /// As they are.
    #[default]
    None,
    /// `COMPRESSION_FORMAT_LZNT1`
    Lznt1,
    /// `COMPRESSION_FORMAT_XPRESS`
    Xpress,
}

/// Layout of an .etl.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct EtlOptions {
    /// Bytes of a pointer, 8 or 4.
    pub pointer: u8,
    /// The clock.
    pub clock: Clock,
    /// Ticks a second of the clock `qpc`.
    pub clock_hz: u64,
    /// Clock at ns 0.
    pub start_ticks: i64,
    /// `BufferSize` of every buffer that is not compressed.
    pub buffer_size: u32,
    /// Compression of the buffers.
    pub compression: Compression,
    /// Seed of the order in which buffers are flushed; without: as they fill.
    pub shuffle: Option<u64>,
    /// Number of buffers after the header; later ones replace the oldest.
    pub circular: Option<u32>,
    /// In the style of a merge: relogger's header, rundown records and what is injected at the end.
    pub merged: bool,
    /// Schemas of the manifest events at the end (`merged` only).
    pub metadata: bool,
    /// SystemConfig records and WinSAT's XML (`merged` only for the latter).
    pub topology: bool,
    /// Version of CSwitch, 1 to 5.
    pub switch_version: u8,
    /// Processor index in 16 bits instead of 8.
    pub wide_index: bool,
    /// The header has end time and counts; false: the recorder was killed.
    pub closed: bool,
    /// `ProviderVersion`.
    pub os_build: u32,
}

impl Default for EtlOptions {
    fn default() -> Self {
        Self {
            pointer: 8,
            clock: Clock::Qpc,
            clock_hz: 10_000_000,
            start_ticks: 5_000_000_000,
            buffer_size: 65536,
            compression: Compression::None,
            shuffle: None,
            circular: None,
            merged: false,
            metadata: true,
            topology: true,
            switch_version: 4,
            wide_index: true,
            closed: true,
            os_build: 22631,
        }
    }
}

/// Layout of a perf.data.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct PerfOptions {
    /// Clock at ns 0.
    pub start_ns: u64,
    /// Length of a round, after which perf writes what each CPU has.
    pub round_ns: u64,
    /// Seed of the order of the CPUs in a round; without: by number.
    pub shuffle: Option<u64>,
    /// Record calls of `sched_yield`.
    pub yields: bool,
}

impl Default for PerfOptions {
    fn default() -> Self {
        Self { start_ns: 1_000_000_000_000, round_ns: 2_000_000, shuffle: None, yields: true }
    }
}
