//! Writes a log again with other names: the same buffers, and the same times, threads and CPUs.
//!
//! Each buffer keeps its number, processor and signs of loss, so that loss shows as in the
//! original. Buffers are written unpacked, because any reader of the format takes them so.

mod record;
mod rules;

use std::io::{self, Write};

use crate::compression::Unpacker;
use crate::container::Log;
use crate::container::buffer::{HEADER, LARGEST};
use crate::container::log::{Buffer, LogFile, STRETCH};
use crate::error::Error;
pub use crate::payload::layout::Rename;
use crate::records::head::{Fault, Head};
use crate::records::{Id, Place};

/// What became of the records.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Written {
    /// Records in the new log.
    pub records: u64,
    /// Of these, those without payload, because nothing describes it.
    pub emptied: u64,
    /// Records that are not in the new log, and stretches of damage.
    pub left_out: u64,
}

/// Writes a log of one file again. Its times count from another moment than the wall clock's.
///
/// # Errors
/// The recording has several files, its times are those of the wall clock, or `out` fails.
pub fn scrub(log: &Log, rename: &mut Rename<'_>, out: &mut dyn Write) -> Result<Written, Error> {
    let [file] = log.files.as_slice() else {
        return Err(refused("only one log can be scrubbed at a time"));
    };
    if file.header.clock_type == SYSTEM_TIME {
        return Err(refused("the log's times are those of the wall clock: record with WPR"));
    }
    // New names may be longer: buffers have room for the longest.
    let mut longest = file.header.buffer_size as usize;
    each_buffer(file, rename, &mut |_, records, _| {
        longest = longest.max((HEADER + records.len()).next_multiple_of(1024));
        Ok(())
    })?;
    let size = u32::try_from(longest).ok().filter(|size| *size <= LARGEST);
    let size = size.ok_or_else(|| refused("a buffer of the log is too large"))?;
    let mut sum = Written::default();
    each_buffer(file, rename, &mut |buffer, records, written| {
        sum.records += written.records;
        sum.emptied += written.emptied;
        sum.left_out += written.left_out;
        if buffer.header {
            record::resize_header(records, size);
        }
        let mut head = [0; HEADER];
        let range = file.range(buffer);
        let original = file.source.bytes().get(range).unwrap_or_default();
        head.copy_from_slice(original.get(..HEADER).ok_or_else(|| refused("a short buffer"))?);
        record::buffer_header(&mut head, size, records.len());
        out.write_all(&head)?;
        out.write_all(records)?;
        io::copy(
            &mut io::Read::take(io::repeat(0xff), (longest - HEADER - records.len()) as u64),
            out,
        )?;
        Ok(())
    })?;
    Ok(sum)
}

/// `ReservedFlags` of a log whose times are FILETIMEs.
const SYSTEM_TIME: u32 = 2;

fn refused(why: &str) -> Error {
    io::Error::new(io::ErrorKind::InvalidInput, why).into()
}

type Each<'a> = dyn FnMut(&Buffer, &mut Vec<u8>, Written) -> Result<(), Error> + 'a;

/// Calls `each` with every buffer, its new records, and their numbers.
fn each_buffer(file: &LogFile, rename: &mut Rename<'_>, each: &mut Each<'_>) -> Result<(), Error> {
    let (mut unpacker, mut room) = (Unpacker::default(), Vec::new());
    let (mut records, mut kept) = (Vec::new(), 0);
    for (number, buffer) in file.buffers.iter().enumerate() {
        records.clear();
        let (old, _) = file.records(buffer, &mut unpacker, &mut room);
        let written = rewrite(old, buffer, number as u32, rename, &mut records);
        each(buffer, &mut records, written)?;
        let end = file.range(buffer).end;
        if end - kept > STRETCH {
            file.source.let_go(kept..end);
            kept = end;
        }
    }
    Ok(())
}

/// The records of a buffer as kept.
fn rewrite(
    old: &[u8],
    buffer: &Buffer,
    number: u32,
    rename: &mut Rename<'_>,
    out: &mut Vec<u8>,
) -> Written {
    let (mut at, mut before, mut written) = (0, 0, Written::default());
    while at + 8 <= old.len() {
        let head = match Head::at(old, at, before) {
            Ok(head) => head,
            Err(Fault::Items { stride }) => {
                written.left_out += 1;
                at += stride;
                continue;
            }
            Err(_) => {
                written.left_out += 1;
                break;
            }
        };
        let place = Place { file: 0, buffer: number, at: (HEADER + at) as u32 };
        let record = head.record(old, at, (buffer.cpu, place));
        let bytes = old.get(at..at + head.size as usize).unwrap_or_default();
        if buffer.header && at == 0 && record.id == Id::Hook(0) {
            record::log_header(bytes, record.payload, out);
            written.records += 1;
        } else if let Some(kept) = rules::of(&record) {
            let payload = rules::payload(kept, &record, rename);
            written.emptied += u64::from(payload.is_empty() && !record.payload.is_empty());
            record::append(bytes, &record, &payload, out);
            written.records += 1;
        } else {
            written.left_out += 1;
        }
        before = head.ts;
        at += head.stride();
    }
    written
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tests::built::{Built, plain};

    fn scrubbed(bytes: Vec<u8>) -> (Vec<u8>, Written) {
        let log = Log::from_bytes("built", bytes).expect("a log");
        let mut out = Vec::new();
        let written = scrub(&log, &mut |_, _| String::new(), &mut out).expect("written");
        (out, written)
    }

    #[test]
    fn buffers_keep_number_processor_and_signs_of_loss() {
        let original =
            plain(&[Built::new(2, 1, &[1_100, 1_200]), Built::new(3, 4, &[1_150]).flags(0x2)]);
        let (out, written) = scrubbed(original);
        assert_eq!(written, Written { records: 4, emptied: 0, left_out: 0 });
        let bytes = out.len();
        let log = Log::from_bytes("scrubbed", out).expect("a log");
        // The names of a scrubbed log do not fit into these buffers.
        assert_eq!((log.header().buffer_size, bytes), (1024, 3 * 1024));
        let buffers = &log.files[0].buffers;
        let found: Vec<_> = buffers.iter().map(|b| (b.cpu, b.sequence, b.lost.0)).collect();
        assert_eq!(found, [(None, 0, false), (Some(2), 1, false), (Some(3), 4, true)]);
        assert_eq!(log.header().session_name, "schedlens");
    }

    #[test]
    fn wall_times_are_moved_together() {
        let original = Log::from_bytes("built", plain(&[])).expect("a log");
        let (out, _) = scrubbed(plain(&[]));
        let log = Log::from_bytes("scrubbed", out).expect("a log");
        let (old, new) = (original.header(), log.header());
        assert_eq!(new.start_time, record::EPOCH);
        let since = |time: Option<u64>, start: u64| time.map(|time| time.wrapping_sub(start));
        assert_eq!(since(new.end_time, new.start_time), since(old.end_time, old.start_time));
        assert_eq!(new.start_clock, old.start_clock);
    }
}
