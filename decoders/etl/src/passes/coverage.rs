//! The part of a recording in which the scheduler was recorded. Sessions that are merged into one file
//! do not start and stop together, and lists of processes and of code are written for seconds after
//! the kernel's session has ended.

use std::cmp::Reverse;

use crate::compression::Unpacker;
use crate::container::buffer::HEADER;
use crate::container::clock::Clock;
use crate::container::log::{Buffer, LogFile};
use crate::passes::loss::Gap;
use crate::passes::walk::Walk;

/// `Thread/CSwitch`
pub(crate) const CSWITCH: u16 = 0x0524;
/// What the kernel writes all the time: switches, ready threads, samples, interrupts and DPCs.
const FREQUENT: [u16; 8] = [CSWITCH, 0x0532, 0x0f2e, 0x0f32, 0x0f42, 0x0f43, 0x0f44, 0x0f45];
/// No system that is recorded goes so long without any of these on any CPU.
const SILENT_NS: i64 = 100_000_000;

/// Gaps of these CPUs where nothing of the scheduler was recorded: before its first and after its
/// last record. `window`: raw times of the earliest and the latest record of any kind.
pub(crate) fn gaps(
    files: &[LogFile],
    clock: &Clock,
    cpus: &[u16],
    (first, last): (i64, i64),
) -> Vec<Gap> {
    let mut buffers: Vec<(&LogFile, usize, &Buffer, (i64, i64))> = files
        .iter()
        .flat_map(|file| {
            file.buffers.iter().enumerate().map(move |(at, buffer)| (file, at, buffer))
        })
        .filter_map(|(file, at, buffer)| Some((file, at, buffer, buffer.window?)))
        .collect();
    let (mut unpacker, mut room) = (Unpacker::default(), Vec::new());
    let mut times = |file: &LogFile, at: usize, buffer: &Buffer| {
        let (records, _) = file.records(buffer, &mut unpacker, &mut room);
        let left_out = file.left_out.get(&(at as u32));
        let mut walk = Walk::new(clock);
        let mut found: Option<(i64, i64)> = None;
        while let Some((at, head)) = walk.next(records, clock, |_, _| {}) {
            let is_frequent = head.hook().is_some_and(|hook| FREQUENT.contains(&hook));
            let place = (at + HEADER) as u32;
            if is_frequent && !left_out.is_some_and(|places| places.contains(&place)) {
                found = Some(found.map_or((head.ts, head.ts), |(first, last)| {
                    (first.min(head.ts), last.max(head.ts))
                }));
            }
        }
        found
    };
    // From the outside inwards, until no other buffer can have an earlier or a later one.
    let mut begin: Option<i64> = None;
    buffers.sort_by_key(|(.., window)| window.0);
    for (file, at, buffer, window) in &buffers {
        if begin.is_some_and(|begin| begin <= window.0) {
            break;
        }
        let found = times(file, *at, buffer).map(|(first, _)| first);
        begin = [begin, found].into_iter().flatten().min();
    }
    let mut end: Option<i64> = None;
    buffers.sort_by_key(|(.., window)| Reverse(window.1));
    for (file, at, buffer, window) in &buffers {
        if end.is_some_and(|end| end >= window.1) {
            break;
        }
        end = end.max(times(file, *at, buffer).map(|(_, last)| last));
    }
    let is_long = |from: i64, to: i64| clock.ns(to).saturating_sub(clock.ns(from)) > SILENT_NS;
    let begin = begin.filter(|begin| is_long(first, *begin));
    let end = end.filter(|end| is_long(*end, last));
    let gap = |cpu: u16, start, end, signalled_by| Gap {
        cpu: Some(cpu),
        start,
        end,
        events: None,
        signalled_by,
    };
    let early = cpus.iter().filter_map(|cpu| Some(gap(*cpu, None, Some(begin?), "stream_start")));
    let late = cpus.iter().filter_map(|cpu| Some(gap(*cpu, Some(end?), None, "stream_end")));
    early.chain(late).collect()
}
