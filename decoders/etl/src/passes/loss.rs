//! Where records are missing, and the evidence for it.

use std::collections::{BTreeMap, HashMap};

use schedlens_input::bytes::{u32_at, u64_at};

use crate::container::header::{LogHeader, mode};
use crate::container::log::{Buffer, LogFile};
use crate::guid::Guid;
use crate::records::head::Head;
use crate::records::{Id, Record};

/// A period in which records are known to be missing; times are raw.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Gap {
    /// Processor; `None` if unknown.
    pub cpu: Option<u16>,
    /// Last record before it; `None` if there is none or it is unknown.
    pub start: Option<i64>,
    /// First record after it; `None` if there is none or it is unknown.
    pub end: Option<i64>,
    /// Number of lost records, if known.
    pub events: Option<i64>,
    /// The evidence, as in `loss.signalled_by`.
    pub signalled_by: &'static str,
}

impl Gap {
    /// Moves the bounds into the recording, the earlier one first. The record at a bound may have been
    /// skipped since, because its time is impossible; and if the times of neighboring buffers
    /// overlap, records may be missing anywhere in the overlap.
    fn limit(&mut self, (first, last): (i64, i64)) {
        self.start = self.start.filter(|start| *start >= first).map(|start| start.min(last));
        self.end = self.end.filter(|end| *end <= last).map(|end| end.max(first));
        if let (Some(start), Some(end)) = (self.start, self.end)
            && end < start
        {
            (self.start, self.end) = (Some(end), Some(start));
        }
    }
}

/// Value for records overwritten in a ring of buffers, which is not a fault of the recording.
pub(crate) const OVERWRITTEN: &str = "overwritten";
/// Maximum number of processors Windows supports.
const MAX_CPUS: u16 = 2_048;
/// Maximum number of listed gaps; damaged data can produce any number.
const LISTED: usize = 10_000;
/// `PERFINFO_..._LAST_DROPPED_TIMES`, hook 0052.
pub(crate) const LAST_DROPPED: u16 = 0x52;
/// `RTLostEvent`.
const RT_LOST: Guid = Guid::from_text_order(0x6a399ae0_4bc6_4de9_870b_3657f8947e7e);

/// Whether a record without a hook reports lost records.
#[inline]
pub(crate) fn is_sign(head: &Head, records: &[u8], at: usize) -> bool {
    head.guid(records, at) == Some(RT_LOST)
}

/// A damaged part of a buffer, and the times before and after it in that buffer.
#[derive(Clone, Copy, Debug)]
struct Damage {
    file: u16,
    buffer: u32,
    before: Option<i64>,
    after: Option<i64>,
}

/// The evidence of loss from records and damage.
#[derive(Debug, Default)]
pub(crate) struct Signs {
    damage: Vec<Damage>,
    reported: Vec<Gap>,
    left_out: usize,
}

impl Signs {
    /// Bytes between two times of a buffer cannot be read; `None`: from its start or up to its end.
    pub(crate) fn damaged(
        &mut self,
        file: u16,
        buffer: u32,
        before: Option<i64>,
        after: Option<i64>,
    ) {
        if self.damage.len() < LISTED {
            self.damage.push(Damage { file, buffer, before, after });
        } else {
            self.left_out += 1;
        }
    }

    /// A record that reports lost records.
    pub(crate) fn record(&mut self, record: &Record<'_>) {
        let gap = |start, end, signalled_by| Gap {
            cpu: None,
            start,
            end: Some(end),
            events: None,
            signalled_by,
        };
        if self.reported.len() >= LISTED {
            self.left_out += 1;
            return;
        }
        match record.id {
            Id::Hook(_) => {
                let count = u32_at(record.payload, 0).unwrap_or_default() as usize;
                let times = (0..count.min(LISTED)).map_while(|n| u64_at(record.payload, 8 + 8 * n));
                for time in times.map(u64::cast_signed).filter(|time| *time != 0) {
                    self.reported.push(gap(Some(time), time, "last_dropped_times"));
                }
            }
            Id::Classic { opcode, .. } => {
                let word = match opcode {
                    0x20 => "rt_lost_event",
                    0x21 => "rt_lost_buffer",
                    _ => "rt_lost_file",
                };
                self.reported.push(gap(None, record.ts, word));
            }
            _ => {}
        }
    }
}

/// The buffers of a CPU by sequence number, with the times around each.
struct Stream<'a> {
    buffers: Vec<&'a Buffer>,
    /// Latest time before buffer n.
    before: Vec<Option<i64>>,
    /// Earliest time in buffer n or later.
    from: Vec<Option<i64>>,
}

impl<'a> Stream<'a> {
    fn new(mut buffers: Vec<&'a Buffer>) -> Self {
        buffers.sort_by_key(|buffer| (buffer.sequence, buffer.offset));
        let mut before = vec![None; buffers.len() + 1];
        let mut from = before.clone();
        for (at, buffer) in buffers.iter().enumerate() {
            before[at + 1] = before[at].max(buffer.window.map(|(_, last)| last));
        }
        for (at, buffer) in buffers.iter().enumerate().rev() {
            let first = buffer.window.map(|(first, _)| first);
            from[at] = first.into_iter().chain(from[at + 1]).min();
        }
        Self { buffers, before, from }
    }

    /// The gap right before buffer n.
    fn gap(&self, cpu: Option<u16>, at: usize, signalled_by: &'static str) -> Gap {
        Gap { cpu, start: self.before[at], end: self.from[at], events: None, signalled_by }
    }
}

/// All gaps by their end, `known` ones included, and the number of unlisted ones. `window`: the times
/// of the earliest and the latest record.
pub(crate) fn gaps(
    files: &[LogFile],
    signs: &Signs,
    known: Vec<Gap>,
    window: Option<(i64, i64)>,
) -> (Vec<Gap>, usize) {
    let mut gaps = signs.reported.clone();
    gaps.extend(known);
    let mut left_out = signs.left_out;
    for (number, file) in files.iter().enumerate() {
        let damage = signs.damage.iter().filter(|damage| usize::from(damage.file) == number);
        let mut found = file_gaps(file, damage);
        let header = &file.header;
        let lost = i64::from(header.events_lost);
        let explained = found.iter().any(|gap| gap.signalled_by.ends_with("_lost"));
        if !explained && (header.events_lost > 0 || header.buffers_lost > 0) {
            found.push(Gap {
                cpu: None,
                start: None,
                end: None,
                events: (lost > 0).then_some(lost),
                signalled_by: "header",
            });
        }
        let room = LISTED.saturating_sub(gaps.len());
        left_out += found.len().saturating_sub(room);
        found.truncate(room);
        gaps.append(&mut found);
    }
    if let Some(window) = window {
        gaps.iter_mut().for_each(|gap| gap.limit(window));
    }
    gaps.sort_by_key(|gap| (gap.end.unwrap_or(i64::MAX), *gap));
    gaps.dedup();
    (gaps, left_out)
}

fn file_gaps<'d>(file: &LogFile, damage: impl Iterator<Item = &'d Damage>) -> Vec<Gap> {
    let mut by_cpu: BTreeMap<Option<u16>, Vec<&Buffer>> = BTreeMap::new();
    for buffer in file.buffers.iter().filter(|buffer| !buffer.header) {
        by_cpu.entry(buffer.cpu).or_default().push(buffer);
    }
    let streams: BTreeMap<Option<u16>, Stream<'_>> =
        by_cpu.into_iter().map(|(cpu, buffers)| (cpu, Stream::new(buffers))).collect();
    let mut gaps = Vec::new();
    let present = Sequences::of(file);
    let header = &file.header;
    let fewer = present.fewer(file);
    let end = match header.end_time {
        None => Some("not_closed"),
        Some(_) if file.cut_off || fewer => Some("truncated"),
        Some(_) => None,
    };
    let flagged = file.buffers.iter().any(|buffer| buffer.lost.0 || buffer.lost.1);
    let loses = flagged || header.events_lost > 0 || header.buffers_lost > 0;
    for (cpu, stream) in &streams {
        if overwrites(header) && lacks_first(file) {
            gaps.push(stream.gap(*cpu, 0, OVERWRITTEN));
        }
        let mut before = present.first;
        for (at, buffer) in stream.buffers.iter().enumerate() {
            if buffer.lost.0 {
                gaps.push(stream.gap(*cpu, at, "events_lost"));
            }
            if buffer.lost.1 {
                gaps.push(stream.gap(*cpu, at, "buffer_lost"));
            }
            if present.misses(before, buffer.sequence) {
                gaps.push(stream.gap(*cpu, at, "missing_buffer"));
            }
            before = buffer.sequence;
        }
        let count = stream.buffers.len();
        if let Some(word) = end {
            gaps.push(stream.gap(*cpu, count, word));
        } else if present.misses(before, present.last) {
            gaps.push(stream.gap(*cpu, count, "missing_buffer"));
        } else if loses {
            // No later buffer could report losses at the very end of a session.
            gaps.push(stream.gap(*cpu, count, "stream_end"));
        }
    }
    // The missing buffers may belong to a CPU of which none is left.
    if present.misses(present.first, present.last) || fewer {
        let known = |cpu: &u16| streams.contains_key(&Some(*cpu)) || streams.is_empty();
        let processors = u16::try_from(header.num_processors).unwrap_or(u16::MAX).min(MAX_CPUS);
        gaps.extend((0..processors).filter(|cpu| !known(cpu)).map(|cpu| Gap {
            cpu: Some(cpu),
            start: None,
            end: None,
            events: None,
            signalled_by: "missing_buffer",
        }));
    }
    if let Some(word) = end.filter(|_| streams.is_empty()) {
        let (start, end, events) = (None, None, None);
        gaps.push(Gap { cpu: None, start, end, events, signalled_by: word });
    }
    let places: HashMap<u64, (&Stream<'_>, usize)> = streams
        .values()
        .flat_map(|stream| (0..).zip(&stream.buffers).map(move |at| (stream, at)))
        .map(|(stream, (at, buffer))| (buffer.offset, (stream, at)))
        .collect();
    for damage in damage {
        let Some(buffer) = file.buffers.get(damage.buffer as usize) else { continue };
        let Some((stream, at)) = places.get(&buffer.offset).copied() else { continue };
        gaps.push(Gap {
            cpu: buffer.cpu,
            start: damage.before.or(stream.before[at]),
            end: damage.after.or(stream.from[at + 1]),
            events: None,
            signalled_by: "damaged",
        });
    }
    gaps
}

/// Whether a file replaces old buffers with new ones.
fn overwrites(header: &LogHeader) -> bool {
    header.has(mode::CIRCULAR) || header.has(mode::BUFFERING)
}

/// Whether the session filled another file before it continued in this one.
fn continues_another(file: &LogFile) -> bool {
    file.header.has(mode::NEW_FILE) && lacks_first(file)
}

/// Whether the buffers written first are missing from the file.
fn lacks_first(file: &LogFile) -> bool {
    let numbers = file.buffers.iter().filter(|buffer| !buffer.header).map(|buffer| buffer.sequence);
    numbers.min().is_some_and(|first| first > 1)
}

/// The sequence numbers of a file's buffers.
struct Sequences {
    /// Distinct, ascending.
    numbers: Vec<i64>,
    /// The number from which on none may be missing.
    first: i64,
    last: i64,
}

impl Sequences {
    fn of(file: &LogFile) -> Self {
        // The header remains when old buffers are overwritten, and every file starts with it.
        let anywhere = overwrites(&file.header) || continues_another(file);
        let counted = file.buffers.iter().filter(|buffer| !(buffer.header && anywhere));
        let mut numbers: Vec<i64> = counted.map(|buffer| buffer.sequence).collect();
        numbers.sort_unstable();
        numbers.dedup();
        let first = numbers.first().copied().unwrap_or_default();
        let last = numbers.last().copied().unwrap_or_default();
        Self { numbers, first, last }
    }

    /// Whether there are fewer buffers than were written, as far as that is known.
    fn fewer(&self, file: &LogFile) -> bool {
        let written = u64::from(file.header.buffers_written);
        // With several files, the count may be that of each file or of all together.
        let elsewhere = continues_another(file) && written <= self.last.unsigned_abs() + 1;
        (file.buffers.len() as u64) < written && !overwrites(&file.header) && !elsewhere
    }

    /// Whether a number in this range is missing.
    fn misses(&self, from: i64, to: i64) -> bool {
        let place = |number: i64| self.numbers.partition_point(|known| *known < number);
        let there = place(to).saturating_sub(place(from)) as u64;
        to > from && to.abs_diff(from) > there
    }
}
