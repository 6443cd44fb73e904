//! `perf_event_attr`: which events were recorded, and how their records are laid out.

use std::collections::HashMap;

pub(super) use super::bytes::CPU_LIMIT;
use super::bytes::{u32_at, u64_at};
use super::record::SAMPLE;
use crate::error::DecodeError;

/// `PERF_TYPE_TRACEPOINT`.
pub(super) const TYPE_TRACEPOINT: u32 = 2;
/// `PERF_ATTR_SIZE_VER0`.
const SMALLEST_ATTR: usize = 64;
/// Event ids count up from 1 on each machine, so a table of them is short.
const DENSE_IDS: u64 = 1 << 20;
const NO_EVENT: u16 = u16::MAX;

const SAMPLE_IP: u64 = 1;
const SAMPLE_TID: u64 = 1 << 1;
const SAMPLE_TIME: u64 = 1 << 2;
const SAMPLE_ADDR: u64 = 1 << 3;
const SAMPLE_READ: u64 = 1 << 4;
const SAMPLE_CALLCHAIN: u64 = 1 << 5;
const SAMPLE_ID: u64 = 1 << 6;
const SAMPLE_CPU: u64 = 1 << 7;
const SAMPLE_PERIOD: u64 = 1 << 8;
const SAMPLE_STREAM_ID: u64 = 1 << 9;
const SAMPLE_RAW: u64 = 1 << 10;
const SAMPLE_IDENTIFIER: u64 = 1 << 16;

const FORMAT_TOTAL_TIME_ENABLED: u64 = 1;
const FORMAT_TOTAL_TIME_RUNNING: u64 = 1 << 1;
const FORMAT_ID: u64 = 1 << 2;
const FORMAT_GROUP: u64 = 1 << 3;
const FORMAT_LOST: u64 = 1 << 4;

const FLAG_SAMPLE_ID_ALL: u64 = 1 << 18;
const FLAG_USE_CLOCKID: u64 = 1 << 25;
const FLAG_CONTEXT_SWITCH: u64 = 1 << 26;

/// Where the fields of a `PERF_RECORD_SAMPLE` lie, from the begin of the record.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct SampleLayout {
    pub(super) id: Option<usize>,
    pub(super) tid: Option<usize>,
    pub(super) time: Option<usize>,
    pub(super) cpu: Option<usize>,
    /// Begin of the fields of varying length.
    pub(super) varying: usize,
}

/// Where the fields of a `sample_id` lie, from its begin.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct TrailerLayout {
    pub(super) tid: Option<usize>,
    pub(super) time: Option<usize>,
    pub(super) cpu: Option<usize>,
    pub(super) size: usize,
}

/// One event as it was opened.
#[derive(Clone, Debug, Default)]
pub(super) struct Attr {
    pub(super) kind: u32,
    pub(super) config: u64,
    pub(super) sample_type: u64,
    pub(super) read_format: u64,
    pub(super) flags: u64,
    pub(super) clockid: i32,
    pub(super) ids: Vec<u64>,
    pub(super) name: Option<String>,
    pub(super) sample: SampleLayout,
    pub(super) trailer: TrailerLayout,
}

impl Attr {
    /// Reads the parts that all versions of the structure have, and the clock where it is there.
    pub(super) fn read(bytes: &[u8]) -> Result<Self, DecodeError> {
        let size = DecodeError::Size {
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
            sample_type: word(24),
            read_format: word(32),
            flags: word(40),
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
        field(SAMPLE_PERIOD);
        layout.id = identifier.or(id);
        layout.varying = at;
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

    /// Records of `--switch-events` were asked for.
    pub(super) fn has_switch_events(&self) -> bool {
        self.flags & FLAG_CONTEXT_SWITCH != 0
    }

    /// Records carry the CPU they were written on.
    pub(super) fn has_cpu(&self) -> bool {
        self.sample_type & SAMPLE_CPU != 0
    }

    /// The clock asked for with `-k`; `None`: perf's own.
    pub(super) fn clock(&self) -> Option<i32> {
        (self.flags & FLAG_USE_CLOCKID != 0).then_some(self.clockid)
    }

    /// Begin and end of the counter values (`PERF_SAMPLE_READ`) in a sample, and of its raw data.
    ///
    /// `None` where the lengths in the record do not fit into it.
    #[inline(always)]
    pub(super) fn parts<'a>(&self, record: &'a [u8]) -> Option<SampleParts<'a>> {
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

    fn read_size(&self, record: &[u8], at: usize) -> Option<usize> {
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
    pub(super) fn values<'a>(&self, read: &'a [u8]) -> Values<'a> {
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

/// The parts of a sample whose place varies.
#[derive(Clone, Copy)]
pub(super) struct SampleParts<'a> {
    pub(super) read: &'a [u8],
    pub(super) raw: &'a [u8],
}

/// Pairs of (event id, value) of a counter group.
pub(super) struct Values<'a> {
    rest: &'a [u8],
    each: usize,
    has_id: bool,
    /// Counted only part of the time: time enabled and time running differ.
    pub(super) shared: bool,
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

/// Where the samples of all events carry id, time and CPU, if at one place each.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct CommonLayout {
    /// `None`: there is one event only.
    pub(super) id: Option<usize>,
    pub(super) time: usize,
    pub(super) cpu: usize,
}

/// What the samples of all events say at the same places.
#[derive(Clone, Copy, Debug)]
pub(super) struct CommonPart {
    pub(super) id: Option<u64>,
    pub(super) ts: u64,
    pub(super) cpu: i32,
    /// Bytes of the record.
    pub(super) length: usize,
}

impl CommonLayout {
    /// The sample at a position; `None` if there is another record, or none that fits.
    #[inline(always)]
    pub(super) fn sample(&self, data: &[u8], position: usize) -> Option<CommonPart> {
        let head = u64_at(data, position)?;
        let length = (head >> 48) as usize;
        if head as u32 != SAMPLE || !length.is_multiple_of(8) {
            return None;
        }
        let bytes = data.get(position..position.checked_add(length)?)?;
        let id = match self.id {
            Some(at) => Some(u64_at(bytes, at)?),
            None => None,
        };
        let cpu = u32_at(bytes, self.cpu)?.cast_signed();
        Some(CommonPart { id, ts: u64_at(bytes, self.time)?, cpu, length })
    }
}

/// All events of a recording, found by the ids in its records.
#[derive(Debug, Default)]
pub(super) struct Events {
    pub(super) attrs: Vec<Attr>,
    pub(super) common: Option<CommonLayout>,
    dense: Vec<u16>,
    sparse: HashMap<u64, u16>,
    /// One layout of `sample_id` for all events.
    one_trailer: bool,
    identifier: bool,
}

impl Events {
    /// Indexes the ids.
    ///
    /// # Errors
    /// No event at all, or one whose records carry no time.
    pub(super) fn new(attrs: Vec<Attr>) -> Result<Self, DecodeError> {
        if attrs.is_empty() {
            return Err(DecodeError::NoEvents);
        }
        if let Some(attr) = attrs.iter().find(|attr| attr.sample.time.is_none()) {
            let event = attr.name.clone().unwrap_or_else(|| format!("config {:#x}", attr.config));
            return Err(DecodeError::NoTimes { event });
        }
        let mut events = Self {
            one_trailer: attrs.windows(2).all(|pair| match pair {
                [one, other] => one.trailer == other.trailer,
                _ => true,
            }),
            identifier: attrs.iter().all(|attr| attr.sample_type & SAMPLE_IDENTIFIER != 0),
            ..Self::default()
        };
        for (number, attr) in attrs.iter().enumerate().take(usize::from(NO_EVENT)) {
            for id in &attr.ids {
                if *id < DENSE_IDS {
                    let at = *id as usize;
                    if events.dense.len() <= at {
                        events.dense.resize(at + 1, NO_EVENT);
                    }
                    events.dense[at] = number as u16;
                } else {
                    events.sparse.insert(*id, number as u16);
                }
            }
        }
        events.common = common_layout(&attrs);
        events.attrs = attrs;
        Ok(events)
    }

    /// The event with that id.
    #[inline]
    pub(super) fn by_id(&self, id: u64) -> Option<usize> {
        let number = if id < DENSE_IDS {
            self.dense.get(id as usize).copied().unwrap_or(NO_EVENT)
        } else {
            self.sparse.get(&id).copied().unwrap_or(NO_EVENT)
        };
        (number != NO_EVENT).then_some(usize::from(number))
    }

    /// The event of a `PERF_RECORD_SAMPLE`.
    #[inline]
    pub(super) fn of_sample(&self, record: &[u8]) -> Option<usize> {
        if self.attrs.len() == 1 {
            return Some(0);
        }
        let first = self.attrs.first()?;
        if let Some(at) = first.sample.id
            && let Some(found) = self.by_id(u64_at(record, at)?)
        {
            return Some(found);
        }
        if first.sample.id.is_some() {
            return None;
        }
        // Without ids, a tracepoint's own number tells which one it is.
        let common_type = u64::from(super::bytes::u16_at(first.parts(record)?.raw, 0)?);
        self.attrs
            .iter()
            .position(|attr| attr.kind == TYPE_TRACEPOINT && attr.config == common_type)
    }

    /// The layout of the `sample_id` at the end of any other record.
    #[inline]
    pub(super) fn trailer(&self, record: &[u8]) -> Option<&TrailerLayout> {
        if !self.one_trailer && self.identifier {
            let id = u64_at(record, record.len().checked_sub(8)?)?;
            if let Some(event) = self.by_id(id) {
                return self.attrs.get(event).map(|attr| &attr.trailer);
            }
        }
        self.attrs.first().map(|attr| &attr.trailer)
    }
}

fn common_layout(attrs: &[Attr]) -> Option<CommonLayout> {
    // One event alone is known without its id.
    let alone = attrs.len() == 1;
    let mut layouts = attrs.iter().map(|attr| {
        let SampleLayout { id, time, cpu, .. } = attr.sample;
        let id = if alone { None } else { Some(id?) };
        Some(CommonLayout { id, time: time?, cpu: cpu? })
    });
    let first = layouts.next()??;
    layouts.all(|layout| layout == Some(first)).then_some(first)
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
