//! `TRACE_LOGFILE_HEADER`, the first record of every file.

use crate::bytes::Bytes;
use crate::layout::{Clock, Compression, EtlOptions};

/// FILETIME of ns 0: a moment of 2025.
pub const START_TIME: i64 = 133_900_000_000_000_000;

/// Values known only when the file is complete.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Totals {
    pub(super) buffers: u32,
    pub(super) events_lost: u32,
    pub(super) buffers_lost: u32,
    /// Latest time in ns.
    pub(super) last_ns: i64,
}

/// `EVENT_TRACE_*_MODE`
const SEQUENTIAL: u32 = 1;
const CIRCULAR: u32 = 1 << 1;
const RELOG: u32 = 1 << 16;
const COMPRESSED: u32 = 1 << 26;

/// The payload.
pub(super) fn payload(options: &EtlOptions, cpus: u32, mhz: u32, totals: Totals) -> Vec<u8> {
    let pointer = usize::from(options.pointer);
    let packed = options.compression != Compression::None;
    let mut mode = if options.circular.is_some() { CIRCULAR } else { SEQUENTIAL };
    mode |= if options.merged { RELOG } else { 0 };
    mode |= if packed { COMPRESSED } else { 0 };
    let (layout_major, layout_minor) = if packed { (2, 0) } else { (1, 5) };
    let closed = |value: u32| if options.closed { value } else { 0 };
    let end = if options.closed { START_TIME + totals.last_ns / 100 } else { 0 };
    let mut out = Bytes::new();
    out.u32(options.buffer_size).u8(10).u8(0).u8(layout_major).u8(layout_minor);
    out.u32(options.os_build).u32(cpus).i64(end).u32(156_250);
    out.u32(options.circular.map_or(0, |slots| 1 + slots * options.buffer_size / (1 << 20)));
    out.u32(mode).u32(closed(totals.buffers)).u32(1).u32(u32::from(options.pointer));
    out.u32(closed(totals.events_lost)).u32(mhz);
    out.pointer(pointer, 0).pointer(pointer, 0);
    // TIME_ZONE_INFORMATION: an hour east of Greenwich
    out.u32((-60_i32).cast_unsigned()).utf16_field("drawn", 32).zeros(16);
    out.u32(0).utf16_field("drawn, summer", 32).zeros(16).u32((-60_i32).cast_unsigned());
    out.align(8).i64(START_TIME - 600_000_000).u64(options.clock_hz).i64(START_TIME);
    out.u32(match options.clock {
        Clock::Qpc => 1,
        Clock::SystemTime => 2,
        Clock::Cycle => 3,
    });
    out.u32(closed(totals.buffers_lost));
    out.utf16z(if options.merged { "Relogger" } else { "Drawn session" });
    out.utf16z(if options.merged { "[multiple files]" } else { "drawn.etl" });
    out.0
}

/// Raw clock at a time in ns, where it is a whole number of ticks.
pub(super) fn ticks(options: &EtlOptions, mhz: u32, ns: i64) -> Option<i64> {
    let hz = match options.clock {
        Clock::Qpc => i128::from(options.clock_hz),
        Clock::SystemTime => 10_000_000,
        Clock::Cycle => i128::from(mhz) * 1_000_000,
    };
    let scaled = i128::from(ns) * hz;
    let whole = scaled % 1_000_000_000 == 0;
    whole.then(|| i64::try_from(scaled / 1_000_000_000).ok())?.map(|n| options.start_ticks + n)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fields_are_at_documented_offsets() {
        let word = |bytes: &[u8], at: usize| {
            u32::from_le_bytes([bytes[at], bytes[at + 1], bytes[at + 2], bytes[at + 3]])
        };
        for (pointer, zone) in [(8, 72), (4, 64)] {
            let options = EtlOptions { pointer, ..EtlOptions::default() };
            let totals = Totals { buffers: 3, events_lost: 7, buffers_lost: 2, last_ns: 500 };
            let bytes = payload(&options, 24, 2400, totals);
            assert_eq!(
                (word(&bytes, 12), word(&bytes, 36), word(&bytes, 44)),
                (24, 3, pointer.into())
            );
            assert_eq!((word(&bytes, 48), word(&bytes, 52)), (7, 2400));
            // Bias, then 172 bytes of zone, aligned
            assert_eq!(word(&bytes, zone), (-60_i32).cast_unsigned());
            assert_eq!(word(&bytes, zone + 168), (-60_i32).cast_unsigned());
            let after = (zone + 172).next_multiple_of(8);
            assert_eq!(after, if pointer == 8 { 248 } else { 240 });
            assert_eq!(word(&bytes, after + 8), 10_000_000);
            assert_eq!((word(&bytes, after + 24), word(&bytes, after + 28)), (1, 2));
        }
    }

    #[test]
    fn time_between_two_ticks_is_refused() {
        let options = EtlOptions { start_ticks: 50, ..EtlOptions::default() };
        assert_eq!(ticks(&options, 3000, 1_000), Some(60));
        assert_eq!(ticks(&options, 3000, 1_001), None);
        let cycles = EtlOptions { clock: Clock::Cycle, start_ticks: 0, ..EtlOptions::default() };
        assert_eq!(ticks(&cycles, 3000, 7), Some(21));
    }
}
