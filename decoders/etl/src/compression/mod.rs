//! Packed buffers: the formats of `RtlCompressBuffer`.

pub(crate) mod lznt1;
mod unpack;
mod unpacked;
mod xpress;
mod xpress_huffman;

pub(crate) use self::unpack::Unpacker;
pub use self::unpack::{Packing, unpack_lznt1};
