//! `perf_event_header`: iterates over records, and continues after damage.

use schedlens_input::bytes::{u16_at, u32_at, u64_at};

/// `PERF_RECORD_MMAP`
pub const MMAP: u32 = 1;
/// `PERF_RECORD_LOST`
pub const LOST: u32 = 2;
/// `PERF_RECORD_COMM`
pub const COMM: u32 = 3;
/// `PERF_RECORD_EXIT`
pub const EXIT: u32 = 4;
/// `PERF_RECORD_FORK`
pub const FORK: u32 = 7;
/// `PERF_RECORD_SAMPLE`
pub const SAMPLE: u32 = 9;
/// `PERF_RECORD_MMAP2`
pub const MMAP2: u32 = 10;
/// `PERF_RECORD_LOST_SAMPLES`
pub const LOST_SAMPLES: u32 = 13;
/// `PERF_RECORD_SWITCH`
pub const SWITCH: u32 = 14;
/// `PERF_RECORD_KSYMBOL`
pub const KSYMBOL: u32 = 17;
/// `PERF_RECORD_CGROUP`
pub const CGROUP: u32 = 19;
/// `PERF_RECORD_SWITCH_CPU_WIDE`
pub const SWITCH_CPU_WIDE: u32 = 15;
/// `PERF_RECORD_USER_TYPE_START`: the recorder wrote the record, not the kernel.
pub const USER_TYPE_START: u32 = 64;
/// `PERF_RECORD_HEADER_ATTR`
pub const HEADER_ATTR: u32 = 64;
/// `PERF_RECORD_HEADER_TRACING_DATA`
pub const HEADER_TRACING_DATA: u32 = 66;
/// `PERF_RECORD_ID_INDEX`: on which CPU each event was opened.
pub const ID_INDEX: u32 = 69;
/// `PERF_RECORD_AUXTRACE`
pub const AUXTRACE: u32 = 71;
/// `PERF_RECORD_EVENT_UPDATE`
pub const EVENT_UPDATE: u32 = 78;
/// `PERF_RECORD_HEADER_FEATURE`
pub const HEADER_FEATURE: u32 = 80;
/// `PERF_RECORD_COMPRESSED`
pub const COMPRESSED: u32 = 81;
/// `PERF_RECORD_COMPRESSED2`
pub const COMPRESSED2: u32 = 83;

/// `PERF_RECORD_MISC_COMM_EXEC`
pub const MISC_COMM_EXEC: u16 = 1 << 13;
/// `PERF_RECORD_MISC_SWITCH_OUT`
pub const MISC_SWITCH_OUT: u16 = 1 << 13;
/// `PERF_RECORD_MISC_SWITCH_OUT_PREEMPT`
pub const MISC_SWITCH_OUT_PREEMPT: u16 = 1 << 14;
/// `PERF_RECORD_THREAD_MAP`
pub const THREAD_MAP: u32 = 73;
/// `PERF_RECORD_MISC_LOST_SAMPLES_BPF`: filtered out, not lost.
pub const MISC_LOST_SAMPLES_BPF: u16 = 1 << 15;

/// The last known record kind; anything beyond is damage or from a later perf.
const LAST_KERNEL_TYPE: u32 = 31;
const LAST_USER_TYPE: u32 = 95;
/// After damage, this many consecutive records must be plausible.
const BELIEVABLE_RECORDS: usize = 4;
pub(crate) const HEADER_SIZE: usize = 8;
/// Records of these kinds have at most 48 bytes and a `sample_id` of at most 56.
const LONGEST_FIXED: usize = 104;

/// A record: header fields and all its bytes.
#[derive(Clone, Copy, Debug)]
pub struct Record<'a> {
    /// `perf_event_header.type`
    pub kind: u32,
    /// `perf_event_header.misc`
    pub misc: u16,
    /// All its bytes, header included.
    pub bytes: &'a [u8],
    /// Size including the payload that follows some records of the recorder.
    pub length: usize,
}

/// Whether a `PERF_RECORD_THREAD_MAP` lists threads; `None` for another record. The one of
/// `perf record -a` lists only -1.
pub(crate) fn names_threads(record: &Record<'_>) -> Option<bool> {
    let tid = u64_at(record.bytes, 16).filter(|_| record.kind == THREAD_MAP)?;
    Some(tid != u64::MAX)
}

/// Name of a record kind as perf prints it.
pub fn kind_name(kind: u32) -> String {
    let name = match kind {
        1 => "MMAP",
        2 => "LOST",
        3 => "COMM",
        4 => "EXIT",
        5 => "THROTTLE",
        6 => "UNTHROTTLE",
        7 => "FORK",
        8 => "READ",
        9 => "SAMPLE",
        10 => "MMAP2",
        11 => "AUX",
        12 => "ITRACE_START",
        13 => "LOST_SAMPLES",
        14 => "SWITCH",
        15 => "SWITCH_CPU_WIDE",
        16 => "NAMESPACES",
        17 => "KSYMBOL",
        18 => "BPF_EVENT",
        19 => "CGROUP",
        20 => "TEXT_POKE",
        21 => "AUX_OUTPUT_HW_ID",
        64 => "HEADER_ATTR",
        65 => "EVENT_TYPE",
        66 => "TRACING_DATA",
        67 => "BUILD_ID",
        68 => "FINISHED_ROUND",
        69 => "ID_INDEX",
        70 => "AUXTRACE_INFO",
        71 => "AUXTRACE",
        72 => "AUXTRACE_ERROR",
        73 => "THREAD_MAP",
        74 => "CPU_MAP",
        75 => "STAT_CONFIG",
        76 => "STAT",
        77 => "STAT_ROUND",
        78 => "EVENT_UPDATE",
        79 => "TIME_CONV",
        80 => "FEATURE",
        81 => "COMPRESSED",
        82 => "FINISHED_INIT",
        83 => "COMPRESSED2",
        _ => return format!("PERF_RECORD_{kind}"),
    };
    format!("PERF_RECORD_{name}")
}

/// The record at a position; `None` if none fits there.
#[inline]
pub fn at(data: &[u8], position: usize) -> Option<Record<'_>> {
    let head = u64_at(data, position)?;
    let (kind, misc, size) = (head as u32, (head >> 32) as u16, (head >> 48) as usize);
    let bytes = data.get(position..position.checked_add(size)?)?;
    if size < HEADER_SIZE {
        return None;
    }
    let length = if kind < USER_TYPE_START { size } else { with_payload(data, position, bytes)? };
    Some(Record { kind, misc, bytes, length })
}

/// Size of a record written by the recorder, with its payload.
#[inline(never)]
fn with_payload(data: &[u8], position: usize, bytes: &[u8]) -> Option<usize> {
    let payload = payload(u32_at(bytes, 0)?, bytes)?;
    let length = bytes.len().checked_add(payload)?;
    data.get(position..position.checked_add(length)?)?;
    Some(length)
}

/// Whether a record kind is valid.
#[inline]
pub(crate) fn is_known(kind: u32) -> bool {
    (1..=LAST_KERNEL_TYPE).contains(&kind) || (USER_TYPE_START..=LAST_USER_TYPE).contains(&kind)
}

/// Whether a record is longer than any of its kind: its size is damaged, and hides other records.
#[inline]
pub(crate) fn is_too_long(kind: u32, size: usize) -> bool {
    size > LONGEST_FIXED
        && matches!(kind, LOST | EXIT | FORK | LOST_SAMPLES | SWITCH | SWITCH_CPU_WIDE)
}

/// Size of the payload after a record, which its size does not include.
fn payload(kind: u32, bytes: &[u8]) -> Option<usize> {
    match kind {
        HEADER_TRACING_DATA => Some((u32_at(bytes, 8)? as usize).next_multiple_of(8)),
        AUXTRACE => usize::try_from(u64_at(bytes, 8)?).ok(),
        _ => Some(0),
    }
}

/// Where reading can continue after an invalid record; the end of the data if nowhere.
///
/// `plausible` checks more of a record than its header.
pub(crate) fn resume(
    data: &[u8],
    damaged: usize,
    plausible: impl Fn(&Record<'_>) -> bool,
) -> usize {
    let believable = |position: usize| {
        let kind = u32_at(data, position)?;
        let known = is_known(kind);
        let size = u16_at(data, position + 6)?;
        let aligned = kind >= USER_TYPE_START || size % 8 == 0;
        let fits = known && aligned && !is_too_long(kind, usize::from(size));
        let record = fits.then(|| at(data, position)).flatten()?;
        plausible(&record).then_some(record.length)
    };
    // The kernel writes multiples of eight bytes, perf in pipe mode also multiples of four.
    let mut start = damaged.saturating_add(4);
    while start < data.len() {
        let mut position = start;
        let mut seen = 0;
        while seen < BELIEVABLE_RECORDS && position < data.len() {
            let Some(length) = believable(position) else { break };
            position += length;
            seen += 1;
        }
        if seen == BELIEVABLE_RECORDS || (seen > 0 && position == data.len()) {
            return start;
        }
        start += 4;
    }
    data.len()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn record(kind: u32, size: u16) -> Vec<u8> {
        let mut bytes = kind.to_le_bytes().to_vec();
        bytes.extend([0, 0]);
        bytes.extend(size.to_le_bytes());
        bytes.resize(usize::from(size).max(8), 0);
        bytes
    }

    #[test]
    fn thread_map_of_all_threads_names_none() {
        for (tid, named) in [(u64::MAX, false), (23_251, true)] {
            let mut bytes = vec![0; 16];
            bytes.extend(tid.to_le_bytes());
            bytes.resize(40, 0);
            let map = Record { kind: THREAD_MAP, misc: 0, bytes: &bytes, length: 40 };
            assert_eq!(names_threads(&map), Some(named));
            assert_eq!(names_threads(&Record { bytes: &bytes[..16], ..map }), None);
        }
    }

    #[test]
    fn records_with_a_payload_are_longer_than_their_size() {
        let mut bytes = record(HEADER_TRACING_DATA, 16);
        bytes[8] = 3;
        assert!(at(&bytes, 0).is_none());
        bytes.extend([0; 8]);
        assert_eq!(at(&bytes, 0).map(|found| found.length), Some(24));
        let mut huge = record(AUXTRACE, 48);
        huge[8..16].copy_from_slice(&u64::MAX.to_le_bytes());
        assert!(at(&huge, 0).is_none());
    }

    #[test]
    fn reading_continues_after_damage_at_plausible_records() {
        let mut data = record(SAMPLE, 40);
        data.extend([0xff; 64]);
        for _ in 0..4 {
            data.extend(record(SAMPLE, 24));
        }
        assert!(at(&data, 40).is_none());
        assert_eq!(resume(&data, 40, |_| true), 104);
        assert_eq!(resume(&data, 40, |_| false), data.len());
    }
}
