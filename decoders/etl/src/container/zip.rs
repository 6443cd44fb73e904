//! `.etl.zip`: a zip archive (APPNOTE 6.3) of one or more logs.
//!
//! Only the directory and deflate are needed, so this module reads the directory and `flate2`
//! inflates.

use std::io::{Read, Write};

use flate2::Crc;
use flate2::read::DeflateDecoder;
use schedlens_input::bytes::{u16_at, u32_at, u64_at};
use schedlens_input::files::Spill;

use crate::container::source::Source;
use crate::error::Error;

const LOCAL: &[u8] = b"PK\x03\x04";
const ENTRY: &[u8] = b"PK\x01\x02";
const END: &[u8] = b"PK\x05\x06";
const END64: &[u8] = b"PK\x06\x06";
const END64_LOCATOR: &[u8] = b"PK\x06\x07";
const END_SIZE: usize = 22;
/// Maximum number of logs in an archive.
const MOST_LOGS: usize = 64;
/// Bytes an archive may unpack to, in addition to [`UNPACKED_RATIO`] times its size.
const UNPACKED: u64 = 64 << 20;
/// Logs with almost empty buffers compress to a hundredth.
const UNPACKED_RATIO: u64 = 400;
/// Maximum expansion of deflate.
const DEFLATE_RATIO: u64 = 1032;
const STORED: u16 = 0;
const DEFLATED: u16 = 8;
const ENCRYPTED: u16 = 1;
/// Extra field with sizes and offsets that exceed 32 bits.
const EXTRA_ZIP64: u16 = 1;

/// Whether a file is a zip archive.
pub(crate) fn begins(file: &[u8]) -> bool {
    file.starts_with(LOCAL)
}

/// A member of the archive.
struct Member {
    name: String,
    flags: u16,
    method: u16,
    crc: u32,
    packed: u64,
    size: u64,
    offset: u64,
}

/// The logs of an archive in its order, unpacked to unnamed temporary files.
pub(crate) fn logs(archive: &Source) -> Result<Vec<(String, Source)>, Error> {
    let file = archive.bytes();
    let members = directory(file).ok_or_else(|| damaged("its directory cannot be read"))?;
    let logs: Vec<&Member> = members.iter().filter(|member| is_log(&member.name)).collect();
    if logs.is_empty() {
        return Err(Error::NoLogInZip);
    }
    let sizes = logs.iter().fold(0, |sum: u64, member| sum.saturating_add(member.size));
    if sizes > UNPACKED + UNPACKED_RATIO * file.len() as u64 {
        return Err(damaged("it tells sizes that cannot be"));
    }
    if logs.len() > MOST_LOGS {
        return Err(damaged(&format!("it holds {} logs", logs.len())));
    }
    logs.into_iter().map(|member| Ok((member.name.clone(), unpack(file, member)?))).collect()
}

fn is_log(name: &str) -> bool {
    name.len() > 4 && name.is_char_boundary(name.len() - 4) && {
        name[name.len() - 4..].eq_ignore_ascii_case(".etl")
    }
}

fn damaged(what: &str) -> Error {
    Error::Zip { what: what.to_owned() }
}

/// Offset of the directory, and the number of members.
fn end(file: &[u8]) -> Option<(u64, u64)> {
    let from = file.len().saturating_sub(END_SIZE + usize::from(u16::MAX));
    let tail = file.get(from..)?;
    let at = from + tail.windows(END.len()).rposition(|window| window == END)?;
    let (mut count, mut offset) =
        (u64::from(u16_at(file, at + 10)?), u64::from(u32_at(file, at + 16)?));
    let locator = at.checked_sub(20).filter(|at| file[*at..].starts_with(END64_LOCATOR));
    if let Some(locator) = locator {
        let at = usize::try_from(u64_at(file, locator + 8)?).ok()?;
        if file.get(at..)?.starts_with(END64) {
            (count, offset) = (u64_at(file, at.checked_add(32)?)?, u64_at(file, at + 48)?);
        }
    }
    Some((offset, count))
}

fn directory(file: &[u8]) -> Option<Vec<Member>> {
    let (offset, count) = end(file)?;
    let mut at = usize::try_from(offset).ok()?;
    let mut members = Vec::new();
    for _ in 0..count {
        let entry = file.get(at..).filter(|entry| entry.starts_with(ENTRY))?;
        let lengths = [28, 30, 32].map(|at| u16_at(entry, at).map(usize::from));
        let [Some(name), Some(extra), Some(comment)] = lengths else { return None };
        let after_name = 46 + name;
        let mut member = Member {
            name: String::from_utf8_lossy(entry.get(46..after_name)?).into_owned(),
            flags: u16_at(entry, 8)?,
            method: u16_at(entry, 10)?,
            crc: u32_at(entry, 16)?,
            packed: u64::from(u32_at(entry, 20)?),
            size: u64::from(u32_at(entry, 24)?),
            offset: u64::from(u32_at(entry, 42)?),
        };
        widen(&mut member, entry.get(after_name..after_name + extra)?);
        at += after_name + extra + comment;
        if is_log(&member.name) {
            members.push(member);
        }
    }
    Some(members)
}

/// Sets the values that exceed 32 bits.
fn widen(member: &mut Member, extra: &[u8]) {
    let mut at = 0;
    while let (Some(kind), Some(size)) = (u16_at(extra, at), u16_at(extra, at + 2)) {
        if kind == EXTRA_ZIP64 {
            let mut from = at + 4;
            for value in [&mut member.size, &mut member.packed, &mut member.offset] {
                if *value == u64::from(u32::MAX)
                    && let Some(wide) = u64_at(extra, from)
                {
                    *value = wide;
                    from += 8;
                }
            }
        }
        at += 4 + usize::from(size);
    }
}

fn unpack(file: &[u8], member: &Member) -> Result<Source, Error> {
    let trouble = |what: &str| damaged(&format!("{} {what}", member.name));
    if member.flags & ENCRYPTED != 0 {
        return Err(trouble("is encrypted"));
    }
    let packed = packed_bytes(file, member).ok_or_else(|| trouble("is cut off"))?;
    if member.size > member.packed.saturating_mul(DEFLATE_RATIO) {
        return Err(trouble("tells a size that cannot be"));
    }
    let mut spill = Spill::new()?;
    let mut crc = Crc::new();
    let mut piece = vec![0; 1 << 18];
    let mut reader: Box<dyn Read + '_> = match member.method {
        STORED => Box::new(packed),
        DEFLATED => Box::new(DeflateDecoder::new(packed)),
        other => return Err(trouble(&format!("is packed in a way that is not read ({other})"))),
    };
    while spill.length() <= member.size {
        let read = reader.read(&mut piece).map_err(|_| trouble("does not unpack"))?;
        if read == 0 {
            break;
        }
        crc.update(&piece[..read]);
        spill.write_all(&piece[..read])?;
    }
    if spill.length() != member.size || crc.sum() != member.crc {
        return Err(trouble("does not unpack to what it should be"));
    }
    Source::of_file(&spill.into_file()?)
}

fn packed_bytes<'a>(file: &'a [u8], member: &Member) -> Option<&'a [u8]> {
    let at = usize::try_from(member.offset).ok()?;
    let local = file.get(at..).filter(|local| local.starts_with(LOCAL))?;
    let begin = 30 + usize::from(u16_at(local, 26)?) + usize::from(u16_at(local, 28)?);
    local.get(begin..begin.checked_add(usize::try_from(member.packed).ok()?)?)
}
