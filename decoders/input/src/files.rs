//! Files mapped into memory, and unnamed temporary files for larger data.

use std::fs::File;
use std::io::{self, Write};
use std::ops::Range;
use std::path::Path;
use std::sync::Arc;

use memmap2::{Mmap, MmapOptions};

/// Files up to this size remain in memory with all their pages; those of larger ones are released
/// once read.
const WHOLE_SIZE: usize = 256 << 20;

/// Bytes of a stream of records.
pub type Segment = Arc<Mapped>;

/// The bytes of a file, mapped or in memory.
pub enum Mapped {
    /// A file.
    File(Mmap),
    /// Any other source.
    Memory(Vec<u8>),
}

impl Mapped {
    /// Maps a file; the contents of a fifo or a terminal are copied first.
    ///
    /// # Errors
    /// The operating system returns an error.
    pub fn open(path: &Path) -> io::Result<Self> {
        let mut file = File::open(path)?;
        if file.metadata()?.is_file() {
            return Self::of_file(&file);
        }
        // A fifo or a terminal cannot be mapped.
        let mut spill = Spill::new()?;
        io::copy(&mut file, &mut spill)?;
        Self::of_file(&spill.into_file()?)
    }

    /// Maps an open file.
    ///
    /// # Errors
    /// The operating system returns an error.
    pub fn of_file(file: &File) -> io::Result<Self> {
        if file.metadata()?.len() == 0 {
            return Ok(Self::Memory(Vec::new()));
        }
        // SAFETY: the mapping is private and only read. If another process truncates the file
        // meanwhile, this process ends, as does every program that maps files.
        Ok(Self::File(unsafe { MmapOptions::new().map(file)? }))
    }

    /// All of it.
    #[inline]
    pub fn bytes(&self) -> &[u8] {
        match self {
            Self::File(mapped) => mapped,
            Self::Memory(bytes) => bytes,
        }
    }

    /// Whether it is so large that its pages should be released once read.
    pub fn is_large(&self) -> bool {
        matches!(self, Self::File(mapped) if mapped.len() > WHOLE_SIZE)
    }

    /// Fetches pages together, because a fault per page is slow.
    pub fn fetch(&self, range: Range<usize>) {
        #[cfg(target_os = "linux")]
        if let Self::File(mapped) = self {
            // Older kernels do not support this; then the pages fault in one by one.
            let _ = mapped.advise_range(memmap2::Advice::PopulateRead, range.start, range.len());
        }
        #[cfg(not(target_os = "linux"))]
        let _ = range;
    }

    /// Releases pages, so that memory does not grow with the file. They can be read again.
    pub fn let_go(&self, range: Range<usize>) {
        #[cfg(target_os = "linux")]
        if let Self::File(mapped) = self {
            // SAFETY: the mapping is private and never written, so its pages can be reloaded from
            // the file.
            let _ = unsafe {
                mapped.unchecked_advise_range(
                    memmap2::UncheckedAdvice::DontNeed,
                    range.start,
                    range.len(),
                )
            };
        }
        #[cfg(not(target_os = "linux"))]
        let _ = range;
    }
}

impl AsRef<[u8]> for Mapped {
    fn as_ref(&self) -> &[u8] {
        self.bytes()
    }
}

/// A file as a [`Segment`]. One that is not large is fetched as a whole.
///
/// # Errors
/// As [`Mapped::open`].
pub fn map(path: &Path) -> io::Result<Segment> {
    Ok(ready(Mapped::open(path)?))
}

fn ready(mapped: Mapped) -> Segment {
    if !mapped.is_large() {
        mapped.fetch(0..mapped.bytes().len());
    }
    Arc::new(mapped)
}

/// Reads through a segment from its begin to its end: pages of a large one are fetched ahead and
/// released behind.
pub struct Pages<'a> {
    segment: &'a Mapped,
    /// Released up to here.
    behind: usize,
    /// Fetched up to here.
    ahead: usize,
}

impl<'a> Pages<'a> {
    /// As many bytes are fetched at once.
    pub const STEP: usize = 8 << 20;

    /// Nothing has been read.
    pub fn new(segment: &'a Mapped) -> Self {
        Self { segment, behind: 0, ahead: 0 }
    }

    /// Everything before `from` has been read, and bytes up to `to` at least.
    pub fn advance(&mut self, from: usize, to: usize) {
        if !self.segment.is_large() {
            return;
        }
        let length = self.segment.bytes().len();
        if to.saturating_add(Self::STEP / 2) > self.ahead && self.ahead < length {
            let start = self.ahead.max(to).min(length);
            self.ahead = start.saturating_add(Self::STEP).min(length);
            self.segment.fetch(start..self.ahead);
        }
        if from >= self.behind.saturating_add(Self::STEP) {
            self.segment.let_go(self.behind..from.min(length));
            self.behind = from;
        }
    }
}

/// An unnamed temporary file for data that does not fit in memory: unpacked records.
pub struct Spill {
    file: io::BufWriter<File>,
    length: u64,
}

impl Spill {
    /// An empty file in the system's temporary folder.
    ///
    /// # Errors
    /// The operating system returns an error.
    pub fn new() -> io::Result<Self> {
        let file = io::BufWriter::with_capacity(1 << 20, tempfile::tempfile()?);
        Ok(Self { file, length: 0 })
    }

    /// Bytes written so far.
    pub fn length(&self) -> u64 {
        self.length
    }

    /// The written bytes, mapped.
    pub fn into_segment(self) -> io::Result<Segment> {
        Ok(ready(Mapped::of_file(&self.into_file()?)?))
    }

    /// The written bytes, as a file.
    pub fn into_file(self) -> io::Result<File> {
        self.file.into_inner().map_err(io::IntoInnerError::into_error)
    }
}

impl Write for Spill {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let written = self.file.write(bytes)?;
        self.length += written as u64;
        Ok(written)
    }

    fn flush(&mut self) -> io::Result<()> {
        self.file.flush()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn spill_returns_what_was_written_and_leaves_no_file() {
        let mut spill = Spill::new().expect("made");
        spill.write_all(b"records").expect("written");
        assert_eq!(spill.length(), 7);
        let segment = spill.into_segment().expect("mapped");
        assert_eq!(segment.bytes(), b"records");
    }

    #[test]
    fn released_pages_can_be_read_again() {
        let mut spill = Spill::new().expect("made");
        let size = WHOLE_SIZE + (1 << 20);
        let block: Vec<u8> = (0..1 << 20).map(|at| (at % 251) as u8).collect();
        for _ in 0..size / block.len() {
            spill.write_all(&block).expect("written");
        }
        let segment = spill.into_segment().expect("mapped");
        assert!(segment.is_large());
        let mut pages = Pages::new(&segment);
        let sum = |pages: &mut Pages<'_>| -> u64 {
            (0..size)
                .step_by(4096)
                .map(|at| {
                    pages.advance(at, at);
                    u64::from(segment.bytes()[at])
                })
                .sum()
        };
        let first = sum(&mut pages);
        assert!(pages.behind > WHOLE_SIZE / 2);
        assert_eq!(sum(&mut Pages::new(&segment)), first);
    }
}
