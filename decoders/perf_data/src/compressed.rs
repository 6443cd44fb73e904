//! `PERF_RECORD_COMPRESSED`: a zstd stream of records, split at arbitrary positions.

use std::io::Write;

use schedlens_input::bytes::u64_at;
use zstd::stream::raw::{Decoder, InBuffer, Operation, OutBuffer};

use crate::error::Error;
use crate::record::{COMPRESSED, COMPRESSED2, Record};

/// Records shrink to a tenth or so. What unpacks to this many times its size was made to fill a disk.
const MOST_TIMES: u64 = 256;
/// Less than this is never too much.
const ALWAYS_FITS: u64 = 1 << 20;

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
    taken: u64,
    made: u64,
}

impl Unpacker {
    /// At the start of a stream.
    pub(crate) fn new() -> Result<Self, Error> {
        Ok(Self { decoder: Decoder::new()?, buffer: vec![0; 1 << 18], taken: 0, made: 0 })
    }

    /// Writes the contents of a piece to `out`.
    ///
    /// # Errors
    /// The piece is not valid zstd, or the stream unpacks to many times its size. Its contents up to
    /// there are written.
    pub(crate) fn unpack(&mut self, packed: &[u8], out: &mut impl Write) -> Result<(), Error> {
        let mut input = InBuffer::around(packed);
        loop {
            let mut output = OutBuffer::around(self.buffer.as_mut_slice());
            let before = input.pos();
            let step = self.decoder.run(&mut input, &mut output);
            let made = output.pos();
            out.write_all(output.as_slice())?;
            self.made += made as u64;
            let most = MOST_TIMES * (self.taken + input.pos() as u64) + ALWAYS_FITS;
            if self.made > most {
                let what = format!("they unpack to more than {MOST_TIMES} times their size");
                return Err(Error::Compression { what });
            }
            step.map_err(|error| Error::Compression { what: error.to_string() })?;
            let room_left = made < self.buffer.len();
            if room_left && (input.pos() == packed.len() || input.pos() == before) {
                self.taken += packed.len() as u64;
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
    fn a_bomb_is_refused_before_it_fills_the_disk() {
        let packed = zstd::bulk::compress(&vec![0; 1 << 26], 1).expect("packed");
        let mut found = Vec::new();
        let refused = Unpacker::new().expect("made").unpack(&packed, &mut found);
        assert!(matches!(refused, Err(Error::Compression { .. })));
        assert!(found.len() < packed.len() * 256 + (1 << 20) + (1 << 18));
    }

    #[test]
    fn bytes_that_are_not_packed_are_refused() {
        let mut unpacker = Unpacker::new().expect("made");
        assert!(unpacker.unpack(b"nonsense, not a frame", &mut Vec::new()).is_err());
    }
}
