//! The pages of a lane, one after the other.

use schedlens_input::bytes::u32_at;

use crate::lane::{CHUNK_HEADER, Lane};
use crate::packing::Unpacker;

/// Unpacked bytes of all lanes together, and those of a file whose bytes are few: its sizes may be
/// damaged.
const MOST_UNPACKED: usize = 512 << 20;
const FEW_UNPACKED: usize = 128 << 20;
/// Unpacked bytes that each byte of a file adds to the few.
const MOST_RATIO: usize = 16;
/// Pages of a chunk: trace-cmd packs 10 together.
const MOST_PAGES: usize = 32;
/// Bytes of a chunk: 10 of the kernel's largest pages.
const MOST_CHUNK: usize = 40 << 20;

/// The largest chunk that is unpacked for one of so many lanes.
fn largest_chunk(file_length: usize, lanes: usize, page_size: usize) -> usize {
    let all = file_length.saturating_mul(MOST_RATIO).saturating_add(FEW_UNPACKED);
    (all.min(MOST_UNPACKED) / lanes.max(1)).min(MOST_PAGES * page_size).min(MOST_CHUNK)
}

/// Some consecutive pages.
enum Chunk<'a> {
    /// In the file.
    Mapped(&'a [u8]),
    /// Unpacked from it.
    Unpacked(Vec<u8>),
}

/// The pages of a lane.
pub(crate) struct Pages<'a> {
    file: &'a [u8],
    lane: &'a Lane,
    /// Largest chunk that is unpacked.
    limit: usize,
    chunk: Chunk<'a>,
    /// Offset of the next page in the chunk.
    next: usize,
    /// The current page.
    page: (usize, usize),
    /// Number of the current page from 0, unreadable ones included.
    number: u32,
    /// Number of the next page.
    next_number: u32,
    /// Offset of the next chunk in the file, and chunks that follow.
    at: usize,
    chunks: u32,
    /// Why chunks before the current page cannot be read.
    broken: Option<String>,
}

impl<'a> Pages<'a> {
    /// In front of the first page of a lane, one of so many.
    pub(crate) fn new(file: &'a [u8], lane: &'a Lane, lanes: usize) -> Self {
        let file = file.get(..lane.end).unwrap_or_default();
        let mut pages = Self {
            file,
            lane,
            limit: largest_chunk(file.len(), lanes, lane.page_size),
            chunk: Chunk::Mapped(&[]),
            next: 0,
            page: (0, 0),
            number: 0,
            next_number: 0,
            at: lane.at,
            chunks: 0,
            broken: None,
        };
        match lane.chunks {
            None => pages.chunk = Chunk::Mapped(file.get(lane.at..).unwrap_or_default()),
            Some(chunks) => (pages.chunks, pages.at) = (chunks, lane.at.saturating_add(4)),
        }
        pages
    }

    fn chunk(&self) -> &[u8] {
        match &self.chunk {
            Chunk::Mapped(bytes) => bytes,
            Chunk::Unpacked(bytes) => bytes,
        }
    }

    /// The current page.
    #[inline(always)]
    pub(crate) fn page(&self) -> &[u8] {
        self.chunk().get(self.page.0..self.page.1).unwrap_or_default()
    }

    /// Its number.
    pub(crate) fn number(&self) -> u32 {
        self.number
    }

    /// Why the pages in front of the current one cannot be read; `None` if they can.
    pub(crate) fn take_broken(&mut self) -> Option<String> {
        self.broken.take()
    }

    /// Advances to the next page; `false` if there is none.
    pub(crate) fn advance(&mut self, unpacker: &mut Unpacker) -> bool {
        while self.next >= self.chunk().len() {
            if self.chunks == 0 {
                return false;
            }
            self.chunks -= 1;
            if let Err(why) = self.unpack(unpacker) {
                self.broken = Some(why);
            }
        }
        let end = (self.next + self.lane.page_size).min(self.chunk().len());
        self.page = (self.next, end);
        self.next = end;
        self.number = self.next_number;
        self.next_number += 1;
        true
    }

    fn unpack(&mut self, unpacker: &mut Unpacker) -> Result<(), String> {
        let mut bytes = match std::mem::replace(&mut self.chunk, Chunk::Mapped(&[])) {
            Chunk::Unpacked(bytes) => bytes,
            Chunk::Mapped(_) => Vec::new(),
        };
        self.next = 0;
        let (Some(packed_size), Some(size)) =
            (u32_at(self.file, self.at), u32_at(self.file, self.at + 4))
        else {
            self.chunks = 0;
            return Err("the file ends before the data does".to_owned());
        };
        let (from, size) = (self.at + CHUNK_HEADER, size as usize);
        let Some(packed) = self.file.get(from..from.saturating_add(packed_size as usize)) else {
            self.chunks = 0;
            return Err("the file ends before the data does".to_owned());
        };
        self.at = from + packed.len();
        let unpacked = if size > self.limit {
            Err(format!("{size} bytes are more than a part may have"))
        } else {
            unpacker.unpack(packed, size, &mut bytes)
        };
        match unpacked {
            Ok(()) => self.chunk = Chunk::Unpacked(bytes),
            // Its size may be damaged, so it counts as one page.
            Err(_) => self.next_number += 1,
        }
        unpacked
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_sizes_that_a_short_file_states_are_not_believed() {
        const MIB: usize = 1 << 20;
        // 10 pages of 4 KiB, as trace-cmd writes them, on as many CPUs as a machine has.
        assert!(largest_chunk(30 * MIB, 2048, 4096) >= 10 * 4096);
        assert!(largest_chunk(4_000, 64, 64 << 10) >= 10 * (64 << 10));
        // 10 pages of 4 MiB, the kernel's largest; those of 8 MiB are damage.
        assert_eq!(largest_chunk(20_000, 2, 4 * MIB), 40 * MIB);
        assert_eq!(largest_chunk(20_000, 2, 8 * MIB), 40 * MIB);
        // All lanes together.
        assert!(64 * largest_chunk(20_000, 64, 4 * MIB) < 129 * MIB);
        assert_eq!(64 * largest_chunk(300 * MIB, 64, 4 * MIB), 512 * MIB);
    }
}
