//! Detects a recording's format from its content.

use std::fs::File;
use std::io::Read;
use std::path::Path;

use schedlens_etl as etl;
use schedlens_tracepoints::formats;

use crate::error::DecodeError;
use crate::tables;

/// Formats of recordings.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Format {
    /// perf.data, as a file, pipe output or a folder; also anything no reader recognizes.
    Perf,
    /// trace.dat of trace-cmd.
    TraceDat,
    /// A Windows event trace log, or a zip archive that contains one.
    Etl,
    /// A folder of tables that another program wrote.
    Tables,
}

/// Bytes that identify a log: the headers of its first buffer and first record.
const HEADERS: u64 = 4096;
const ZIP: &[u8] = b"PK\x03\x04";

/// The format of a file or folder.
///
/// # Errors
/// It cannot be opened.
pub fn of(path: &Path) -> Result<Format, DecodeError> {
    if tables::is_folder(path) {
        return Ok(Format::Tables);
    }
    // Reading from a fifo consumes the data, and only perf writes to one.
    if !path.is_file() {
        return Ok(Format::Perf);
    }
    let mut begin = Vec::new();
    File::open(path)?.take(HEADERS).read_to_end(&mut begin)?;
    Ok(of_begin(&begin))
}

fn of_begin(begin: &[u8]) -> Format {
    if begin.starts_with(formats::MAGIC) {
        Format::TraceDat
    } else if begin.starts_with(ZIP) || etl::begins(begin) {
        Format::Etl
    } else {
        Format::Perf
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn first_bytes_decide_the_format() {
        assert_eq!(of_begin(b"PERFILE2"), Format::Perf);
        assert_eq!(of_begin(b""), Format::Perf);
        assert_eq!(of_begin(b"\x17\x08\x44tracing6\0"), Format::TraceDat);
        assert_eq!(of_begin(b"PK\x03\x04 and more"), Format::Etl);
        let mut log = vec![0; 0x48 + 400];
        log[0] = 0x48;
        log[0x48..0x50].copy_from_slice(&[2, 0, 2, 0xc0, 0x68, 0x01, 0, 0]);
        assert_eq!(of_begin(&log), Format::Etl);
        // Its first record may be longer than the bytes examined.
        log[0x4d] = 0x20;
        assert_eq!(of_begin(&log), Format::Etl);
        log[0x4f] = 5;
        assert_eq!(of_begin(&log), Format::Perf);
    }
}
