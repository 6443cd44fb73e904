//! The compression of a file: `none`, `zlib`, or `zstd`.

use flate2::{Decompress, FlushDecompress, Status};
use zstd::bulk::Decompressor;

use crate::error::Error;

/// How the file is compressed, as its header says.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Packing {
    None,
    Zlib,
    Zstd,
}

impl Packing {
    /// # Errors
    /// The name is not known.
    pub(crate) fn named(name: &str) -> Result<Self, Error> {
        match name {
            "none" => Ok(Self::None),
            "zlib" => Ok(Self::Zlib),
            "zstd" => Ok(Self::Zstd),
            other => Err(Error::Compression { found: other.escape_default().to_string() }),
        }
    }
}

/// Unpacks the blocks of a file one by one.
pub(crate) enum Unpacker {
    None,
    Zlib(Box<Decompress>),
    Zstd(Box<Decompressor<'static>>),
}

impl Unpacker {
    /// # Errors
    /// The decompressor cannot be created.
    pub(crate) fn new(packing: Packing) -> std::io::Result<Self> {
        Ok(match packing {
            Packing::None => Self::None,
            Packing::Zlib => Self::Zlib(Box::new(Decompress::new(true))),
            Packing::Zstd => Self::Zstd(Box::new(Decompressor::new()?)),
        })
    }

    /// Unpacks a block whose size is stated into `out`, which has that size afterwards.
    ///
    /// # Errors
    /// Why it cannot be unpacked. Nothing is ever written beyond the stated size, so that a block
    /// cannot fill the memory; the caller limits the size.
    pub(crate) fn unpack(
        &mut self,
        packed: &[u8],
        size: usize,
        out: &mut Vec<u8>,
    ) -> Result<(), String> {
        out.clear();
        out.reserve_exact(size);
        out.resize(size, 0);
        let made = match self {
            Self::None => return Err("the file is not compressed".to_owned()),
            Self::Zlib(state) => {
                state.reset(true);
                let status = state
                    .decompress(packed, out, FlushDecompress::Finish)
                    .map_err(|error| error.to_string())?;
                if status != Status::StreamEnd {
                    return Err("it does not end within its stated size".to_owned());
                }
                usize::try_from(state.total_out()).unwrap_or(usize::MAX)
            }
            Self::Zstd(state) => state
                .decompress_to_buffer(packed, out.as_mut_slice())
                .map_err(|error| error.to_string())?,
        };
        if made != size {
            return Err(format!("{made} bytes instead of {size}"));
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use std::io::Write;

    use flate2::Compression;
    use flate2::write::ZlibEncoder;

    use super::*;

    fn zlib(plain: &[u8]) -> Vec<u8> {
        let mut encoder = ZlibEncoder::new(Vec::new(), Compression::fast());
        encoder.write_all(plain).expect("packed");
        encoder.finish().expect("packed")
    }

    #[test]
    fn both_compressions_give_the_bytes_of_the_stated_size_only() {
        let plain: Vec<u8> = (0..40_960_u32).map(|n| (n / 7) as u8).collect();
        let zstd = zstd::bulk::compress(&plain, 1).expect("packed");
        for (packing, packed) in [(Packing::Zlib, zlib(&plain)), (Packing::Zstd, zstd)] {
            let mut unpacker = Unpacker::new(packing).expect("made");
            let mut out = Vec::new();
            for _ in 0..2 {
                unpacker.unpack(&packed, plain.len(), &mut out).expect("unpacked");
                assert_eq!(out, plain);
            }
            for wrong in [0, plain.len() - 1, plain.len() + 1] {
                assert!(unpacker.unpack(&packed, wrong, &mut out).is_err(), "{packing:?} {wrong}");
                assert!(out.capacity() <= plain.len() + 1);
            }
            for cut in [0, 1, packed.len() / 2, packed.len() - 1] {
                assert!(unpacker.unpack(&packed[..cut], plain.len(), &mut out).is_err());
            }
        }
    }

    #[test]
    fn an_unknown_compression_is_refused_by_name() {
        let error = Packing::named("lzo\n").expect_err("refused");
        assert!(error.to_string().starts_with("compressed with lzo\\n: not supported"), "{error}");
    }
}
