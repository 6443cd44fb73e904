//! Where the pages of a CPU in a buffer are.

use std::collections::HashSet;
use std::sync::Arc;

use schedlens_input::bytes::{CPU_LIMIT, u32_at};
use schedlens_input::problem::Problems;

use crate::error::Error;
use crate::options::{Buffer, CpuData};
use crate::parts::Parts;
use crate::version_7;
use crate::window::Window;

/// Pages larger than this are no pages: the kernel's largest have a quarter of it.
const LARGEST_PAGE: u32 = 16 << 20;
/// The smallest page: a header and one record.
const SMALLEST_PAGE: u32 = 64;
/// How often the chunks of a file may be looked at.
const MOST_OVERLAPS: usize = 4;
/// Sizes in front of a chunk: packed and unpacked.
pub(crate) const CHUNK_HEADER: usize = 8;

/// Which records of an event are read from a lane.
#[derive(Clone, Debug, Default)]
pub(crate) enum Wanted {
    /// None.
    #[default]
    Never,
    /// All.
    Always,
    /// Those outside of the first so many of these times, which other lanes cover.
    Outside(Arc<[Window]>, usize),
}

impl Wanted {
    /// Whether a record is read.
    #[inline(always)]
    pub(crate) fn has(&self, ts: u64) -> bool {
        match self {
            Self::Never => false,
            Self::Always => true,
            Self::Outside(covered, count) => {
                !covered.iter().take(*count).any(|window| window.has(ts))
            }
        }
    }
}

/// The pages of one CPU in one buffer.
#[derive(Clone, Debug, Default)]
pub(crate) struct Lane {
    /// Index of its buffer.
    pub(crate) buffer: usize,
    pub(crate) cpu: i32,
    /// The range of the file.
    pub(crate) at: usize,
    pub(crate) end: usize,
    /// The file ends before the range does.
    pub(crate) is_cut_off: bool,
    /// Chunks of compressed pages; `None`: the pages are not compressed.
    pub(crate) chunks: Option<u32>,
    pub(crate) page_size: usize,
    /// Numbers of the pages whose times do not fit, in order.
    pub(crate) left_out: Vec<u32>,
    /// Numbers of the pages before which records are missing, in order.
    pub(crate) after_gap: Vec<u32>,
    /// By slot of the event: which of its records are read.
    pub(crate) wanted: Vec<Wanted>,
    /// Time of its earliest record.
    pub(crate) first: u64,
    /// Its clock is that of the recording.
    pub(crate) is_usable: bool,
}

impl Lane {
    /// Whether the schedule has records of it.
    pub(crate) fn is_read(&self) -> bool {
        self.wanted.iter().any(|wanted| !matches!(wanted, Wanted::Never))
    }
}

/// The lanes of all buffers, by CPU and then by buffer.
///
/// # Errors
/// A buffer has pages of a size that no kernel has, or its section is elsewhere.
pub(crate) fn lanes(
    file: &[u8],
    parts: &Parts,
    problems: &mut Problems,
) -> Result<Vec<Lane>, Error> {
    let mut lanes: Vec<Lane> = Vec::new();
    // The data of CPUs does not overlap, so together it is no longer than the file.
    let mut left = file.len() as u64;
    // Of lists that overlap, nothing shows which one is right, so a few are looked at.
    let mut chunks_left = MOST_OVERLAPS * (file.len() / CHUNK_HEADER);
    for (number, buffer) in parts.options.buffers.iter().enumerate() {
        if buffer.is_text {
            continue;
        }
        let page_size = buffer.page_size.unwrap_or(parts.page_size);
        if !(SMALLEST_PAGE..=LARGEST_PAGE).contains(&page_size) {
            let (least, most) = (u64::from(SMALLEST_PAGE), u64::from(LARGEST_PAGE));
            return Err(Error::Size { what: "a page", found: u64::from(page_size), least, most });
        }
        let is_packed = parts.version == 7 && version_7::is_packed(file, buffer.offset)?;
        // A damaged file may list very many.
        let mut known = HashSet::new();
        for data in &buffer.cpus {
            let place = || format!("CPU {}{}", data.cpu, of_buffer(buffer));
            if known.contains(&data.cpu) || !(0..CPU_LIMIT).contains(&data.cpu) {
                problems.add(place(), "is listed twice or is no CPU: left out");
                continue;
            }
            let extent =
                if is_packed { packed(file, data, &mut chunks_left) } else { plain(file, data) };
            let size = (extent.end - extent.at) as u64;
            if size > left {
                problems.add(place(), "its data overlaps that of other CPUs: left out");
                continue;
            }
            left -= size;
            known.insert(data.cpu);
            if extent.is_cut_off {
                problems.add(place(), "the file is cut off before its data ends");
            }
            let page_size = page_size as usize;
            lanes.push(Lane { buffer: number, cpu: data.cpu, page_size, ..extent });
        }
    }
    lanes.sort_by_key(|lane| (lane.cpu, lane.buffer));
    Ok(lanes)
}

/// The pages of a CPU that are not compressed, as far as the file contains them.
fn plain(file: &[u8], data: &CpuData) -> Lane {
    let place = |offset: u64| usize::try_from(offset).unwrap_or(usize::MAX).min(file.len());
    let end = data.offset.saturating_add(data.size);
    let is_cut_off = data.size > 0 && end > file.len() as u64;
    Lane { at: place(data.offset), end: place(end), is_cut_off, ..Lane::default() }
}

/// The compressed pages of a CPU. The stated size does not cover all of them, but each chunk states
/// its own. `chunks_left` is how many chunks may be looked at.
fn packed(file: &[u8], data: &CpuData, chunks_left: &mut usize) -> Lane {
    let start = usize::try_from(data.offset).unwrap_or(usize::MAX).min(file.len());
    let mut lane = Lane { at: start, end: start, chunks: Some(0), ..Lane::default() };
    if data.size == 0 {
        return lane;
    }
    let Some(chunks) = u32_at(file, start) else {
        return Lane { is_cut_off: true, ..lane };
    };
    let mut end = start + 4;
    for number in 0..chunks {
        let next = u32_at(file, end).and_then(|size| end.checked_add(CHUNK_HEADER + size as usize));
        let Some(next) = next.filter(|next| *next <= file.len() && *chunks_left > 0) else {
            lane.is_cut_off = true;
            break;
        };
        *chunks_left -= 1;
        (end, lane.end, lane.chunks) = (next, next, Some(number + 1));
    }
    lane
}

/// ` of buffer NAME`, or nothing for the one that always exists.
pub(crate) fn of_buffer(buffer: &Buffer) -> String {
    match buffer.name.as_str() {
        "" => String::new(),
        name => format!(" of buffer {name}"),
    }
}
