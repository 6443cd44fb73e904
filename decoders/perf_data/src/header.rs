//! `perf_file_header`: the positions of the parts of a perf.data file.

use schedlens_input::bytes::{Bytes, u64_at};

use crate::error::Error;

/// Size of `perf_file_header` in a file; in pipe mode only magic and size are written.
const FILE_HEADER_SIZE: u64 = 104;
const PIPE_HEADER_SIZE: u64 = 16;

/// `perf_file_section`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Section {
    pub(crate) offset: u64,
    pub(crate) size: u64,
}

impl Section {
    /// The bytes of the section, truncated at the end of the file.
    pub(crate) fn cut_from<'a>(&self, file: &'a [u8]) -> &'a [u8] {
        let length = file.len() as u64;
        let start = self.offset.min(length);
        let end = self.offset.saturating_add(self.size).min(length);
        file.get(start as usize..end as usize).unwrap_or_default()
    }

    /// The bytes of the section, if the file contains it completely.
    pub(crate) fn whole_from<'a>(&self, file: &'a [u8]) -> Option<&'a [u8]> {
        let found = self.cut_from(file);
        (found.len() as u64 == self.size).then_some(found)
    }
}

/// `perf_file_header`, or the short one of pipe mode.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Header {
    /// A file: everything by offset.
    File {
        attr_size: u64,
        attrs: Section,
        data: Section,
        /// Bitmap `adds_features`.
        features: [u64; 4],
    },
    /// Pipe mode: everything is a record, starting at this offset.
    Pipe { start: u64 },
}

impl Header {
    /// Reads the header at the start of a file.
    pub(crate) fn read(file: &[u8]) -> Result<Self, Error> {
        let magic = file.get(..8).unwrap_or(file);
        match magic {
            b"PERFILE2" => {}
            b"2ELIFREP" => return Err(Error::BigEndian),
            b"PERFFILE" => return Err(Error::FirstVersion),
            _ => return Err(Error::Magic { found: magic.to_vec() }),
        }
        let size = u64_at(file, 8).ok_or(Error::TooShort {
            what: "perf_file_header",
            needed: PIPE_HEADER_SIZE,
            left: file.len() as u64,
        })?;
        if size == PIPE_HEADER_SIZE {
            return Ok(Self::Pipe { start: size });
        }
        if size < FILE_HEADER_SIZE {
            return Err(Error::Size {
                what: "perf_file_header",
                found: size,
                least: FILE_HEADER_SIZE,
            });
        }
        let mut bytes = Bytes::new(file, "perf_file_header");
        bytes.take(16)?;
        let attr_size = bytes.u64()?;
        let mut section = || -> Result<Section, Error> {
            Ok(Section { offset: bytes.u64()?, size: bytes.u64()? })
        };
        let (attrs, data, _event_types) = (section()?, section()?, section()?);
        let features = [bytes.u64()?, bytes.u64()?, bytes.u64()?, bytes.u64()?];
        Ok(Self::File { attr_size, attrs, data, features })
    }
}

/// Numbers of the features whose bits are set, in section order.
pub(crate) fn feature_numbers(bits: [u64; 4]) -> impl Iterator<Item = u32> {
    (0..256u32).filter(move |bit| {
        bits.get((bit / 64) as usize).is_some_and(|word| word >> (bit % 64) & 1 == 1)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn foreign_files_are_refused() {
        let error = |bytes: &[u8]| Header::read(bytes).expect_err("refused").to_string();
        assert_eq!(error(b""), "the file is empty: give a perf.data file");
        assert_eq!(
            error(b"\x7fELF\x02\x01\x01\0rest"),
            "begins with \"\\x7fELF\\x02\\x01\\x01\\x00\", not with PERFILE2: give a \
             perf.data file"
        );
        assert!(matches!(Header::read(b"2ELIFREP"), Err(Error::BigEndian)));
        assert!(matches!(Header::read(b"PERFFILE"), Err(Error::FirstVersion)));
    }

    #[test]
    fn a_short_header_is_a_pipe() {
        let header = Header::read(b"PERFILE2\x10\0\0\0\0\0\0\0").expect("read");
        assert_eq!(header, Header::Pipe { start: 16 });
    }

    #[test]
    fn a_section_is_cut_at_the_end_of_the_file() {
        let file = [0_u8; 10];
        assert_eq!(Section { offset: 8, size: 100 }.cut_from(&file).len(), 2);
        assert_eq!(Section { offset: u64::MAX, size: u64::MAX }.cut_from(&file).len(), 0);
        assert_eq!(Section { offset: 8, size: 100 }.whole_from(&file), None);
    }
}
