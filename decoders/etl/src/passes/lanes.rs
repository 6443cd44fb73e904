//! Per-CPU streams: buffers of one CPU that follow each other in time.

use std::cmp::Reverse;
use std::collections::BinaryHeap;

use crate::container::log::{Buffer, LogFile};

/// Maximum bytes of unpacked buffers in memory at once.
const BUDGET: u64 = 1 << 30;
/// Maximum number of lanes; a machine has a few thousand CPUs.
const MOST_LANES: usize = 1 << 16;

/// Buffers of one CPU, each starting after the previous one ends.
#[derive(Clone, Debug)]
pub(crate) struct Lane {
    pub(crate) cpu: Option<u16>,
    pub(crate) buffers: Vec<Spot>,
}

/// A buffer and its first time.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Spot {
    pub(crate) first: i64,
    pub(crate) file: u16,
    pub(crate) buffer: u32,
}

/// The lanes by CPU and start, and the buffers (file, buffer) that exceed the memory limit.
pub(crate) fn lanes(files: &[LogFile]) -> (Vec<Lane>, Vec<(usize, usize)>) {
    let mut order: Vec<(usize, usize)> = Vec::new();
    for (number, file) in files.iter().enumerate() {
        let filled = (0..file.buffers.len()).filter(|at| file.buffers[*at].window.is_some());
        order.extend(filled.map(|buffer| (number, buffer)));
    }
    let of = |&(file, buffer): &(usize, usize)| -> &Buffer { &files[file].buffers[buffer] };
    order.sort_by_key(|at| {
        let buffer = of(at);
        (buffer.cpu, buffer.window, at.0, buffer.sequence, at.1)
    });
    let (mut lanes, mut left_out): (Vec<Lane>, _) = (Vec::new(), Vec::new());
    // Memory that each lane needs, and the lanes of the current CPU by their end.
    let (mut rooms, mut all_rooms): (Vec<u64>, u64) = (Vec::new(), 0);
    let mut ends: BinaryHeap<Reverse<(i64, usize)>> = BinaryHeap::new();
    let mut cpu = None;
    for at in order {
        let buffer = of(&at);
        let Some((first, last)) = buffer.window else { continue };
        if cpu != Some(buffer.cpu) {
            cpu = Some(buffer.cpu);
            ends.clear();
        }
        let room = if buffer.packed || !buffer.sorted { u64::from(buffer.filled) } else { 0 };
        let free = ends.peek().filter(|Reverse((end, _))| *end <= first).map(|Reverse(e)| e.1);
        let more = free.map_or(room, |lane| room.saturating_sub(rooms[lane]));
        if all_rooms + more > BUDGET || (free.is_none() && lanes.len() >= MOST_LANES) {
            left_out.push(at);
            continue;
        }
        all_rooms += more;
        let lane = match free {
            Some(lane) => {
                ends.pop();
                rooms[lane] += more;
                lane
            }
            None => {
                lanes.push(Lane { cpu: buffer.cpu, buffers: Vec::new() });
                rooms.push(room);
                lanes.len() - 1
            }
        };
        ends.push(Reverse((last, lane)));
        lanes[lane].buffers.push(Spot { first, file: at.0 as u16, buffer: at.1 as u32 });
    }
    (lanes, left_out)
}
