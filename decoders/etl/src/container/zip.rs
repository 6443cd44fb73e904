//! `.etl.zip`: a zip archive of one or more logs.

use std::io::{Cursor, Read, Write};

use schedlens_input::files::Spill;
use zip::result::ZipError;
use zip::{CompressionMethod, ZipArchive};

use crate::error::Error;
use schedlens_input::files::Mapped;

const LOCAL: &[u8] = b"PK\x03\x04";
/// Maximum number of logs in an archive.
const MOST_LOGS: usize = 64;
/// Bytes an archive may unpack to, in addition to [`UNPACKED_RATIO`] times its size.
const UNPACKED: u64 = 64 << 20;
/// Logs with almost empty buffers compress to a hundredth.
const UNPACKED_RATIO: u64 = 400;
/// Maximum expansion of deflate.
const DEFLATE_RATIO: u64 = 1032;
const PIECE: usize = 1 << 18;

type Archive<'a> = ZipArchive<Cursor<&'a [u8]>>;

/// Whether a file is a zip archive.
pub(crate) fn begins(file: &[u8]) -> bool {
    file.starts_with(LOCAL)
}

/// The logs of an archive in its order, unpacked to unnamed temporary files.
pub(crate) fn logs(archive: &Mapped) -> Result<Vec<(String, Mapped)>, Error> {
    let file = archive.bytes();
    let mut archive =
        ZipArchive::new(Cursor::new(file)).map_err(|_| damaged("its directory cannot be read"))?;
    let (mut logs, mut sizes) = (Vec::new(), 0_u64);
    for index in 0..archive.len() {
        let member = archive.by_index_data(index).map_err(|error| damaged(&error.to_string()))?;
        if is_log(member.name_raw()) {
            sizes = sizes.saturating_add(member.size());
            logs.push((index, String::from_utf8_lossy(member.name_raw()).into_owned()));
        }
    }
    if logs.is_empty() {
        return Err(Error::NoLogInZip);
    }
    if sizes > UNPACKED + UNPACKED_RATIO * file.len() as u64 {
        return Err(damaged("its sizes are impossible"));
    }
    if logs.len() > MOST_LOGS {
        return Err(damaged(&format!("it holds {} logs", logs.len())));
    }
    let unpack = |(index, name): (usize, String)| {
        let source = unpack(&mut archive, index, &name)?;
        Ok((name, source))
    };
    logs.into_iter().map(unpack).collect()
}

fn is_log(name: &[u8]) -> bool {
    matches!(name.split_last_chunk::<4>(), Some(([_, ..], end)) if end.eq_ignore_ascii_case(b".etl"))
}

fn damaged(what: &str) -> Error {
    Error::Zip { what: what.to_owned() }
}

fn unpack(archive: &mut Archive<'_>, index: usize, name: &str) -> Result<Mapped, Error> {
    let trouble = |what: &str| damaged(&format!("{name} {what}"));
    let packed = archive.by_index_raw(index).map_err(|_| trouble("is cut off"))?;
    let (size, method) = (packed.size(), packed.compression());
    if packed.encrypted() {
        return Err(trouble("is encrypted"));
    }
    if !matches!(method, CompressionMethod::Stored | CompressionMethod::Deflated) {
        return Err(trouble(&format!("uses unsupported compression ({method})")));
    }
    if size > packed.compressed_size().saturating_mul(DEFLATE_RATIO) {
        return Err(trouble("has an impossible size"));
    }
    drop(packed);
    let mut member = archive.by_index(index).map_err(|error| match error {
        ZipError::UnsupportedArchive(what) => trouble(what),
        _ => trouble("is cut off"),
    })?;
    let mut spill = Spill::new()?;
    let mut piece = vec![0; PIECE];
    // The reader returns an error for a wrong checksum once all is read.
    while spill.length() <= size {
        let read = member.read(&mut piece).map_err(|_| trouble("does not unpack"))?;
        if read == 0 {
            break;
        }
        spill.write_all(&piece[..read])?;
    }
    if spill.length() != size {
        return Err(trouble("does not unpack to its size"));
    }
    Ok(Mapped::of_file(&spill.into_file()?)?)
}
