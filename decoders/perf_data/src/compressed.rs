//! `PERF_RECORD_COMPRESSED`: a zstd stream of records, split at arbitrary positions.

use std::io::Write;

use schedlens_input::bytes::u64_at;
use zstd::stream::raw::{Decoder, InBuffer, Operation, OutBuffer};

use crate::error::Error;
use crate::record::{COMPRESSED, COMPRESSED2, Record};

/// The packed bytes of a record, if it contains any.
pub(crate) fn packed<'a>(record: &Record<'a>) -> Option<&'a [u8]> {
    match record.kind {
        COMPRESSED => record.bytes.get(8..),
        COMPRESSED2 => {
            let size = usize::try_from(u64_at(record.bytes, 8)?).ok()?;
            record.bytes.get(16..16_usize.checked_add(size)?)
        }
        _ => None,
    }
}

/// Unpacks the pieces of one stream.
pub(crate) struct Unpacker {
    decoder: Decoder<'static>,
    buffer: Vec<u8>,
}

impl Unpacker {
    /// At the start of a stream.
    pub(crate) fn new() -> Result<Self, Error> {
        Ok(Self { decoder: Decoder::new()?, buffer: vec![0; 1 << 18] })
    }

    /// Writes the contents of a piece to `out`.
    ///
    /// # Errors
    /// The piece is not valid zstd. Its contents up to the damage are written.
    pub(crate) fn unpack(&mut self, packed: &[u8], out: &mut impl Write) -> Result<(), Error> {
        let mut input = InBuffer::around(packed);
        loop {
            let mut output = OutBuffer::around(self.buffer.as_mut_slice());
            let before = input.pos();
            let step = self.decoder.run(&mut input, &mut output);
            let made = output.pos();
            out.write_all(output.as_slice())?;
            step.map_err(|error| Error::Compression { what: error.to_string() })?;
            let room_left = made < self.buffer.len();
            if room_left && (input.pos() == packed.len() || input.pos() == before) {
                return Ok(());
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn stream_split_anywhere_gives_the_same_bytes() {
        let plain: Vec<u8> = (0..200_000_u32).flat_map(|n| (n / 7).to_le_bytes()).collect();
        let packed = zstd::bulk::compress(&plain, 1).expect("packed");
        for piece in [1, 1000, packed.len()] {
            let mut unpacker = Unpacker::new().expect("made");
            let mut found = Vec::new();
            for part in packed.chunks(piece) {
                unpacker.unpack(part, &mut found).expect("unpacked");
            }
            assert_eq!(found.len(), plain.len());
            assert_eq!(found, plain);
        }
    }

    #[test]
    fn bytes_that_are_not_packed_are_refused() {
        let mut unpacker = Unpacker::new().expect("made");
        assert!(unpacker.unpack(b"nonsense, not a frame", &mut Vec::new()).is_err());
    }
}
