//! Files mapped into memory, and unnamed temporary files for larger data.

use std::fs::File;
use std::io::{self, Write};
use std::path::Path;
use std::sync::Arc;

use memmap2::MmapOptions;

/// Files up to this size are mapped with all their pages.
const POPULATED_SIZE: u64 = 1 << 30;

/// Bytes of a stream of records.
pub type Segment = Arc<dyn AsRef<[u8]> + Send + Sync>;

/// Maps a file; the contents of a fifo or a terminal are copied first.
///
/// # Errors
/// The operating system returns an error.
pub fn map(path: &Path) -> io::Result<Segment> {
    let mut file = File::open(path)?;
    let facts = file.metadata()?;
    if facts.is_file() {
        return map_file(&file);
    }
    // A fifo or a terminal cannot be mapped.
    let mut spill = Spill::new()?;
    io::copy(&mut file, &mut spill)?;
    spill.into_segment()
}

fn map_file(file: &File) -> io::Result<Segment> {
    let length = file.metadata()?.len();
    if length == 0 {
        return Ok(Arc::new(Vec::new()));
    }
    // One call maps all pages of a file of ordinary size; otherwise each page costs a fault.
    let mut options = MmapOptions::new();
    if length <= POPULATED_SIZE {
        options.populate();
    }
    // SAFETY: the mapping is private and only read. If another process truncates the file
    // meanwhile, this process ends, as does every program that maps files.
    let mapped = unsafe { options.map(file)? };
    Ok(Arc::new(mapped))
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
        map_file(&self.into_file()?)
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
        assert_eq!((*segment).as_ref(), b"records");
    }
}
