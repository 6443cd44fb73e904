//! A recording of one or several log files: their headers, clock and buffers.

use std::collections::{BTreeMap, HashMap};
use std::path::{Path, PathBuf};

use crate::compression::{Packing, Unpacker};
use crate::container::buffer::{
    BUFFER_LOST, BufferHeader, Buffers, EVENTS_LOST, Found, HEADER, TYPE_HEADER,
};
use crate::container::clock::Clock;
use crate::container::header::{LogHeader, begins, mode};
use crate::container::zip;
use crate::error::Error;
use crate::records::head::Head;
use schedlens_input::files::Mapped;

/// Bytes of a file that are fetched or released at once.
pub(crate) const STRETCH: usize = 8 << 20;

/// A buffer of a file, from its header and the first pass.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Buffer {
    /// Its offset in the file.
    pub(crate) offset: u64,
    /// Number of its bytes in the file.
    pub(crate) there: u32,
    /// End of its records once unpacked, header included.
    pub(crate) filled: u32,
    /// `SequenceNumber`.
    pub(crate) sequence: i64,
    /// Processor; none in the first buffer and in buffers that mix processors.
    pub(crate) cpu: Option<u16>,
    /// Whether its records are packed.
    pub(crate) packed: bool,
    /// Whether events, or a buffer, were lost before it.
    pub(crate) lost: (bool, bool),
    /// Whether it is the first buffer of the file.
    pub(crate) header: bool,
    /// Number of records.
    pub(crate) records: u32,
    /// Times of the earliest and the latest record.
    pub(crate) window: Option<(i64, i64)>,
    /// Whether its records are in time order.
    pub(crate) sorted: bool,
}

/// One file of a recording.
pub(crate) struct LogFile {
    pub(crate) name: String,
    pub(crate) source: Mapped,
    pub(crate) header: LogHeader,
    pub(crate) packing: Packing,
    pub(crate) buffers: Vec<Buffer>,
    /// Damaged ranges by offset and length, and the index of the next buffer.
    pub(crate) damage: Vec<(u64, u64, u32)>,
    /// Whether the last buffer is truncated.
    pub(crate) cut_off: bool,
    /// Buffers with undocumented flags or type: offset of the first, count.
    pub(crate) newer: Option<(u64, i64)>,
    /// Positions of the records skipped because of implausible times, by buffer.
    pub(crate) left_out: BTreeMap<u32, Vec<u32>>,
    /// Whether the compression format differs from the one in the first buffer.
    pub(crate) packing_tried: bool,
    /// Buffers that the file contains twice; the copies are skipped.
    pub(crate) repeated: i64,
}

impl LogFile {
    fn read(name: String, source: Mapped) -> Result<Self, Error> {
        let file = source.bytes();
        if !begins(file) {
            let found = file.get(..file.len().min(8)).unwrap_or_default().to_vec();
            return Err(Error::Magic { found });
        }
        let short = Error::TooShort {
            what: "the first buffer",
            needed: HEADER as u64,
            left: file.len() as u64,
        };
        let first = BufferHeader::at(file, 0).ok_or(short)?;
        let header = LogHeader::read(file.get(HEADER..).unwrap_or_default())?;
        let packing = Packing::of(first.state as u16);
        let mixed = header.has(mode::MIXED);
        let (mut buffers, mut damage) = (Vec::new(), Vec::new());
        let (mut cut_off, mut newer) = (false, None);
        let session = header.buffer_size;
        let (mut seen, mut repeated) = (HashMap::new(), 0);
        let mut kept = 0;
        for (offset, found) in Buffers::new(file, session) {
            let (found, there) = match found {
                Found::Buffer(found, there) => (found, there),
                Found::Unused(_) => continue,
                Found::Damage(bytes) => {
                    damage.push((offset as u64, bytes as u64, buffers.len() as u32));
                    continue;
                }
            };
            if offset - kept > STRETCH {
                source.let_go(kept..offset);
                kept = offset;
            }
            if !found.is_described() {
                newer.get_or_insert((offset as u64, 0)).1 += 1;
            }
            let is_header = offset == 0 || found.kind == TYPE_HEADER;
            cut_off = (there as u64) < u64::from(found.size) && offset + there == file.len();
            let whole = file.get(offset..offset + there).unwrap_or_default();
            let earlier = seen.insert((found.sequence, found.cpu), offset..offset + there);
            if !is_header && earlier.is_some_and(|range| file.get(range) == Some(whole)) {
                repeated += 1;
                continue;
            }
            buffers.push(Buffer {
                offset: offset as u64,
                there: there as u32,
                filled: found.filled,
                sequence: found.sequence,
                cpu: (!is_header && !mixed).then_some(found.cpu),
                packed: found.packed(),
                lost: (found.flags & EVENTS_LOST != 0, found.flags & BUFFER_LOST != 0),
                header: is_header,
                records: 0,
                window: None,
                sorted: true,
            });
        }
        let packing_tried = false;
        let left_out = BTreeMap::new();
        let mut file = Self {
            name,
            source,
            header,
            packing,
            buffers,
            damage,
            cut_off,
            newer,
            left_out,
            packing_tried,
            repeated,
        };
        file.settle_packing();
        Ok(file)
    }

    /// Selects another compression format if the first packed buffer only unpacks to records with
    /// that one.
    fn settle_packing(&mut self) {
        let whole = self.buffers.len() - usize::from(self.cut_off);
        let mut buffers = self.buffers.iter().take(whole);
        let Some(buffer) = buffers.find(|buffer| buffer.packed) else { return };
        let body = self.body(buffer);
        let want = (buffer.filled as usize).saturating_sub(HEADER);
        let (mut unpacker, mut room) = (Unpacker::default(), Vec::new());
        let mut fits = |packing: Packing| {
            unpacker.unpack(packing, body, want, &mut room)
                && (room.is_empty() || Head::at(&room, 0, 0).is_ok())
        };
        if fits(self.packing) {
            return;
        }
        let others = [Packing::Xpress, Packing::XpressHuffman, Packing::Lznt1];
        if let Some(other) = others.into_iter().find(|packing| fits(*packing)) {
            (self.packing, self.packing_tried) = (other, true);
        }
    }

    /// The bytes of a buffer after its header, packed or not, as far as they are present.
    pub(crate) fn body(&self, buffer: &Buffer) -> &[u8] {
        let begin = buffer.offset as usize + HEADER;
        let end = buffer.offset as usize + (buffer.there as usize).max(HEADER);
        self.source.bytes().get(begin..end).unwrap_or_default()
    }

    /// The records of a buffer, unpacked into `room` if packed, and whether they are complete.
    #[inline]
    pub(crate) fn records<'a>(
        &'a self,
        buffer: &Buffer,
        unpacker: &mut Unpacker,
        room: &'a mut Vec<u8>,
    ) -> (&'a [u8], bool) {
        let body = self.body(buffer);
        let want = (buffer.filled as usize).saturating_sub(HEADER);
        if buffer.packed {
            let whole = unpacker.unpack(self.packing, body, want, room);
            return (room, whole);
        }
        (body.get(..want).unwrap_or(body), body.len() >= want)
    }

    /// The position of a buffer in the file.
    pub(crate) fn range(&self, buffer: &Buffer) -> std::ops::Range<usize> {
        let begin = buffer.offset as usize;
        begin..begin + buffer.there as usize
    }
}

/// A recording: one log file, or several files of one recording.
pub struct Log {
    pub(crate) files: Vec<LogFile>,
    /// Names of empty logs in an archive with other logs.
    pub(crate) empty: Vec<String>,
    clock: Clock,
}

impl Log {
    /// Opens .etl files, or zip archives of them, of one recording.
    ///
    /// # Errors
    /// A file is not a log, its header cannot be read, or the files do not belong together.
    pub fn open(paths: &[PathBuf]) -> Result<Self, Error> {
        let (mut files, mut empty) = (Vec::new(), Vec::new());
        for path in paths {
            add(file_name(path), Mapped::open(path)?, &mut files, &mut empty)?;
        }
        Ok(Self { empty, ..Self::of(files)? })
    }

    /// A log in memory, or a zip archive of logs.
    ///
    /// # Errors
    /// As [`Log::open`].
    pub fn from_bytes(name: &str, bytes: Vec<u8>) -> Result<Self, Error> {
        let (mut files, mut empty) = (Vec::new(), Vec::new());
        add(name.to_owned(), Mapped::Memory(bytes), &mut files, &mut empty)?;
        Ok(Self { empty, ..Self::of(files)? })
    }

    fn of(files: Vec<LogFile>) -> Result<Self, Error> {
        let first = files.first().ok_or(Error::NoLogInZip)?;
        let mut clock = Clock::of(&first.header)?;
        for file in files.iter().skip(1) {
            let other = Clock::of(&file.header)?;
            if let Some(what) = clock.differs(&other) {
                let what = format!("{} is not of the same recording: {what}", file.name);
                return Err(Error::NotTogether { what });
            }
            // ns 0 is the start of the earliest file.
            if other.start < clock.start {
                clock = other;
            }
        }
        Ok(Self { files, empty: Vec::new(), clock })
    }

    /// The header of the first file.
    pub fn header(&self) -> &LogHeader {
        &self.files[0].header
    }

    /// The headers of all files, with their names.
    pub fn headers(&self) -> impl Iterator<Item = (&str, &LogHeader)> {
        self.files.iter().map(|file| (file.name.as_str(), &file.header))
    }

    /// Sum of the losses in the headers. A log that was not closed has no counts, so its 0 is
    /// unknown.
    pub(crate) fn lost(&self, count: fn(&LogHeader) -> u32) -> Option<i64> {
        let counts = self.headers().map(|(_, header)| {
            let lost = count(header);
            (header.end_time.is_some() || lost > 0).then_some(i64::from(lost))
        });
        counts.sum()
    }

    /// Counts from another moment than the header record, whose time is damaged. Wall time is then
    /// unknown.
    pub(crate) fn count_from(&mut self, start: i64) {
        self.clock = self.clock.counting_from(start);
    }

    /// The clock of all records.
    pub fn clock(&self) -> Clock {
        self.clock
    }

    /// Bytes of all files.
    pub fn bytes(&self) -> u64 {
        self.files.iter().map(|file| file.source.bytes().len() as u64).sum()
    }

    /// The position of a record in its file, or of the packed buffer that contains it, for people.
    pub fn describe(&self, place: crate::records::Place) -> String {
        let file = self.files.get(usize::from(place.file));
        let offset = file.and_then(|file| file.buffers.get(place.buffer as usize));
        let offset = offset.map_or(0, |buffer| buffer.offset);
        self.place_text(usize::from(place.file), place.buffer, offset, place.at)
    }

    pub(crate) fn place_text(&self, file: usize, buffer: u32, offset: u64, at: u32) -> String {
        let name = match self.files.len() {
            1 => "",
            _ => self.files.get(file).map_or("", |file| file.name.as_str()),
        };
        let comma = if name.is_empty() { "" } else { ", " };
        format!("{name}{comma}buffer {buffer} at {offset:#x}, offset {at:#x}")
    }
}

/// Reads a log, or the logs of an archive except the empty ones.
fn add(
    name: String,
    source: Mapped,
    files: &mut Vec<LogFile>,
    empty: &mut Vec<String>,
) -> Result<(), Error> {
    if !zip::begins(source.bytes()) {
        files.push(LogFile::read(name, source)?);
        return Ok(());
    }
    let members = zip::logs(&source)?;
    let all_empty = members.iter().all(|(_, source)| source.bytes().is_empty());
    for (member, source) in members {
        let full = format!("{name}/{member}");
        if source.bytes().is_empty() && !all_empty {
            empty.push(full);
            continue;
        }
        let file = LogFile::read(full, source);
        files.push(file.map_err(|error| error.of_member(&member))?);
    }
    Ok(())
}

fn file_name(path: &Path) -> String {
    path.file_name().map(|name| name.to_string_lossy().into_owned()).unwrap_or_default()
}
