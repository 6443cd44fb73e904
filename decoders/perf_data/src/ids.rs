//! The event of a record, found by the ids in the records.

use std::collections::HashMap;

use schedlens_input::bytes::{u16_at, u32_at, u64_at};

use crate::attrs::{Attr, SAMPLE_IDENTIFIER, SampleLayout, TYPE_TRACEPOINT, TrailerLayout};
use crate::error::Error;
use crate::record::{HEADER_SIZE, SAMPLE, SWITCH, SWITCH_CPU_WIDE, is_too_long};

/// Event ids count up from 1 on each machine, so a table of them is short.
const DENSE_IDS: u64 = 1 << 20;
const NO_EVENT: u16 = u16::MAX;

/// Offsets of id, time and CPU in samples, if all events share them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct CommonLayout {
    /// `None` if there is only one event.
    pub(crate) id: Option<usize>,
    pub(crate) time: usize,
    pub(crate) cpu: usize,
}

/// The fields common to the samples of all events.
#[derive(Clone, Copy, Debug)]
pub(crate) struct CommonPart {
    pub(crate) id: Option<u64>,
    pub(crate) ts: u64,
    pub(crate) cpu: i32,
    /// Size of the record.
    pub(crate) length: usize,
}

impl CommonLayout {
    /// The sample at a position; `None` if the record is not a sample or does not fit.
    #[inline(always)]
    pub(crate) fn sample(&self, data: &[u8], position: usize) -> Option<CommonPart> {
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

/// Offsets of time and CPU in the `sample_id` at the end of records other than samples, if all
/// events share them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct CommonTail {
    size: usize,
    time: usize,
    cpu: usize,
}

impl CommonTail {
    fn of(trailer: &TrailerLayout) -> Option<Self> {
        Some(Self { size: trailer.size, time: trailer.time?, cpu: trailer.cpu? })
    }

    /// Time and CPU of a record other than a sample.
    #[inline(always)]
    pub(crate) fn place(&self, record: &[u8]) -> Option<(u64, i32)> {
        let start = record.len().checked_sub(self.size).filter(|start| *start >= HEADER_SIZE)?;
        let cpu = u32_at(record, start + self.cpu)?.cast_signed();
        Some((u64_at(record, start + self.time)?, cpu))
    }

    /// Time, CPU and length of the `SWITCH` record at a position; `None` if there is none, or if it
    /// does not fit.
    #[inline(always)]
    pub(crate) fn switch(&self, data: &[u8], position: usize) -> Option<(u32, CommonPart)> {
        let head = u64_at(data, position)?;
        let (kind, length) = (head as u32, (head >> 48) as usize);
        let is_switch = matches!(kind, SWITCH | SWITCH_CPU_WIDE);
        if !is_switch || !length.is_multiple_of(8) || is_too_long(kind, length) {
            return None;
        }
        let (ts, cpu) = self.place(data.get(position..position.checked_add(length)?)?)?;
        Some((kind, CommonPart { id: None, ts, cpu, length }))
    }
}

/// All events of a recording, found by the ids in its records.
#[derive(Debug, Default)]
pub struct Events {
    /// The events, by number.
    pub attrs: Vec<Attr>,
    pub(crate) common: Option<CommonLayout>,
    pub(crate) tail: Option<CommonTail>,
    dense: Vec<u16>,
    sparse: HashMap<u64, u16>,
    /// All events share one layout of `sample_id`.
    one_trailer: bool,
    identifier: bool,
}

impl Events {
    /// Indexes the ids.
    ///
    /// # Errors
    /// There is no event, or the records of one contain no time.
    pub(crate) fn new(attrs: Vec<Attr>) -> Result<Self, Error> {
        if attrs.is_empty() {
            return Err(Error::NoEvents);
        }
        if let Some(attr) = attrs.iter().find(|attr| attr.sample.time.is_none()) {
            let event = attr.name.clone().unwrap_or_else(|| format!("config {:#x}", attr.config));
            return Err(Error::NoTimes { event });
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
        let first = attrs.first().filter(|_| events.one_trailer);
        events.tail = first.and_then(|attr| CommonTail::of(&attr.trailer));
        events.attrs = attrs;
        Ok(events)
    }

    /// The event with that id.
    #[inline]
    pub fn by_id(&self, id: u64) -> Option<usize> {
        let number = if id < DENSE_IDS {
            self.dense.get(id as usize).copied().unwrap_or(NO_EVENT)
        } else {
            self.sparse.get(&id).copied().unwrap_or(NO_EVENT)
        };
        (number != NO_EVENT).then_some(usize::from(number))
    }

    /// The event of a `PERF_RECORD_SAMPLE`.
    #[inline]
    pub(crate) fn of_sample(&self, record: &[u8]) -> Option<usize> {
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
        // Without ids, a tracepoint's own number identifies it.
        let common_type = u64::from(u16_at(first.parts(record)?.raw, 0)?);
        self.attrs
            .iter()
            .position(|attr| attr.kind == TYPE_TRACEPOINT && attr.config == common_type)
    }

    /// The layout of the `sample_id` at the end of any other record.
    #[inline]
    pub(crate) fn trailer(&self, record: &[u8]) -> Option<&TrailerLayout> {
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
    // A single event needs no id.
    let alone = attrs.len() == 1;
    let mut layouts = attrs.iter().map(|attr| {
        let SampleLayout { id, time, cpu, .. } = attr.sample;
        let id = if alone { None } else { Some(id?) };
        Some(CommonLayout { id, time: time?, cpu: cpu? })
    });
    let first = layouts.next()??;
    layouts.all(|layout| layout == Some(first)).then_some(first)
}
