//! The bytes of scrubbed records and buffers.

use schedlens_input::bytes::{u16_at, u32_at, u64_at};

use crate::container::buffer::HEADER;
use crate::container::header::mode;
use crate::records::{Kind, Record};

/// FILETIME of the start of every scrubbed log: the beginning of 2000.
pub(super) const EPOCH: u64 = 125_911_584_000_000_000;
/// `BufferFlag`: packed.
const COMPRESSED: u16 = 0x40;
/// Header, flags, and activity of an `EVENT_HEADER`.
const EVENT: usize = 80;
const EVENT_FLAGS: usize = 4;
const ACTIVITY: usize = 64;

/// Appends a record with another payload; `bytes` is the original one.
pub(super) fn append(bytes: &[u8], record: &Record<'_>, payload: &[u8], out: &mut Vec<u8>) {
    let begin = out.len();
    let whole = bytes.len() - record.payload.len();
    let head = if record.kind == Kind::Event { EVENT } else { whole };
    out.extend(bytes.get(..head).unwrap_or_default());
    let most = usize::from(u16::MAX) - head;
    out.extend(payload.get(..payload.len().min(most)).unwrap_or_default());
    let size = (out.len() - begin) as u16;
    let made = &mut out[begin..];
    if record.kind == Kind::Event {
        // Without extended items, such as the user, and without the activity.
        made[EVENT_FLAGS] &= !1;
        made[ACTIVITY..EVENT].fill(0);
    }
    let at = match record.kind {
        Kind::System | Kind::Compact | Kind::PerfInfo => 4,
        _ => 0,
    };
    made[at..at + 2].copy_from_slice(&size.to_le_bytes());
    out.resize(out.len().next_multiple_of(8), 0);
}

/// Appends `TRACE_LOGFILE_HEADER`: other names, no time zone, and times from [`EPOCH`].
pub(super) fn log_header(bytes: &[u8], payload: &[u8], out: &mut Vec<u8>) {
    let begin = out.len();
    let head = bytes.len() - payload.len();
    let pointers: usize = if u32_at(payload, 44) == Some(4) { 4 } else { 8 };
    let zone = 56 + 2 * pointers;
    let times = (zone + 172).next_multiple_of(8);
    out.extend(bytes.get(..head + times + 32).unwrap_or(bytes));
    out.resize(begin + head + times + 32, 0);
    out.extend("schedlens\0scrubbed.etl\0".encode_utf16().flat_map(u16::to_le_bytes));
    let size = (out.len() - begin) as u16;
    out[begin + 4..begin + 6].copy_from_slice(&size.to_le_bytes());
    let made = &mut out[begin + head..];
    made[56..times].fill(0);
    let modes = u32_at(made, 32).unwrap_or_default() & !mode::COMPRESSED;
    made[32..36].copy_from_slice(&modes.to_le_bytes());
    let start = u64_at(made, times + 16).unwrap_or_default();
    for at in [16, times, times + 16] {
        let time = u64_at(made, at).filter(|time| *time != 0);
        let moved = time.map_or(0, |time| time.wrapping_sub(start).wrapping_add(EPOCH));
        made[at..at + 8].copy_from_slice(&moved.to_le_bytes());
    }
    out.resize(out.len().next_multiple_of(8), 0);
}

/// Writes the size of the buffers into the log's header, if it is the first of these records.
pub(super) fn resize_header(records: &mut [u8], size: u32) {
    let is_header = matches!(records.get(2), Some(1 | 2)) && u16_at(records, 6) == Some(0);
    if let Some(place) = records.get_mut(32..36).filter(|_| is_header) {
        place.copy_from_slice(&size.to_le_bytes());
    }
}

/// Changes a `WMI_BUFFER_HEADER` to that of an unpacked buffer with so many bytes of records.
pub(super) fn buffer_header(head: &mut [u8; HEADER], size: u32, records: usize) {
    let filled = (HEADER + records) as u32;
    for (at, value) in [(0, size), (4, filled), (8, filled), (0x30, filled)] {
        head[at..at + 4].copy_from_slice(&value.to_le_bytes());
    }
    // When it was written, in wall time.
    head[0x10..0x18].fill(0);
    let flags = u16_at(head, 0x34).unwrap_or_default() & !COMPRESSED;
    head[0x34..0x36].copy_from_slice(&flags.to_le_bytes());
    // Context that no reader needs; reference times in wall time.
    head[0x38..].fill(0);
}
