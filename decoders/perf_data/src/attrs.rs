//! `perf_event_attr`: which events were recorded, and the layout of their records.

use schedlens_input::bytes::{u32_at, u64_at};

use crate::error::Error;

/// `PERF_TYPE_TRACEPOINT`.
pub const TYPE_TRACEPOINT: u32 = 2;
/// `PERF_ATTR_SIZE_VER0`.
const SMALLEST_ATTR: usize = 64;

const SAMPLE_IP: u64 = 1;
const SAMPLE_TID: u64 = 1 << 1;
const SAMPLE_TIME: u64 = 1 << 2;
const SAMPLE_ADDR: u64 = 1 << 3;
pub(crate) const SAMPLE_READ: u64 = 1 << 4;
pub(crate) const SAMPLE_CALLCHAIN: u64 = 1 << 5;
const SAMPLE_ID: u64 = 1 << 6;
const SAMPLE_CPU: u64 = 1 << 7;
const SAMPLE_PERIOD: u64 = 1 << 8;
const SAMPLE_STREAM_ID: u64 = 1 << 9;
pub(crate) const SAMPLE_RAW: u64 = 1 << 10;
pub(crate) const SAMPLE_IDENTIFIER: u64 = 1 << 16;
const SAMPLE_AUX: u64 = 1 << 20;
const SAMPLE_CGROUP: u64 = 1 << 21;
const SAMPLE_DATA_PAGE_SIZE: u64 = 1 << 22;
const SAMPLE_CODE_PAGE_SIZE: u64 = 1 << 23;

const FORMAT_TOTAL_TIME_ENABLED: u64 = 1;
const FORMAT_TOTAL_TIME_RUNNING: u64 = 1 << 1;
const FORMAT_ID: u64 = 1 << 2;
const FORMAT_GROUP: u64 = 1 << 3;
const FORMAT_LOST: u64 = 1 << 4;

const FLAG_FREQ: u64 = 1 << 10;
const FLAG_ENABLE_ON_EXEC: u64 = 1 << 12;
const FLAG_SAMPLE_ID_ALL: u64 = 1 << 18;
const FLAG_USE_CLOCKID: u64 = 1 << 25;
const FLAG_CONTEXT_SWITCH: u64 = 1 << 26;
const FLAG_WRITE_BACKWARD: u64 = 1 << 27;

/// Offsets of the fields of a `PERF_RECORD_SAMPLE` from the start of the record.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct SampleLayout {
    /// `PERF_SAMPLE_IDENTIFIER`, else `PERF_SAMPLE_ID`.
    pub id: Option<usize>,
    /// `PERF_SAMPLE_TID`: process, then thread.
    pub tid: Option<usize>,
    /// `PERF_SAMPLE_TIME`
    pub time: Option<usize>,
    /// `PERF_SAMPLE_CPU`
    pub cpu: Option<usize>,
    /// `PERF_SAMPLE_PERIOD`
    pub period: Option<usize>,
    /// Start of the variable-length fields.
    pub varying: usize,
    /// `PERF_SAMPLE_CGROUP`, from the end of the record. It follows fields of variable length, and
    /// only those of fixed length follow it.
    pub cgroup_from_end: Option<usize>,
}

/// Offsets of the fields of a `sample_id` from its start.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct TrailerLayout {
    /// `PERF_SAMPLE_TID`: process, then thread.
    pub tid: Option<usize>,
    /// `PERF_SAMPLE_TIME`
    pub time: Option<usize>,
    /// `PERF_SAMPLE_CPU`
    pub cpu: Option<usize>,
    /// Size of all fields.
    pub size: usize,
}

/// One event as it was opened.
#[derive(Clone, Debug, Default)]
pub struct Attr {
    /// `perf_event_attr.type`
    pub kind: u32,
    /// `perf_event_attr.config`: for a tracepoint its id.
    pub config: u64,
    /// `perf_event_attr.sample_period`, or the frequency.
    pub sample_period: u64,
    /// `perf_event_attr.sample_type`
    pub sample_type: u64,
    /// `perf_event_attr.read_format`
    pub read_format: u64,
    /// The bit field of `perf_event_attr`.
    pub flags: u64,
    /// `perf_event_attr.clockid`
    pub clockid: i32,
    /// `perf_event_attr.branch_sample_type`
    pub branch_type: u64,
    /// `perf_event_attr.sample_regs_user`
    pub regs_user: u64,
    /// Ids that records use for the event.
    pub ids: Vec<u64>,
    /// Name, if the file contains one.
    pub name: Option<String>,
    /// Field offsets in a sample.
    pub sample: SampleLayout,
    /// Field offsets in any other record.
    pub trailer: TrailerLayout,
}

impl Attr {
    /// Reads the parts common to all versions of the structure, and the clock if present.
    pub(crate) fn read(bytes: &[u8]) -> Result<Self, Error> {
        let size = Error::Size {
            what: "perf_event_attr",
            found: bytes.len() as u64,
            least: SMALLEST_ATTR as u64,
        };
        if bytes.len() < SMALLEST_ATTR {
            return Err(size);
        }
        let word = |at| u64_at(bytes, at).unwrap_or_default();
        let mut attr = Self {
            kind: u32_at(bytes, 0).unwrap_or_default(),
            config: word(8),
            sample_period: word(16),
            sample_type: word(24),
            read_format: word(32),
            flags: word(40),
            branch_type: word(72),
            regs_user: word(80),
            clockid: u32_at(bytes, 92).unwrap_or_default().cast_signed(),
            ..Self::default()
        };
        attr.sample = attr.sample_layout();
        if attr.flags & FLAG_SAMPLE_ID_ALL != 0 {
            attr.trailer = attr.trailer_layout();
        }
        Ok(attr)
    }

    fn sample_layout(&self) -> SampleLayout {
        let mut layout = SampleLayout::default();
        let mut at = 8;
        let mut field = |bit: u64| {
            let here = (self.sample_type & bit != 0).then_some(at);
            at += if here.is_some() { 8 } else { 0 };
            here
        };
        let identifier = field(SAMPLE_IDENTIFIER);
        field(SAMPLE_IP);
        layout.tid = field(SAMPLE_TID);
        layout.time = field(SAMPLE_TIME);
        field(SAMPLE_ADDR);
        let id = field(SAMPLE_ID);
        field(SAMPLE_STREAM_ID);
        layout.cpu = field(SAMPLE_CPU);
        layout.period = field(SAMPLE_PERIOD);
        layout.id = identifier.or(id);
        layout.varying = at;
        let has = |bit: u64| usize::from(self.sample_type & bit != 0);
        let behind = has(SAMPLE_DATA_PAGE_SIZE) + has(SAMPLE_CODE_PAGE_SIZE);
        let known = has(SAMPLE_CGROUP) == 1 && has(SAMPLE_AUX) == 0;
        layout.cgroup_from_end = known.then_some(8 * (1 + behind));
        layout
    }

    fn trailer_layout(&self) -> TrailerLayout {
        let mut layout = TrailerLayout::default();
        let mut at = 0;
        let mut field = |bit: u64| {
            let here = (self.sample_type & bit != 0).then_some(at);
            at += if here.is_some() { 8 } else { 0 };
            here
        };
        layout.tid = field(SAMPLE_TID);
        layout.time = field(SAMPLE_TIME);
        field(SAMPLE_ID);
        field(SAMPLE_STREAM_ID);
        layout.cpu = field(SAMPLE_CPU);
        field(SAMPLE_IDENTIFIER);
        layout.size = at;
        layout
    }

    /// A tracepoint of which most records are left out (`perf record -F`). With a fixed period, the
    /// kernel writes all of them if they contain the period.
    pub fn is_sampled_tracepoint(&self) -> bool {
        let by_count = self.sample_period > 1 && self.sample_type & SAMPLE_PERIOD == 0;
        self.kind == TYPE_TRACEPOINT && (self.flags & FLAG_FREQ != 0 || by_count)
    }

    /// It counts from the moment at which the program to record starts.
    pub fn is_enabled_on_exec(&self) -> bool {
        self.flags & FLAG_ENABLE_ON_EXEC != 0
    }

    /// Records of `--switch-events` were requested.
    pub fn has_switch_events(&self) -> bool {
        self.flags & FLAG_CONTEXT_SWITCH != 0
    }

    /// Its buffers overwrite their oldest records, and contain the newest first.
    pub fn is_backward(&self) -> bool {
        self.flags & FLAG_WRITE_BACKWARD != 0
    }

    /// Records contain the CPU that wrote them.
    pub fn has_cpu(&self) -> bool {
        self.sample_type & SAMPLE_CPU != 0
    }

    /// The clock requested with `-k`; `None`: perf's own.
    pub fn clock(&self) -> Option<i32> {
        (self.flags & FLAG_USE_CLOCKID != 0).then_some(self.clockid)
    }

    /// Id of the cgroup of the thread in which a sample was taken.
    #[inline]
    pub fn cgroup(&self, record: &[u8]) -> Option<u64> {
        u64_at(record, record.len().checked_sub(self.sample.cgroup_from_end?)?)
    }

    /// The counter values (`PERF_SAMPLE_READ`) in a sample, and its raw data.
    ///
    /// `None` if the lengths in the record exceed it.
    #[inline(always)]
    pub fn parts<'a>(&self, record: &'a [u8]) -> Option<SampleParts<'a>> {
        let mut at = self.sample.varying;
        let mut read: &[u8] = &[];
        if self.sample_type & (SAMPLE_READ | SAMPLE_CALLCHAIN) != 0 {
            if self.sample_type & SAMPLE_READ != 0 {
                let size = self.read_size(record, at)?;
                read = record.get(at..at.checked_add(size)?)?;
                at += size;
            }
            if self.sample_type & SAMPLE_CALLCHAIN != 0 {
                let frames = usize::try_from(u64_at(record, at)?).ok()?;
                at = at.checked_add(8)?.checked_add(frames.checked_mul(8)?)?;
            }
        }
        let raw = if self.sample_type & SAMPLE_RAW != 0 {
            let size = u32_at(record, at)? as usize;
            record.get(at + 4..(at + 4).checked_add(size)?)?
        } else {
            &[]
        };
        Some(SampleParts { read, raw })
    }

    /// Where the callchain ends, whether there is one or not.
    pub(crate) fn end_of_callchain(&self, record: &[u8]) -> Option<usize> {
        let mut at = self.sample.varying;
        if self.sample_type & SAMPLE_READ != 0 {
            at = at.checked_add(self.read_size(record, at)?)?;
        }
        if self.sample_type & SAMPLE_CALLCHAIN != 0 {
            let frames = usize::try_from(u64_at(record, at)?).ok()?;
            at = at.checked_add(8)?.checked_add(frames.checked_mul(8)?)?;
        }
        Some(at)
    }

    /// Samples contain callchains.
    #[inline(always)]
    pub fn has_callchain(&self) -> bool {
        self.sample_type & SAMPLE_CALLCHAIN != 0
    }

    /// Number of events that a sample stands for, if recorded.
    pub fn period(&self, record: &[u8]) -> Option<u64> {
        u64_at(record, self.sample.period?)
    }

    pub(crate) fn read_size(&self, record: &[u8], at: usize) -> Option<usize> {
        let has = |bit: u64| usize::from(self.read_format & bit != 0);
        let times = has(FORMAT_TOTAL_TIME_ENABLED) + has(FORMAT_TOTAL_TIME_RUNNING);
        let each = 1 + has(FORMAT_ID) + has(FORMAT_LOST);
        let words = if self.read_format & FORMAT_GROUP != 0 {
            let members = usize::try_from(u64_at(record, at)?).ok()?;
            (1 + times).checked_add(members.checked_mul(each)?)?
        } else {
            each + times
        };
        words.checked_mul(8)
    }

    /// The counter values of a sample.
    pub fn values<'a>(&self, read: &'a [u8]) -> Values<'a> {
        let has = |bit: u64| usize::from(self.read_format & bit != 0);
        let times = has(FORMAT_TOTAL_TIME_ENABLED) + has(FORMAT_TOTAL_TIME_RUNNING);
        let group = self.read_format & FORMAT_GROUP != 0;
        let times_at = if group { 8 } else { 8 * usize::from(!group) };
        let both = times == 2;
        let shared = both && u64_at(read, times_at) != u64_at(read, times_at + 8);
        let has_id = has(FORMAT_ID) == 1;
        if group {
            let each = 8 * (1 + has(FORMAT_ID) + has(FORMAT_LOST));
            Values { rest: read.get(8 * (1 + times)..).unwrap_or_default(), each, has_id, shared }
        } else {
            // value, times, id, lost: a reader of groups finds nothing here
            Values { rest: &[], each: 8, has_id, shared }
        }
    }
}

/// The variable parts of a sample.
#[derive(Clone, Copy)]
pub struct SampleParts<'a> {
    /// Counter values: `PERF_SAMPLE_READ`.
    pub read: &'a [u8],
    /// Raw data of the tracepoint: `PERF_SAMPLE_RAW`.
    pub raw: &'a [u8],
}

/// Pairs of (event id, value) of a counter group.
pub struct Values<'a> {
    rest: &'a [u8],
    each: usize,
    has_id: bool,
    /// Counted only part of the time: time enabled and time running differ.
    pub shared: bool,
}

impl Iterator for Values<'_> {
    type Item = (Option<u64>, u64);

    fn next(&mut self) -> Option<Self::Item> {
        let value = u64_at(self.rest, 0)?;
        let id = if self.has_id { Some(u64_at(self.rest, 8)?) } else { None };
        self.rest = self.rest.get(self.each..).unwrap_or_default();
        Some((id, value))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn attr(sample_type: u64, read_format: u64) -> Attr {
        let mut bytes = vec![0_u8; 128];
        bytes[24..32].copy_from_slice(&sample_type.to_le_bytes());
        bytes[32..40].copy_from_slice(&read_format.to_le_bytes());
        bytes[40..48].copy_from_slice(&FLAG_SAMPLE_ID_ALL.to_le_bytes());
        Attr::read(&bytes).expect("read")
    }

    #[test]
    fn tracepoints_are_sampled_at_a_frequency_or_by_a_period_that_is_not_recorded() {
        let sampled = |flags, sample_period, sample_type| {
            Attr { kind: TYPE_TRACEPOINT, flags, sample_period, sample_type, ..Attr::default() }
                .is_sampled_tracepoint()
        };
        assert!(sampled(FLAG_FREQ, 99, SAMPLE_RAW | SAMPLE_PERIOD));
        assert!(sampled(0, 10, SAMPLE_RAW));
        assert!(!sampled(0, 10, SAMPLE_RAW | SAMPLE_PERIOD));
        assert!(!sampled(0, 1, SAMPLE_RAW));
        assert!(!sampled(0, 0, SAMPLE_RAW));
        let clock = Attr { kind: 1, flags: FLAG_FREQ, sample_period: 99, ..Attr::default() };
        assert!(!clock.is_sampled_tracepoint());
    }

    // 64 bytes in the first version; perf 5 writes 112 and 120, perf 6 128 and 136, perf 7 at least 136.
    #[test]
    fn attributes_of_every_version_of_perf_are_read() {
        let mut bytes = [0; 160];
        bytes[..4].copy_from_slice(&TYPE_TRACEPOINT.to_le_bytes());
        bytes[8..16].copy_from_slice(&316_u64.to_le_bytes());
        bytes[24..32].copy_from_slice(&(SAMPLE_TID | SAMPLE_TIME | SAMPLE_RAW).to_le_bytes());
        bytes[92..96].copy_from_slice(&1_i32.to_le_bytes());
        for size in [64, 72, 80, 96, 104, 112, 120, 128, 136, 144, 160] {
            let attr = Attr::read(&bytes[..size]).expect("read");
            assert_eq!((attr.kind, attr.config), (TYPE_TRACEPOINT, 316), "{size}");
            assert_eq!(attr.sample.time, Some(16), "{size}");
            assert_eq!(attr.clockid, i32::from(size >= 96), "{size}");
        }
    }

    #[test]
    fn the_layout_follows_the_sample_type() {
        // IDENTIFIER, IP, TID, TIME, CPU, PERIOD, RAW: what perf writes for tracepoints with -a
        let layout = attr(0x10000 | 1 | 2 | 4 | 0x80 | 0x100 | 0x400, 0).sample;
        assert_eq!(layout.id, Some(8));
        assert_eq!(layout.tid, Some(24));
        assert_eq!(layout.time, Some(32));
        assert_eq!(layout.cpu, Some(40));
        assert_eq!(layout.varying, 56);
        // IP, TID, TIME, CPU, PERIOD, RAW: one tracepoint without -a
        let layout = attr(1 | 2 | 4 | 0x80 | 0x100 | 0x400, 0).sample;
        assert_eq!((layout.id, layout.time, layout.cpu), (None, Some(24), Some(32)));
    }

    #[test]
    fn grouped_counter_values_are_read_in_every_read_format() {
        let words =
            |list: &[u64]| -> Vec<u8> { list.iter().flat_map(|w| w.to_le_bytes()).collect() };
        for (format, read, shared) in [
            (FORMAT_GROUP | FORMAT_ID, words(&[2, 10, 7, 20, 8]), false),
            (FORMAT_GROUP | FORMAT_ID | FORMAT_LOST, words(&[2, 10, 7, 0, 20, 8, 0]), false),
            (FORMAT_GROUP | FORMAT_ID | 3, words(&[2, 100, 90, 10, 7, 20, 8]), true),
            (FORMAT_GROUP | FORMAT_ID | 3, words(&[2, 90, 90, 10, 7, 20, 8]), false),
        ] {
            let attr = attr(SAMPLE_READ | SAMPLE_RAW | SAMPLE_TIME, format);
            let mut record = vec![0_u8; 16];
            record.extend(&read);
            record.extend([2, 0, 0, 0, 0xaa, 0xbb]);
            let parts = attr.parts(&record).expect("fits");
            assert_eq!(parts.raw, [0xaa, 0xbb]);
            let values = attr.values(parts.read);
            assert_eq!(values.shared, shared);
            assert_eq!(values.collect::<Vec<_>>(), [(Some(7), 10), (Some(8), 20)]);
        }
    }

    #[test]
    fn lengths_that_do_not_fit_are_refused() {
        let attr = attr(SAMPLE_READ | SAMPLE_CALLCHAIN | SAMPLE_RAW, FORMAT_GROUP);
        let mut record = vec![0_u8; 8];
        record.extend(u64::MAX.to_le_bytes());
        assert!(attr.parts(&record).is_none());
    }
}
