//! Version 7: sections that options point to, each compressed or not.

use std::borrow::Cow;

use schedlens_input::bytes::Bytes;
use schedlens_input::problem::Problems;
use schedlens_tracepoints::formats;

use crate::error::Error;
use crate::options::{self, Options};
use crate::packing::{Packing, Unpacker};
use crate::parts::{Parts, names};

/// Size of a section's header.
const HEADER_SIZE: usize = 16;
/// The section is compressed.
const COMPRESSED: u16 = 1;
/// The number of a section of options.
const OPTIONS: u16 = 0;
/// The number of the section of a buffer.
const BUFFER: u16 = 3;
/// Lists of options; trace-cmd writes one more for each buffer.
const MOST_LISTS: usize = 4096;
/// Largest unpacked section: symbols of a whole kernel take a tenth of it.
const LARGEST: u32 = 64 << 20;

/// Reads what follows the first bytes.
///
/// # Errors
/// The file ends before its description does.
pub(crate) fn read(
    file: &[u8],
    mut bytes: Bytes<'_>,
    page_size: u32,
    problems: &mut Problems,
) -> Result<Parts, Error> {
    let packing = Packing::named(&bytes.zero_ended()?)?;
    let _version = bytes.zero_ended()?;
    let mut sections = Sections { file, unpacker: Unpacker::new(packing)? };
    let options = all_options(&mut sections, bytes.u64()?, problems)?;
    let mut found = |number: u16, what: &'static str| -> Result<Vec<u8>, Error> {
        let place = options.sections.iter().rev().find(|(known, _)| *known == number);
        let (_, offset) = place.ok_or(Error::Misplaced { what })?;
        Ok(sections.read(*offset, number, what)?.into_owned())
    };
    let header = found(options::HEADER_INFO, "the section of the page header")?;
    let header_page = formats::page_header(&mut Bytes::new(&header, "header_page"))?;
    let mut formats = Vec::new();
    // The formats of ftrace's own events describe nothing that schedules need.
    if let Ok(data) = found(options::FTRACE_EVENTS, "the section of ftrace formats") {
        formats::ftrace(&mut Bytes::new(&data, "ftrace formats"), &mut formats)?;
    }
    let data = found(options::EVENT_FORMATS, "the section of event formats")?;
    formats::systems(&mut Bytes::new(&data, "event formats"), &mut formats)?;
    let lines = found(options::CMDLINES, "the section of saved command lines");
    let lines = lines.and_then(|data| {
        let mut bytes = Bytes::new(&data, "saved command lines");
        let size = bytes.u64()?;
        Ok(names(bytes.take(size)?))
    });
    let names = lines.unwrap_or_else(|error| {
        problems.add("saved command lines", error.to_string());
        Vec::new()
    });
    Ok(Parts { version: 7, page_size, packing, header_page, formats, names, options })
}

/// The options of all lists. What a list that cannot be read would have stated is missing.
fn all_options(
    sections: &mut Sections<'_>,
    first: u64,
    problems: &mut Problems,
) -> Result<Options, Error> {
    let mut options = Options::default();
    let mut next = Some(first);
    for number in 0..MOST_LISTS {
        let Some(offset) = next.take() else { break };
        let list = sections.read(offset, OPTIONS, "a list of options").and_then(|data| {
            let mut bytes = Bytes::new(&data, "a list of options");
            Ok(options.add(&mut bytes, true)?)
        });
        match list {
            Ok(after) => next = after,
            Err(error) if number == 0 => return Err(error),
            Err(error) => {
                problems.add(format!("byte {offset}"), error.to_string());
                options.is_incomplete = true;
            }
        }
    }
    Ok(options)
}

/// Whether the pages of a buffer are compressed.
///
/// # Errors
/// Its section is not there.
pub(crate) fn is_packed(file: &[u8], offset: u64) -> Result<bool, Error> {
    Ok(header(file, offset, BUFFER, "the section of a buffer")?.1 & COMPRESSED != 0)
}

/// Position behind a section's header, its flags, and its size.
fn header(
    file: &[u8],
    offset: u64,
    number: u16,
    what: &'static str,
) -> Result<(usize, u16, u64), Error> {
    let missing = || Error::Misplaced { what };
    let at = usize::try_from(offset).map_err(|_| missing())?;
    let rest = file.get(at..).filter(|rest| rest.len() >= HEADER_SIZE).ok_or_else(missing)?;
    let mut bytes = Bytes::new(rest, what);
    let (found, flags) = (bytes.u16()?, bytes.u16()?);
    let _description = bytes.u32()?;
    if found != number {
        return Err(missing());
    }
    Ok((at + HEADER_SIZE, flags, bytes.u64()?))
}

struct Sections<'a> {
    file: &'a [u8],
    unpacker: Unpacker,
}

impl<'a> Sections<'a> {
    /// The contents of a section, unpacked.
    fn read(
        &mut self,
        offset: u64,
        number: u16,
        what: &'static str,
    ) -> Result<Cow<'a, [u8]>, Error> {
        let (at, flags, size) = header(self.file, offset, number, what)?;
        let rest = self.file.get(at..).unwrap_or_default();
        if flags & COMPRESSED == 0 {
            let size = usize::try_from(size).map_or(rest.len(), |size| size.min(rest.len()));
            return Ok(Cow::Borrowed(rest.get(..size).unwrap_or_default()));
        }
        let mut bytes = Bytes::new(rest, what);
        let (packed_size, size) = (bytes.u32()?, bytes.u32()?);
        if size > LARGEST {
            let (found, most) = (u64::from(size), u64::from(LARGEST));
            return Err(Error::Size { what, found, least: 0, most });
        }
        let packed = bytes.take(u64::from(packed_size))?;
        let mut out = Vec::new();
        self.unpacker
            .unpack(packed, size as usize, &mut out)
            .map_err(|why| Error::Packed { what, why })?;
        Ok(Cow::Owned(out))
    }
}
