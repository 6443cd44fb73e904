//! Packed buffers: a common interface to the formats of `RtlCompressBuffer`.

use super::{lznt1, xpress, xpress_huffman};
use crate::compression::xpress_huffman::Codes;

/// `COMPRESSION_FORMAT_*`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Packing {
    /// `COMPRESSION_FORMAT_LZNT1`.
    Lznt1,
    /// `COMPRESSION_FORMAT_XPRESS`.
    Xpress,
    /// `COMPRESSION_FORMAT_XPRESS_HUFF`.
    XpressHuffman,
}

impl Packing {
    /// By its number in the first buffer; XPRESS if the number is unknown.
    pub(crate) fn of(number: u16) -> Self {
        match number {
            2 => Self::Lznt1,
            4 => Self::XpressHuffman,
            _ => Self::Xpress,
        }
    }

    /// Its name in the documentation.
    pub fn name(self) -> &'static str {
        match self {
            Self::Lznt1 => "LZNT1",
            Self::Xpress => "XPRESS",
            Self::XpressHuffman => "XPRESS_HUFF",
        }
    }
}

/// Unpacks one buffer after another, reusing memory.
#[derive(Default)]
pub(crate) struct Unpacker {
    codes: Option<Box<Codes>>,
}

impl Unpacker {
    /// Unpacks into `out` as far as the data is valid; returns whether all `want` bytes were
    /// written.
    pub(crate) fn unpack(
        &mut self,
        packing: Packing,
        packed: &[u8],
        want: usize,
        out: &mut Vec<u8>,
    ) -> bool {
        // Old bytes are overwritten or cut off, so only growth needs zeroing.
        if out.len() < want + xpress::ROOM {
            out.resize(want + xpress::ROOM, 0);
        }
        let made = match packing {
            Packing::Lznt1 => lznt1::unpack(packed, &mut out[..want]),
            Packing::Xpress => xpress::unpack(packed, out, want),
            Packing::XpressHuffman => {
                let codes = self.codes.get_or_insert_default();
                xpress_huffman::unpack(packed, out, want, codes)
            }
        };
        out.truncate(made.bytes);
        made.whole
    }
}

/// A chunk of 4096 bytes takes at least six packed bytes.
const LZNT1_RATIO: usize = 4096 / 6 + 1;

/// WinSAT's packing: LZNT1 with the unpacked size stated. `None` if the data does not unpack to
/// that size.
pub fn unpack_lznt1(packed: &[u8], size: usize) -> Option<Vec<u8>> {
    if size > packed.len().saturating_mul(LZNT1_RATIO) {
        return None;
    }
    let mut out = vec![0; size];
    lznt1::unpack(packed, &mut out).whole.then_some(out)
}
