//! Time and CPU of a record, and ranges of records.

use schedlens_input::bytes::{u32_at, u64_at};
use schedlens_input::files::Segment;

use crate::ids::Events;
use crate::record::{self, Record};

/// The CPU of records that do not contain one.
pub const NO_CPU: i32 = -1;
/// The event of records other than samples.
pub const NO_EVENT: u16 = u16::MAX;

/// A range of records in one segment.
#[derive(Clone, Copy, Debug)]
pub struct Span {
    /// Index of the segment.
    pub segment: u32,
    /// Offset of the first record.
    pub start: u64,
    /// Offset after the last record.
    pub end: u64,
}

/// Time, CPU and event of a record.
#[derive(Clone, Copy, Debug)]
pub struct Placed {
    /// Timestamp.
    pub ts: u64,
    /// Logical CPU, or [`NO_CPU`].
    pub cpu: i32,
    /// For samples: index of the event.
    pub event: u16,
}

/// Time and CPU of a record; `None` if it does not contain them.
#[inline(always)]
pub fn place(events: &Events, record: &Record<'_>) -> Option<Placed> {
    if record.kind == record::SAMPLE
        && let Some(common) = &events.common
    {
        let bytes = record.bytes;
        let event = match common.id {
            Some(at) => events.by_id(u64_at(bytes, at)?)? as u16,
            None => 0,
        };
        let ts = u64_at(bytes, common.time)?;
        return Some(Placed { ts, cpu: u32_at(bytes, common.cpu)?.cast_signed(), event });
    }
    if record.kind != record::SAMPLE
        && let Some(tail) = &events.tail
    {
        let (ts, cpu) = tail.place(record.bytes)?;
        return Some(Placed { ts, cpu, event: NO_EVENT });
    }
    place_by_layout(events, record)
}

#[inline(never)]
fn place_by_layout(events: &Events, record: &Record<'_>) -> Option<Placed> {
    let bytes = record.bytes;
    if record.kind == record::SAMPLE {
        let event = events.of_sample(bytes)?;
        let layout = &events.attrs.get(event)?.sample;
        let ts = u64_at(bytes, layout.time?)?;
        let cpu = match layout.cpu {
            Some(at) => u32_at(bytes, at)?.cast_signed(),
            None => NO_CPU,
        };
        return Some(Placed { ts, cpu, event: event as u16 });
    }
    let trailer = events.trailer(bytes)?;
    let start = bytes.len().checked_sub(trailer.size).filter(|start| *start >= 8)?;
    let ts = u64_at(bytes, start + trailer.time?)?;
    let cpu = match trailer.cpu {
        Some(at) => u32_at(bytes, start + at)?.cast_signed(),
        None => NO_CPU,
    };
    Some(Placed { ts, cpu, event: NO_EVENT })
}

/// Process and thread at the end of a record other than a sample.
pub fn trailer_ids(events: &Events, bytes: &[u8]) -> Option<(i32, i32)> {
    let trailer = events.trailer(bytes)?;
    let at = bytes.len().checked_sub(trailer.size)? + trailer.tid?;
    Some((u32_at(bytes, at)?.cast_signed(), u32_at(bytes, at + 4)?.cast_signed()))
}

/// All records of a span, in file order.
pub fn records<'a>(
    segments: &'a [Segment],
    span: &Span,
) -> impl Iterator<Item = Record<'a>> + use<'a> {
    let data = segments.get(span.segment as usize).map(|s| (**s).as_ref()).unwrap_or_default();
    let data = data.get(..span.end as usize).unwrap_or_default();
    let mut position = span.start as usize;
    std::iter::from_fn(move || {
        let found = record::at(data, position)?;
        position += found.length;
        Some(found)
    })
}
